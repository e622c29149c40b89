//! A drain of a node begins, changes or ends.

use crate::apply::Tx;
use crate::apply::cordon_node::named_node;
use crate::apply::steps::leaving::{jobs_on, settle_leaving, tell_drained};
use crate::policy::moves::lose_rooms_to_leave;
use crate::state::drain::Drain;
use crate::state::nodes::DRAINING;
use crate::state::timers::Timer;
use ohm_model::{EventKind, Outcome, Refusal};

pub(crate) fn drain_node(tx: &mut Tx<'_>, name: &str, deadline_ms: u64, at_once: u32) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    let (now_ms, since) = (tx.now_ms, tx.index());
    let deadline_ms = if deadline_ms == 0 { 0 } else { now_ms.saturating_add(deadline_ms) };
    let record = tx.record_mut(node);
    let former = record.drain;
    let began = former.map_or((since, now_ms), |drain| (drain.since, drain.since_ms));
    let drain = Drain { since: began.0, since_ms: began.1, deadline_ms, at_once: at_once.max(1) };
    record.drain = Some(drain);
    if former == Some(drain) {
        return Ok(Outcome::Done);
    }
    if deadline_ms > 0 {
        tx.arm(deadline_ms, Timer::Drain(node));
    }
    tx.nodes.set_flag(node, DRAINING, true);
    tx.touch_node(node);
    let runs = tx.runs_on(node);
    tx.tell(EventKind::NodeDraining { node, name: name.to_string(), runs, deadline_ms });
    if former.is_none() {
        lose_rooms_to_leave(tx, node);
        settle_leaving(tx, node);
        tell_drained(tx, node);
    }
    // Jobs of services may move more at once than before.
    jobs_on(tx, node).into_iter().for_each(|job| tx.touch_job(job));
    Ok(Outcome::Done)
}

pub(crate) fn undrain_node(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    let record = tx.record_mut(node);
    if record.drain.take().is_some() {
        tx.mark_node(node, DRAINING, false);
        tx.touch_node(node);
        tx.tell(EventKind::NodeUndrained { node, name: name.to_string() });
        settle_leaving(tx, node);
    }
    Ok(Outcome::Done)
}
