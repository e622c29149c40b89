//! A job is about to become something else, or has just become it.

use crate::apply::Tx;
use crate::apply::steps::jobs::{clear_held, forget_ready_timeouts, release_reservation};
use crate::apply::steps::offers::{clear_offers, leave_line};
use crate::apply::steps::repairs::{arm_give_up, drop_repair, forget_lost_nodes};
use crate::policy::claims::clear_claims;
use crate::policy::heads::end_head;
use crate::policy::spares::clear_spares;
use crate::rooms::nominations::Held;
use crate::state::jobs::Job;
use crate::state::repairs::RepairState;
use ohm_model::{JobId, JobSpec};
use std::sync::Arc;

/// Ends what hangs on the former content: what is reserved, and with it the shapes that checks gave the groups, room
/// kept for preemptors and as spares, whom it stopped or was stopped for, its ready time-outs. Returns what is left.
pub(crate) fn before_change(tx: &mut Tx<'_>, known: Arc<Job>, spec: &JobSpec, anew: bool) -> Arc<Job> {
    let (id, former) = (known.id, &known.spec);
    tx.preemptions.forget_turns_of(id);
    forget_ready_timeouts(tx, id);
    let (groups, queue) = (spec.groups != former.groups, spec.queue != former.queue);
    let priority = spec.priority != former.priority || spec.subqueue != former.subqueue;
    if groups || queue {
        release_reservation(tx, id);
    }
    if groups || priority {
        clear_held(tx, id, Held::is_preemptor);
    }
    if tx.nominations.is_head(id) && (groups || priority || queue) {
        end_head(tx, id, "its job has changed");
    }
    let others = anew || spec.groups.len() != known.groups.len();
    if others || queue || priority {
        clear_spares(tx, id, "its job has changed");
    }
    if others || queue || priority || spec.repair != former.repair {
        clear_claims(tx, id, "its job has changed");
    }
    leave_line(tx, id);
    clear_offers(tx, id);
    tx.jobs.get(id).cloned().unwrap_or(known)
}

/// Removed tasks are repaired no more, and another minimum may start the clock of a policy that waits.
pub(crate) fn settle_repair_of_change(tx: &mut Tx<'_>, id: JobId) {
    if tx.jobs.get(id).is_some_and(|job| job.repairs.open.is_some()) {
        forget_lost_nodes(tx, id);
    }
    let job = tx.job(id);
    match job.repair_state() {
        RepairState::Whole if job.repairs.open.is_some() => drop_repair(tx, id),
        RepairState::Whole => {}
        RepairState::Waiting | RepairState::InFlight | RepairState::Leaving => arm_give_up(tx, id, 0),
    }
}
