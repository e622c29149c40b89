//! Rollouts: what waits is of the revision that is placed, what runs is of a revision that is known, and nothing is
//! held without one.

use crate::cell::Cell;
use crate::check::timers::is_armed;
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::rollouts::Rollout;
use crate::state::timers::Timer;

pub(super) fn check_rollout(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    let Some(rollout) = job.rollout() else {
        if job.groups.iter().any(|group| group.held > 0) {
            broken.push(format!("job {name} holds tasks back without a rollout"));
        }
        return check_history(cell, job, broken);
    };
    check_history(cell, job, broken);
    if rollout.groups.len() != job.groups.len() || rollout.declared.groups.len() != job.groups.len() {
        broken.push(format!("job {name} rolls out other groups than it has"));
        return;
    }
    if rollout.due_ms != 0 && !is_armed(cell, rollout.due_ms, Timer::Rollout(job.id)) {
        broken.push(format!("job {name} is not looked at at {} as its rollout needs", rollout.due_ms));
    }
    (0..job.groups.len()).for_each(|at| check_group(job, rollout, at, broken));
}

/// Every revision that something runs of is known, and the present one is the last.
fn check_history(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let Some(rollouts) = &job.rollouts else { return };
    let name = &job.spec.name;
    let present = rollouts.history.last().map(|revision| revision.number);
    if present.is_none() || rollouts.open.as_ref().is_some_and(|open| Some(open.number) != present) {
        broken.push(format!("job {name} is at revision {present:?}, and rolls out {:?}", rollouts.open));
    }
    for (at, group) in job.groups.iter().enumerate() {
        let runs = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
        let unknown = |revision: u32| revision != group.revision && rollouts.content(at, revision).is_none();
        if let Some(run) = runs.into_iter().find(|run| unknown(run.revision)) {
            broken.push(format!("run {} is of revision {}, which is not known", run.run, run.revision));
        }
    }
}

/// While the job may be placed, what waits is of the revision that is placed.
fn check_group(job: &Job, rollout: &Rollout, at: usize, broken: &mut Vec<String>) {
    let (group, name) = (&job.groups[at], &job.spec.name);
    let of = |task: u32| {
        let group = &rollout.groups[at];
        group.restore.get(&task).map_or(group.target, |former| former.revision)
    };
    let is_wrong = |task: &u32| of(*task) != group.revision;
    if job.state == JobState::Active
        && let Some(task) = group.pending.values().find(is_wrong)
    {
        let (is, wants) = (group.revision, of(task));
        broken.push(format!("task {at}/{task} of {name} waits to be of revision {wants}, and {is} is placed"));
    }
    for task in rollout.groups[at].restore.keys() {
        let state = group.tasks.get(*task as usize).map(|task| task.state);
        if !matches!(state, Some(TaskState::Pending | TaskState::BackingOff | TaskState::Held)) {
            broken.push(format!("task {at}/{task} of {name} is to be restored and is {state:?}"));
        }
    }
}
