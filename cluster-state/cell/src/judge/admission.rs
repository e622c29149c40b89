//! Judging the two passes of an admission, stop policies, and back-offs: nothing is placed before its checks are ready,
//! nothing is reserved that may not be, nothing of a held queue starts, and no job that was not ready in time does
//! before its back-off is over.

use crate::cell::Cell;
use crate::rooms::checks::{admission_in, may_reserve, standing_in};
use crate::rooms::stops::{held_back, may_go_on, stop_policy_for};
use crate::rooms::strict_order::is_in_turn;
use crate::state::admission::Standing;
use crate::state::jobs::{Group, Job};
use crate::state::quota::QueueId;
use ohm_model::{ConflictReason, Placement, StopPolicy};

/// Whether tasks of `job` may be placed, as far as the checks of its queue and its stop policy go. What comes back with
/// its node is no start: it ran all along.
pub(super) fn judge_admitted(
    cell: &Cell,
    job: &Job,
    queue: Option<QueueId>,
    is_adopted: bool,
) -> Result<(), ConflictReason> {
    let standing = match standing_in(cell, job, queue) {
        Standing::Held(StopPolicy::Hold) if is_adopted => admission_in(cell, job, queue),
        standing => standing,
    };
    match standing {
        Standing::Free | Standing::Ready => Ok(()),
        Standing::Held(_) => Err(ConflictReason::QueueHeld),
        Standing::TimedOut(until_ms) => Err(ConflictReason::BacksOff(until_ms)),
        _ => Err(ConflictReason::NotReserved),
    }
}

/// Whether quota of `job` may be reserved: not while it waits for another attempt, nor for a class nobody knows, nor in
/// a held queue.
pub(super) fn judge_pass_one(cell: &Cell, job: &Job) -> Result<(), ConflictReason> {
    judge_not_held(cell, job)?;
    if may_reserve(cell, job) { Ok(()) } else { Err(ConflictReason::NotReserved) }
}

/// Whether it is the turn of `job` to start, where it waits in a StrictFIFO queue.
pub(super) fn judge_turn(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Result<(), ConflictReason> {
    if is_in_turn(cell, job, queue) { Ok(()) } else { Err(ConflictReason::OutOfTurn) }
}

/// Whether what waits of `job` may ask for anything, as far as the stop policy of its queue goes, and its own back-off.
pub(super) fn judge_not_held(cell: &Cell, job: &Job) -> Result<(), ConflictReason> {
    if held_back(cell, job, cell.quota.find(&job.spec.queue)).is_some() {
        return Err(ConflictReason::QueueHeld);
    }
    job.readiness.backs_off_until().map_or(Ok(()), |until_ms| Err(ConflictReason::BacksOff(until_ms)))
}

/// Whether these tasks of a job that goes on in a held queue may be placed.
pub(super) fn judge_going_on(
    cell: &Cell,
    (job, group): (&Job, &Group),
    queue: Option<QueueId>,
    row: &Placement,
) -> Result<(), ConflictReason> {
    let tasks = row.first.0..row.first.0.saturating_add(row.count);
    match stop_policy_for(cell, job, queue).is_some() && !may_go_on(job, group, tasks) {
        true => Err(ConflictReason::QueueHeld),
        false => Ok(()),
    }
}
