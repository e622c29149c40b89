//! The health duty bounds the leases of nodes, or says that it puts off conclusions.

use crate::apply::Tx;
use crate::apply::steps::duty::check_duty;
use ohm_model::{Epoch, EventKind, Lease, Outcome, Refusal, SessionId, TakeOver};

pub(crate) fn bound_node_lease(
    tx: &mut Tx<'_>,
    session: SessionId,
    epoch: Epoch,
    (seen_ms, lease_ms): (u64, u64),
    take_over: &TakeOver,
) -> Result<Outcome, Refusal> {
    check_duty(tx, Lease::Health, (session, epoch))?;
    if let Err(short) = take_over.check(lease_ms) {
        return Err(Refusal::Invalid { field: "lease_ms".into(), problem: short.to_string() });
    }
    let bound_ms = tx.health.lease_bound_ms;
    if bound_ms != seen_ms && bound_ms != lease_ms {
        let problem = format!("the bound of node leases is {bound_ms} ms by now, not {seen_ms}");
        return Err(Refusal::Invalid { field: "seen_ms".into(), problem });
    }
    if tx.health.lease_bound_ms != lease_ms {
        tx.health.lease_bound_ms = lease_ms;
        tx.tell(EventKind::NodeLeaseBound { lease_ms });
    }
    Ok(Outcome::Done)
}

pub(crate) fn hold_conclusions(
    tx: &mut Tx<'_>,
    session: SessionId,
    epoch: Epoch,
    silent: u32,
    brake_ms: u64,
) -> Result<Outcome, Refusal> {
    check_duty(tx, Lease::Health, (session, epoch))?;
    let was_held = tx.health.silent > 0;
    tx.health.silent = silent;
    tx.health.held_until_ms = if silent > 0 { tx.now_ms.saturating_add(brake_ms) } else { 0 };
    if was_held || silent > 0 {
        tx.tell(EventKind::ConclusionsHeld { silent, brake_ms });
    }
    Ok(Outcome::Done)
}
