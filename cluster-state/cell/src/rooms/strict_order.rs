//! The order of a StrictFIFO queue: no job of it starts before one that comes before it, whatever that one waits for.
//! Several schedulers plan one queue, so the log judges it.

use crate::cell::Cell;
use crate::rooms::order::{HeldUsage, place_of, waiting_between};
use crate::state::admission::Standing;
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use crate::state::turns::waits_to_start;
use ohm_model::QueueingStrategy;
use std::sync::Arc;

/// The jobs that keep `job` from starting, in order, because all of them wait in a StrictFIFO queue and come first. Who
/// waits for another attempt at its admission, or for a provisioning class that nobody knows, keeps nobody back.
pub fn kept_back_by<'a>(cell: &'a Cell, job: &Job) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
    kept_back_over(cell, job, &HeldUsage::new())
}

/// As [`kept_back_by`], where so much is charged to the parts of the queue beside what the cell charges.
pub fn kept_back_over<'a>(cell: &'a Cell, job: &Job, held: &HeldUsage) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
    let strict = is_strict(cell, cell.quota.find(&job.spec.queue));
    let waits = (strict && waits_to_start(job)).then(|| place_of(cell, job, held));
    let before = waits.map(|until| waiting_between(cell, &job.spec.queue, (None, Some(until)), held));
    let may_start = move |job: &&Arc<Job>| matches!(cell.standing(job), Standing::Free | Standing::Unreserved);
    before.into_iter().flatten().filter_map(|job| cell.jobs.get(job)).filter(may_start)
}

/// Whether there is no such job, where the queue of `job` has been looked up.
pub(crate) fn is_in_turn(cell: &Cell, job: &Job, queue: Option<QueueId>) -> bool {
    !is_strict(cell, queue) || kept_back_by(cell, job).next().is_none()
}

/// Whether the queue is StrictFIFO.
pub(crate) fn is_strict(cell: &Cell, queue: Option<QueueId>) -> bool {
    queue.is_some_and(|queue| cell.quota.at(queue).spec.queueing_strategy == QueueingStrategy::StrictFifo)
}
