//! What the stop policy of a queue keeps from being placed.
//!
//! A job of a held queue goes on while something of it stands or moves, or its quota is reserved: what was placed of it
//! before is placed again, for a repair, a retry or a move. Tasks that never stood would take new quota, and wait.

use crate::cell::Cell;
use crate::state::jobs::{Group, Job, JobState, Task};
use crate::state::quota::QueueId;
use ohm_model::{GroupIndex, StopPolicy};
use ohm_stdx::RangeSet;

/// The stop policy of the job's queue, where it keeps anything back.
pub fn stop_policy_of(cell: &Cell, job: &Job) -> Option<StopPolicy> {
    stop_policy(cell, cell.quota.find(&job.spec.queue))
}

/// Whether tasks of the group wait that may be placed, as far as the stop policy of the queue goes.
pub fn goes_on(cell: &Cell, job: &Job, group: GroupIndex) -> bool {
    let Some(found) = job.groups.get(usize::from(group.0)).filter(|found| !found.pending.is_empty()) else {
        return false;
    };
    stop_policy_for(cell, job, cell.quota.find(&job.spec.queue)).is_none() || any_goes_on(job, found)
}

/// The stop policy of `queue`, where it keeps anything back.
pub(crate) fn stop_policy(cell: &Cell, queue: Option<QueueId>) -> Option<StopPolicy> {
    let policy = cell.quota.at(queue?).spec.stop_policy;
    (policy != StopPolicy::None).then_some(policy)
}

/// The same for what waits of `job`: quota that is reserved is its own.
pub(crate) fn stop_policy_for(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Option<StopPolicy> {
    stop_policy(cell, queue).filter(|_| job.reserved.is_empty())
}

/// The stop policy that keeps all that waits of `job` from being placed.
pub(crate) fn held_back(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Option<StopPolicy> {
    let policy = stop_policy_for(cell, job, queue).filter(|_| job.state == JobState::Active)?;
    let is_whole = job.stands() && job.pending() == 0;
    let goes_on = is_whole || job.groups.iter().any(|group| any_goes_on(job, group));
    (!goes_on).then_some(policy)
}

/// Whether a held queue lets all these tasks of the group be placed; `job` is as the cell has it.
pub(crate) fn may_go_on(job: &Job, group: &Group, mut tasks: impl Iterator<Item = u32>) -> bool {
    let stands = job.stands();
    tasks.all(|task| task_goes_on(stands, group, task))
}

/// Takes from `tasks` of a group those that a held queue keeps back; `job` is as the cell has it.
pub(crate) fn keep_back(job: &Job, group: &Group, tasks: &mut RangeSet) {
    let stands = job.stands();
    let kept: Vec<u32> = tasks.values().filter(|task| !task_goes_on(stands, group, *task)).collect();
    kept.into_iter().for_each(|task| tasks.remove(task, 1));
}

fn any_goes_on(job: &Job, group: &Group) -> bool {
    let stands = job.stands();
    (stands || !group.moving.is_empty()) && group.pending.values().any(|task| task_goes_on(stands, group, task))
}

fn task_goes_on(stands: bool, group: &Group, task: u32) -> bool {
    group.moving.contains(task, 1) || (stands && group.tasks.get(task as usize).is_some_and(Task::was_placed))
}
