//! P2: a task has at most one live run, and what lives on elsewhere is known.

use crate::cell::Cell;
use crate::check::timers::is_armed;
use crate::state::jobs::{JobState, TaskState};
use crate::state::kept::KeptRun;
use crate::state::runs::Run;
use crate::state::timers::Timer;
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
    check_health(cell, run, broken);
    if cell.shapes.get(run.shape).is_none() {
        broken.push(format!("P1: run {} has a shape that is gone", run.run));
    }
    if cell.nodes.get(run.node).is_none() {
        broken.push(format!("P2: run {} is on a node that is gone", run.run));
    }
}

/// Of a run that runs something is known of its readiness exactly where probes decide about that. One that waits in
/// place is looked at when it has waited for long enough.
fn check_health(cell: &Cell, run: &Run, broken: &mut Vec<String>) {
    let at = usize::from(run.run.task.group.0);
    let job = cell.jobs.get(run.run.task.job).filter(|job| at < job.groups.len());
    let probes = job.and_then(|job| job.content(at, run.revision).task.probes.as_ref());
    let gates = probes.is_some_and(|probes| probes.gates_readiness());
    if run.started_ms != 0 && run.health.is_some() != gates {
        broken.push(format!("run {} runs with {:?}, and probes {probes:?}", run.run, run.health));
    }
    if run.started_ms == 0 && run.health.as_ref().is_some_and(|health| health.ready || health.starts_ms == 0) {
        broken.push(format!("run {} does not run, with {:?}", run.run, run.health));
    }
    if let Some(starts_ms) = run.starts_ms()
        && !is_armed(cell, starts_ms, Timer::Start(run.run.task, run.run.incarnation))
    {
        broken.push(format!("run {} waits beyond the time at which it may be started", run.run));
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
