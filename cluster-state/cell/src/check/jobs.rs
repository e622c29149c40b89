//! What must hold of one job: its sums, and P4, P5 and P6.

use crate::cell::Cell;
use crate::check::admission::check_admission;
use crate::check::claims::check_claims;
use crate::check::heads::check_head;
use crate::check::ready::check_readiness;
use crate::check::repairs::check_repair;
use crate::check::rollouts::check_rollout;
use crate::check::spares::check_spares;
use crate::check::start_deadlines::check_start_deadline;
use crate::check::stops::check_stop;
use crate::state::jobs::{Job, JobState, Task, TaskState, required_level};
use crate::state::runs::{NO_RUN, Run};
use std::collections::BTreeSet;
pub(crate) fn check_job_sums(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
        let mut counts = [0; TaskState::Removed as usize + 1];
        group.tasks.iter().for_each(|task| counts[task.state as usize] += 1);
        let count = |state: TaskState| counts[state as usize];
        let label = || format!("job {} group {}", job.spec.name, spec.name);
        let removed = || group.tasks.iter().skip(spec.count as usize);
        let stops = |task: &&Task| cell.runs.get(task.run).is_some_and(|run| run.stop.is_some());
        let leaving = removed().filter(|task| task.state == TaskState::Live).filter(stops).count() as u32;
        // What is beyond the count has left, or is about to; the last of them always is about to.
        let beyond = leaving + count(TaskState::Removed);
        if removed().last().is_some_and(|task| task.state == TaskState::Removed) {
            broken.push(format!("{}: removed tasks are kept although no run of them is left", label()));
        }
        let sums = [
            ("live", group.live, count(TaskState::Live)),
            ("pending", group.pending.len(), count(TaskState::Pending)),
            ("backing off", group.backing_off, count(TaskState::BackingOff)),
            ("held", group.held, count(TaskState::Held)),
            ("succeeded", group.succeeded, count(TaskState::Succeeded)),
            ("failed", group.failed, count(TaskState::Failed)),
            ("skipped", group.skipped, count(TaskState::Skipped)),
            ("tasks", spec.count, group.tasks.iter().take(spec.count as usize).count() as u32),
            ("removed", group.tasks.len() as u32 - spec.count.min(group.tasks.len() as u32), beyond),
            ("leaving", group.leaving, leaving),
        ];
        let stopping = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)?.stop).count() as u32;
        let causes = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)?.stop);
        let driven = causes.filter(|cause| cause.is_loss()).count() as u32;
        let running = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)).filter(|run| run.started_ms > 0);
        let unready = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)).filter(|run| run.is_unready());
        let live = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
        let reshaped = live.filter(|run| run.shape != group.shape).count() as u32;
        let sums = sums.into_iter().chain([
            ("stopping", group.stopping, stopping),
            ("driven away", group.driven, driven),
            ("running", group.running, running.count() as u32),
            ("not ready", group.unready, unready.count() as u32),
            ("reshaped", group.reshaped, reshaped),
        ]);
        for (what, kept, counted) in sums {
            if kept != counted {
                broken.push(format!("{}: {kept} {what} kept, {counted} counted", label()));
            }
        }
        for (index, task) in group.tasks.iter().enumerate() {
            let live = cell.runs.get(task.run).is_some();
            if (task.state == TaskState::Live) != live || (task.run != NO_RUN) != live {
                broken.push(format!("P2: {} task {index} is {:?} with run slot {}", label(), task.state, task.run));
            }
            if (task.state == TaskState::Pending) != group.pending.contains(index as u32, 1) {
                broken.push(format!("{} task {index} is {:?} against the pending set", label(), task.state));
            }
        }
    }
}

/// P4, P5, P6 for one job.
pub(crate) fn check_job_promises(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    check_repair(cell, job, broken);
    check_admission(cell, job, broken);
    check_spares(cell, job, broken);
    check_claims(cell, job, broken);
    check_head(cell, job, broken);
    check_stop(cell, job, broken);
    check_start_deadline(cell, job, broken);
    check_readiness(cell, job, broken);
    check_rollout(cell, job, broken);
    let closed = job.state != JobState::Active;
    if !matches!(job.state, JobState::Finished(_)) && cell.profiles.kind(job.spec.class) != Some(job.kind) {
        let (name, class) = (&job.spec.name, job.spec.class);
        broken.push(format!("job {name} is like {:?}, which class {class} is not", job.kind));
    }
    for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let label = format!("job {} group {}", job.spec.name, spec.name);
        if group.live > 0 && !group.started {
            broken.push(format!("P4: {label} holds {} tasks without having started", group.live));
        }
        let runs: Vec<&Run> = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)).collect();
        if closed && runs.iter().any(|run| run.placed > job.version || run.stop.is_none()) {
            broken.push(format!("P6: {label} is {} and has a run that is not stopping", job.phase()));
        }
        if required_level(spec).is_some() {
            check_domain(cell, job, at, &runs, broken);
        }
    }
}

/// P5: every run that is not to stop is in its group's domain, and groups placed together share one.
fn check_domain(cell: &Cell, job: &Job, at: usize, runs: &[&Run], broken: &mut Vec<String>) {
    let (group, spec) = (&job.groups[at], &job.spec.groups[at]);
    let label = format!("job {} group {}", job.spec.name, spec.name);
    if group.widened && (job.spec.repair.policy != ohm_model::RepairPolicy::Widen || group.domain.is_none()) {
        broken.push(format!("P5: {label} left its domain, and may not"));
    }
    let staying = runs.iter().filter(|run| run.stop.is_none());
    let outside = staying.filter(|run| cell.domain_key(job, at, run.node) != group.domain).count();
    if outside > 0 {
        broken.push(format!("P5: {outside} tasks of {label} run outside its domain {:?}", group.domain));
    }
    if (group.live > 0) != group.domain.is_some() {
        broken.push(format!("P5: {label}: domain {:?} with {} live", group.domain, group.live));
    }
    let domains: BTreeSet<u32> = job.partners(at).filter_map(|other| job.groups[other].domain).collect();
    if domains.len() > 1 {
        broken.push(format!("P5: {label} and those placed with it run in domains {domains:?}"));
    }
}
