//! No more tasks of a group run on one node than `maxPerNode` says.

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: u32) -> Room {
    let limit = asker.shape.max_per_node;
    if limit == 0 {
        return Room::ALL;
    }
    let own = asker.bound(what, node).filter(|held| asker.is_of(held)).map(|held| held.count);
    let here = what.on_node(asker.job.id, asker.group, node);
    let beside = own.fold(here, u32::saturating_add).saturating_add(kept(asker, what, node));
    Room::up_to(i64::from(limit) - i64::from(beside), ConflictReason::LimitReached)
}

/// A row that is judged may use up the room of its own group's moving tasks; a plan leaves it to them.
fn kept(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> u32 {
    if matches!(asker.wish, Wish::Plan { .. }) { asker.kept(what, node) } else { 0 }
}

pub(super) fn miss(_: &Asker<'_>, _: WhatIf<'_>, _: NodeId, _: ConflictReason) -> Miss {
    Miss::LimitPerNode
}
