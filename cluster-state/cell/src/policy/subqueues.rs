//! What subqueues use, brought up to date after every command, in queues that order their jobs by it.

use crate::apply::Tx;
use crate::state::requests::{charged_by_resource, resources_charged};
use ohm_model::{JobId, QueueSpec};

/// Charges the jobs that the command named what they hold by now. The charge is that of the queue's quota.
pub(crate) fn settle_usage(tx: &mut Tx<'_>) {
    if !tx.cell.subqueues.keep_any() {
        return;
    }
    for at in 0..tx.touched_jobs().len() {
        charge_job(tx, tx.touched_jobs()[at]);
    }
}

fn charge_job(tx: &mut Tx<'_>, id: JobId) {
    let cell = &mut *tx.cell;
    let (now_ms, job) = (cell.now_ms, cell.jobs.get(id).cloned());
    match job {
        Some(job) => {
            let amounts = resources_charged(cell, &job);
            cell.subqueues.charge(id, (&job.spec.queue, &job.spec.subqueue), amounts, now_ms);
        }
        None => cell.subqueues.charge(id, ("", ""), Vec::new(), now_ms),
    }
}

/// The queue was put: with an order it has a book from now on, in which what stands is charged.
pub(crate) fn settle_order(tx: &mut Tx<'_>, spec: &QueueSpec) {
    let cell = &mut *tx.cell;
    let half_life_ms = spec.usage_based_order.as_ref().map(|order| order.half_life_seconds.saturating_mul(1000));
    if cell.subqueues.keep_book(&spec.name, half_life_ms, cell.now_ms) {
        for (job, queue, part, amounts) in
            charged_by_resource(cell).into_iter().filter(|(_, queue, ..)| *queue == spec.name)
        {
            cell.subqueues.charge(job, (&queue, &part), amounts, cell.now_ms);
        }
    }
}
