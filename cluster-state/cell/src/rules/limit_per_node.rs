//! No more tasks of a group run on one node than `maxPerNode` says.

use crate::rooms::room::{Asker, Room, What};
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, _: u32) -> Room {
    let limit = asker.shape.max_per_node;
    if limit == 0 {
        return Room::ALL;
    }
    let own = what.bound(asker, node).filter(|held| asker.is_of(held)).map(|held| held.count);
    let here = what.over.on_node(what.cell, asker.job.id, asker.group, node);
    let beside = own.fold(here, u32::saturating_add);
    Room::up_to(i64::from(limit) - i64::from(beside), ConflictReason::LimitReached)
}
