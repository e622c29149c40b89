//! The node is there, takes work, and is not one that the group has to leave.

use crate::rooms::room::{Asker, Room, What, Wish};
use crate::state::nodes::PRESENT;
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, _: u32) -> Room {
    let nodes = &what.cell.nodes;
    if nodes.flags(node) & PRESENT == 0 {
        return Room::none(ConflictReason::NodeGone);
    }
    if matches!(asker.wish, Wish::Return { .. }) {
        return Room::ALL;
    }
    let leaves = || what.cell.leave_cause(asker.shape_id, node).is_some();
    match nodes.is_schedulable(node) && !(asker.wish == Wish::Move && leaves()) {
        true => Room::ALL,
        false => Room::none(ConflictReason::NodeNotReady),
    }
}
