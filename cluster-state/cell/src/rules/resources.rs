//! Every amount that the tasks ask for is free on the node (kube-scheduler: NodeResourcesFit).

use crate::rooms::room::{Asker, Room, What};
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    for &(resource, request) in &asker.shape.requests {
        let free = what.over.free(what.cell, node, resource);
        // The product is bounded: a submit is refused whose request times its count is more than 63 bits hold.
        if free < request * i64::from(room.count) {
            room = Room::up_to(free / request, ConflictReason::NodeFull(resource));
        }
        if room.count == 0 {
            break;
        }
    }
    room
}
