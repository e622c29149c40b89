//! A node is removed from the cell.

use crate::apply::Tx;
use crate::apply::cordon_node::named_node;
use crate::apply::steps::kept::forget_kept_on;
use crate::apply::steps::repairs::detach_unhealthy;
use crate::policy::claims::clear_earmarks_on;
use crate::policy::moves::lose_rooms;
use crate::policy::spares::clear_spares_on;
use ohm_model::{EventKind, NodeId, Outcome, Refusal};
use std::sync::Arc;

pub(crate) fn remove_node(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let node = named_node(tx, name)?;
    // What lived on there while it was lost is given up with it.
    let runs = tx.nodes.run_count(node) as usize + tx.kept.back_on(node).count();
    if runs > 0 {
        return Err(Refusal::WrongState {
            kind: "node".into(),
            name: name.into(),
            state: format!("holding {runs} runs"),
            hint: "drain it and wait until nothing runs on it, or cancel the jobs, first".into(),
        });
    }
    take_out(tx, node);
    Ok(Outcome::Done)
}

/// Takes a node out of the cell that no run is on.
pub(crate) fn take_out(tx: &mut Tx<'_>, node: NodeId) {
    lose_rooms(tx, node);
    clear_spares_on(tx, node, "its node is gone");
    clear_earmarks_on(tx, node, "its node is gone");
    detach_unhealthy(tx, node);
    forget_kept_on(tx, node);
    tx.cell.classes.leave(tx.cell.nodes.class(node));
    tx.topologies.leave(node);
    let spec = Arc::clone(&tx.record(node).spec);
    tx.cell.brought.remove_node(node, &spec.labels);
    tx.nodes.remove(node);
    tx.touch_node(node);
    tx.tell(EventKind::NodeRemoved { name: spec.name.clone() });
}
