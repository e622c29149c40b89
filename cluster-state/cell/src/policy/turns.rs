//! Who waits to start and who has quota, brought up to date after every command. See `state/turns.rs` and
//! `rooms/turns.rs`.

use crate::apply::Tx;
use crate::apply::steps::offers::{has_other_flavors, offer};
use crate::rooms::strict_order::is_strict;
use crate::state::turns::{has_quota, waits_to_start};
use ohm_model::JobId;
use std::sync::Arc;

/// Brings the lines up to what has become of the jobs that the command named. What a job was ceded that waits no more
/// and stands nowhere is there for those behind it.
pub(crate) fn settle_turns(tx: &mut Tx<'_>) {
    for at in 0..tx.touched_jobs().len() {
        let Some(job) = tx.cell.jobs.get(tx.touched_jobs()[at]).filter(|job| !job.spec.queue.is_empty()) else {
            continue;
        };
        match (tx.cell.turns.contains(job), waits_to_start(job)) {
            (true, false) => {
                let job = Arc::clone(job);
                tx.cell.turns.leave(&job, &tx.cell.shapes);
                // Behind it in a StrictFIFO queue others may start now.
                let keeps_back = is_strict(tx.cell, tx.cell.quota.find(&job.spec.queue));
                if keeps_back || (job.live() == 0 && job.reserved.is_empty()) {
                    tx.free_quota(&job.spec.queue);
                }
            }
            (false, true) => {
                let id = job.id;
                if has_other_flavors(tx.cell, job) {
                    offer(tx, id);
                }
                if let Some(job) = tx.cell.jobs.get(id) {
                    tx.cell.turns.join(job, &tx.cell.shapes);
                }
            }
            _ => {}
        }
        settle_holder(tx, tx.touched_jobs()[at]);
    }
}

/// Whoever has quota stands among those of its queue that have it.
fn settle_holder(tx: &mut Tx<'_>, id: JobId) {
    let Some(job) = tx.cell.jobs.get(id) else { return };
    match has_quota(job) {
        true if tx.cell.turns.holds(job) => {}
        true => tx.cell.turns.hold(job),
        false => tx.cell.turns.let_go(job),
    }
}
