//! Labels and taints of the node let the group run there (kube-scheduler: TaintToleration, NodeAffinity).

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: u32) -> Room {
    let is_as_planned = match asker.wish {
        Wish::Return { .. } => return Room::ALL,
        Wish::Run { class, .. } => what.cell.nodes.class(node) == class,
        Wish::Plan { .. } | Wish::Move | Wish::Spare { .. } | Wish::Repair => true,
    };
    match is_as_planned && what.cell.admits(asker.shape_id, node) {
        true => Room::ALL,
        false => Room::none(ConflictReason::NodeClassChanged),
    }
}

/// One verdict with three reasons.
pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let record = what.cell.nodes.get(node);
    let miss =
        record.and_then(|record| asker.shape.admits((&record.spec.name, &record.spec.labels), &record.taints).err());
    miss.map_or(Miss::NotReady, Miss::from)
}
