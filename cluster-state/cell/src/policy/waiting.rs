//! Bounds on how many jobs of a queue wait (`maxWaitingJobs`): a job that would be one too many is refused when it is
//! submitted, or given that queue. Those that wait again, because what ran was stopped or lost, are never refused.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::state::waiting::{Waiting, bounded_queue};
use ohm_model::{JobId, Refusal};

/// Whether one more job may wait in `queue`.
pub(crate) fn check_crowd(cell: &Cell, queue: &str) -> Result<(), Refusal> {
    let limit = cell.quota.get(queue).map_or(0, |node| node.spec.max_waiting_jobs);
    let waiting = cell.waiting.count(queue);
    match limit > 0 && waiting >= limit {
        true => Err(Refusal::QueueFull { queue: queue.to_string(), waiting, limit }),
        false => Ok(()),
    }
}

/// Counts the jobs that the command named where they wait now.
pub(crate) fn settle_waiting(tx: &mut Tx<'_>) {
    for at in 0..tx.touched_jobs().len() {
        count(tx, tx.touched_jobs()[at]);
    }
}

/// Counts one job where it waits now.
pub(crate) fn count(tx: &mut Tx<'_>, id: JobId) {
    let cell = &mut *tx.cell;
    let queue = cell.jobs.get(id).and_then(|job| bounded_queue(job, &cell.quota));
    cell.waiting.set(id, queue);
}

/// Counts all jobs anew, because a queue bounds how many wait, or no longer does.
pub(crate) fn recount(tx: &mut Tx<'_>) {
    tx.cell.waiting = Waiting::of(&tx.cell.jobs, &tx.cell.quota);
}
