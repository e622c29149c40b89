//! Taints that are tolerated for a while (`tolerationSeconds`): what runs beside one leaves when that time is over, and
//! stays when the taint goes before. Timers look again when it is over.

use crate::apply::Tx;
use crate::apply::steps::leaving::settle_leaving;
use crate::cell::Cell;
use crate::policy::evictions::evict_repelled;
use crate::policy::moves::lose_rooms_to_leave;
use crate::state::timers::Timer;
use crate::state::tolerance::{driven_at, repelled_at};
use ohm_model::{NodeId, TaintEffect};

/// Looks again when the next run on the node has tolerated its taints for long enough.
pub(crate) fn watch_tolerations(tx: &mut Tx<'_>, node: NodeId) {
    if let Some(due_ms) = next_due_ms(tx, node) {
        tx.arm(due_ms, Timer::Toleration(node));
    }
}

fn next_due_ms(cell: &Cell, node: NodeId) -> Option<u64> {
    let record = cell.nodes.get(node)?;
    if !record.taints.iter().any(|taint| taint.effect == TaintEffect::NoExecute) {
        return None;
    }
    let staying = cell.runs.on_node(&cell.nodes, node).map(|(_, run)| run).filter(|run| run.stop.is_none());
    let shaped = staying.filter_map(|run| Some((cell.shapes.get(run.shape)?, run.placed_ms)));
    let due = shaped.filter(|(shape, _)| shape.tolerates_briefly()).flat_map(|(shape, placed_ms)| {
        let conditions = driven_at(record, shape).map(|(_, due_ms)| due_ms);
        conditions.chain(repelled_at(record, shape, placed_ms))
    });
    due.filter(|due_ms| *due_ms > cell.now_ms).min()
}

/// The time of something on the node may be over.
pub(crate) fn end_tolerations(tx: &mut Tx<'_>, node: NodeId) {
    // The node may be gone by now.
    if tx.nodes.get(node).is_none() {
        return;
    }
    let now_ms = tx.now_ms;
    if tx.record(node).driving_conditions().next().is_some() {
        tx.record_mut(node).judged_ms = now_ms;
        lose_rooms_to_leave(tx, node);
        settle_leaving(tx, node);
    }
    evict_repelled(tx, node);
    watch_tolerations(tx, node);
}
