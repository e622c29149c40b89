//! Heads of lines: which job may keep, before it fits, what becomes free where it is to stand.
//!
//! A line is a queue; jobs without one stand in the line of their class. A job that has waited for room as long as its
//! profile says (`headPatienceSeconds`) becomes the head of its line, unless an equally important one is. Jobs behind
//! it would otherwise take, one by one, all that becomes free, and a large gang would wait for ever.

use crate::cell::Cell;
use crate::rooms::checks::standing_as_is;
use crate::state::jobs::{Job, JobState};
use ohm_model::JobId;

/// A head keeps room for so long at most.
pub const HEAD_MS_MAX: u64 = 2 * 3_600_000;

/// Why a job does not become the head of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// Nothing of it waits to be placed.
    NothingWaits,
    /// Room is kept for it already, for a start at this stamped time, in milliseconds: only an earlier one is better.
    IsHead(u64),
    /// It has not waited long enough: not before this stamped time, in milliseconds.
    Impatient(u64),
    /// The line has a head that is as important.
    Behind(JobId),
}

/// Whether `job` may become the head of its line now.
///
/// # Errors
/// Says why it may not.
pub fn may_head(cell: &Cell, job: &Job) -> Result<(), NoHead> {
    let may_place = job.state == JobState::Active && cell.standing(job).may_place();
    if !may_place || job.groups.iter().all(|group| group.pending.is_empty()) {
        return Err(NoHead::NothingWaits);
    }
    if let Some(start_ms) = cell.nominations.head_start_ms(job.id) {
        return Err(NoHead::IsHead(start_ms));
    }
    let due_ms = patient_until_ms(cell, job);
    if cell.now_ms < due_ms {
        return Err(NoHead::Impatient(due_ms));
    }
    let ahead = others_at_head(cell, job).find(|other| other.spec.priority >= job.spec.priority);
    ahead.map_or(Ok(()), |other| Err(NoHead::Behind(other.id)))
}

/// Whether nothing but room keeps the job's tasks from being placed with the flavors that it has, as far as its
/// admission tells.
pub(crate) fn waits_for_room(cell: &Cell, job: &Job) -> bool {
    job.state == JobState::Active && standing_as_is(cell, job).may_place()
}

/// The heads of the line of `job` but itself.
pub(crate) fn others_at_head<'a>(cell: &'a Cell, job: &'a Job) -> impl Iterator<Item = &'a Job> {
    let heads = cell.nominations.heads().filter_map(|id| cell.jobs.get(id));
    heads.map(AsRef::as_ref).filter(|other| other.id != job.id && same_line(other, job))
}

fn same_line(one: &Job, other: &Job) -> bool {
    let queues = (&one.spec.queue, &other.spec.queue);
    queues.0 == queues.1 && (!queues.0.is_empty() || one.spec.class == other.spec.class)
}

/// Until when the job waits for room without more than its place in the order, in stamped time.
pub(crate) fn patient_until_ms(cell: &Cell, job: &Job) -> u64 {
    let profile = cell.profiles.of(job.spec.class);
    let patience_ms = profile.map_or(0, |profile| u64::from(profile.head_patience_seconds) * 1000);
    waits_since_ms(job).saturating_add(patience_ms)
}

/// Since when the job may wait, in stamped time: it was submitted, or lost what stood.
fn waits_since_ms(job: &Job) -> u64 {
    job.last_end_ms.max(job.submitted_ms)
}
