//! Judging the two passes of an admission: nothing is placed before its checks are ready, and nothing is reserved that
//! may not be.

use super::Judge;
use crate::rooms::reads::may_reserve;
use crate::state::jobs::Job;
use ohm_model::ConflictReason;

impl Judge<'_> {
    /// Whether tasks of `job` may be placed, as far as its queue's checks go.
    pub(super) fn judge_admitted(&self, job: &Job) -> Result<(), ConflictReason> {
        if self.cell.standing(job).may_place() { Ok(()) } else { Err(ConflictReason::NotReserved) }
    }

    /// Whether quota of `job` may be reserved: not while it waits for another attempt, nor for a class nobody knows.
    pub(super) fn judge_pass_one(&self, job: &Job) -> Result<(), ConflictReason> {
        if may_reserve(self.cell, job) { Ok(()) } else { Err(ConflictReason::NotReserved) }
    }
}
