//! The node is there, takes work, and is not one that the group has to leave.

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::nodes::{CORDONED, DRAINING, PRESENT, SCHEDULABLE, STATE_MASK};
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: u32) -> Room {
    let nodes = &what.cell.nodes;
    if nodes.flags(node) & PRESENT == 0 {
        return Room::none(ConflictReason::NodeGone);
    }
    if matches!(asker.wish, Wish::Return { .. }) {
        return Room::ALL;
    }
    let leaves = || what.cell.leave_cause(asker.shape_id, node).is_some();
    // What tolerates a condition for a while only comes no more once that is over.
    let is_over = || asker.shape.tolerates_briefly() && what.cell.admits(asker.shape_id, node) && leaves();
    match nodes.is_schedulable(node) && !(asker.wish == Wish::Move && leaves()) && !is_over() {
        true => Room::ALL,
        false => Room::none(ConflictReason::NodeNotReady),
    }
}

/// Not ready, or over its capacity since it came back with less, until what is too much has stopped; else cordoned, or
/// left by everybody.
pub(super) fn miss(_: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let flags = what.cell.nodes.flags(node);
    match flags & CORDONED != 0 {
        _ if flags & STATE_MASK & !(CORDONED | DRAINING) != SCHEDULABLE => Miss::NotReady,
        true => Miss::Cordoned,
        false => Miss::Draining,
    }
}
