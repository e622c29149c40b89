//! P2: a task has at most one live run, and what lives on elsewhere is known.

use crate::cell::Cell;
use crate::state::jobs::{JobState, TaskState};
use crate::state::kept::KeptRun;
use crate::state::runs::Run;
use ohm_model::{NodeHealth, RunRef};
/// P2: a live run is the one its task names, and so the only one of its task.
pub(crate) fn sweep_run(cell: &Cell, slot: u32, run: &Run, broken: &mut Vec<String>) {
    let task = cell
        .jobs
        .get(run.run.task.job)
        .and_then(|job| job.groups.get(usize::from(run.run.task.group.0))?.tasks.get(run.run.task.task.0 as usize));
    if !task.is_some_and(|task| task.run == slot && task.incarnation == run.run.incarnation) {
        broken.push(format!("P2: run {} is not the one run of its task", run.run));
    }
    if cell.shapes.get(run.shape).is_none() {
        broken.push(format!("P1: run {} has a shape that is gone", run.run));
    }
    if cell.nodes.get(run.node).is_none() {
        broken.push(format!("P2: run {} is on a node that is gone", run.run));
    }
}

/// P2, P6: what is kept is of a job that may go on and says so; it is away with its node, or back and about to
/// stand.
pub(crate) fn check_kept(cell: &Cell, broken: &mut Vec<String>) {
    for (run, kept) in cell.kept.iter() {
        let Some(job) = cell.jobs.get(run.task.job).filter(|job| job.state == JobState::Active) else {
            broken.push(format!("P6: run {run} is kept although its job is over"));
            continue;
        };
        let group = job.groups.get(usize::from(run.task.group.0));
        let Some(task) = group.and_then(|group| group.tasks.get(run.task.task.0 as usize)) else {
            broken.push(format!("P2: run {run} of job {} is kept without a task", job.spec.name));
            continue;
        };
        let standing = cell.runs.get(task.run).map(|standing| standing.run);
        if standing == Some(*run) || task.attempts < run.incarnation {
            broken.push(format!("P2: run {run} of job {} is kept and live", job.spec.name));
        }
        let in_the_way = |run: RunRef, kept: &KeptRun| {
            let task = &job.groups[usize::from(run.task.group.0)].tasks[run.task.task.0 as usize];
            let standing = cell.runs.get(task.run).map(|standing| standing.run.incarnation);
            task.state == TaskState::Live && kept.back == Some(standing)
        };
        let others = || job.starts_whole() && cell.kept.of_job(job.id).any(|(other, kept)| in_the_way(*other, kept));
        if kept.back.is_some() && !in_the_way(*run, kept) && !others() {
            broken.push(format!("P10: run {run} of job {} lives on, and waits for nothing", job.spec.name));
        }
        let health = cell.nodes.get(kept.node).map(|record| record.health);
        let away = health == Some(NodeHealth::Lost);
        if health.is_none() || away != kept.back.is_none() {
            broken.push(format!("P2: kept run {run} of job {}: {:?} on a node {health:?}", job.spec.name, kept.back));
        }
    }
}
