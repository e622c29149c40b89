//! The order of a StrictFIFO queue: no job of it starts before one that comes before it, whatever that one waits for.
//! Several schedulers plan one queue, so the log judges it.

use crate::cell::Cell;
use crate::state::admission::Standing;
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use crate::state::turns::{Turn, waits_to_start};
use ohm_model::QueueingStrategy;
use std::sync::Arc;

/// The jobs that keep `job` from starting, in order, because all of them wait in a StrictFIFO queue and come first. Who
/// waits for another attempt at its admission, or for a provisioning class that nobody knows, keeps nobody back.
pub fn kept_back_by<'a>(cell: &'a Cell, job: &'a Job) -> impl Iterator<Item = &'a Arc<Job>> {
    let strict = is_strict(cell, cell.quota.find(&job.spec.queue));
    let waits = (strict && waits_to_start(job)).then_some(job).into_iter();
    let before = waits.flat_map(|job| cell.turns.between(&job.spec.queue, None, Some(Turn::of(job))));
    let may_start = |job: &&Arc<Job>| matches!(cell.standing(job), Standing::Free | Standing::Unreserved);
    before.filter_map(|job| cell.jobs.get(job)).filter(may_start)
}

/// Whether there is no such job, where the queue of `job` has been looked up.
pub(crate) fn is_in_turn(cell: &Cell, job: &Job, queue: Option<QueueId>) -> bool {
    !is_strict(cell, queue) || kept_back_by(cell, job).next().is_none()
}

/// Whether the queue is StrictFIFO.
pub(crate) fn is_strict(cell: &Cell, queue: Option<QueueId>) -> bool {
    queue.is_some_and(|queue| cell.quota.at(queue).spec.queueing_strategy == QueueingStrategy::StrictFifo)
}
