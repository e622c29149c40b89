//! Conditions of nodes and nodes that flap: both act by the taints they put on their node. What a taint of a condition
//! drives away leaves as it leaves a node that is being drained.

use crate::apply::Tx;
use crate::state::timers::Timer;
use ohm_model::{ClassId, EventKind, NodeId};

/// Brings the taints of a node, and with them its class, up to what its spec and its state say.
pub(crate) fn settle_taints(tx: &mut Tx<'_>, node: NodeId) {
    if tx.nodes.get(node).is_some_and(|record| record.taints != record.all_taints()) {
        let former = reclassify(tx, node);
        tx.classes.step_out(former);
        tx.free_node(node);
        tx.touch_node(node);
    }
}

/// Puts a node into the class that its labels and taints say. Returns the former one, which it has yet to leave.
pub(crate) fn reclassify(tx: &mut Tx<'_>, node: NodeId) -> ClassId {
    let (former, now_ms) = (tx.nodes.class(node), tx.now_ms);
    if let Some(record) = tx.cell.nodes.record_mut(node) {
        record.retaint(now_ms);
        let class = tx.cell.classes.join(&record.spec.labels, &record.taints);
        tx.nodes.set_class(node, class);
    }
    former
}

/// A node that was lost is back. Who returns too often is held down.
pub(crate) fn note_return(tx: &mut Tx<'_>, node: NodeId) {
    end_hold_down(tx, node);
    let now_ms = tx.now_ms;
    let record = tx.record_mut(node);
    let name = record.spec.name.clone();
    let Some(hold_down_ms) = record.flaps.note_return(now_ms) else { return };
    let (flaps, held_until_ms) = (record.flaps.returns_ms.len() as u32, record.flaps.held_until_ms);
    tx.arm(held_until_ms, Timer::HoldDown(node));
    tx.tell(EventKind::NodeHeldDown { node, name, flaps, hold_down_ms });
    settle_taints(tx, node);
}

/// The time of a hold-down may be over.
pub(crate) fn end_hold_down(tx: &mut Tx<'_>, node: NodeId) {
    let now_ms = tx.now_ms;
    let held = tx.nodes.get(node).filter(|record| record.flaps.is_held && record.flaps.held_until_ms <= now_ms);
    let Some(name) = held.map(|record| record.spec.name.clone()) else { return };
    let record = tx.record_mut(node);
    record.flaps.is_held = false;
    tx.tell(EventKind::NodeReleased { node, name, by_hand: false });
    settle_taints(tx, node);
}
