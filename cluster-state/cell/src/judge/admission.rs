//! Judging the two passes of an admission: nothing is placed before its checks are ready, and nothing is reserved that
//! may not be.

use crate::cell::Cell;
use crate::rooms::reads::{may_reserve, standing_in};
use crate::rooms::strict_order::is_in_turn;
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use ohm_model::ConflictReason;

/// Whether tasks of `job` may be placed, as far as the checks of its queue go.
pub(super) fn judge_admitted(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Result<(), ConflictReason> {
    if standing_in(cell, job, queue).may_place() { Ok(()) } else { Err(ConflictReason::NotReserved) }
}

/// Whether quota of `job` may be reserved: not while it waits for another attempt, nor for a class nobody knows.
pub(super) fn judge_pass_one(cell: &Cell, job: &Job) -> Result<(), ConflictReason> {
    if may_reserve(cell, job) { Ok(()) } else { Err(ConflictReason::NotReserved) }
}

/// Whether it is the turn of `job` to start, where it waits in a StrictFIFO queue.
pub(super) fn judge_turn(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Result<(), ConflictReason> {
    if is_in_turn(cell, job, queue) { Ok(()) } else { Err(ConflictReason::OutOfTurn) }
}
