//! Labels and taints of the node let the group run there (kube-scheduler: TaintToleration, NodeAffinity).

use crate::rooms::room::{Asker, Room, What, Wish};
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, _: u32) -> Room {
    let is_as_planned = match asker.wish {
        Wish::Return { .. } => return Room::ALL,
        Wish::Run { class, .. } => what.cell.nodes.class(node) == class,
        Wish::Move | Wish::Spare { .. } => true,
    };
    match is_as_planned && what.cell.admits(asker.shape_id, node) {
        true => Room::ALL,
        false => Room::none(ConflictReason::NodeClassChanged),
    }
}
