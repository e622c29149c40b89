//! Room that is held for others, a repair's among it, stays free, and so does room for other tasks of the own group:
//! those on the move, and its spares where they are not lent.

use crate::rooms::nominations::Held;
use crate::rooms::reads::rooms_of;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use ohm_model::{ConflictReason, NodeId, ResourceId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    if matches!(asker.wish, Wish::Return { .. }) || what.held(node).next().is_none() {
        return room;
    }
    let kept = asker.kept(what, node);
    for &(resource, request) in &asker.shape.requests {
        let unheld = unheld(asker, what, node, resource);
        let count = beside_kept(asker, what, node, (kept, unheld / request), room.count);
        if count < room.count {
            room = Room { count, reason: Some(ConflictReason::Held) };
        }
    }
    room
}

/// What is free of `resource` on `node` and not held from `asker`.
fn unheld(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, resource: ResourceId) -> i64 {
    let amount = |held: &Held| {
        let request = what.shape_of(held)?.requests.iter().find(|(column, _)| *column == resource);
        request.map(|(_, amount)| amount.saturating_mul(i64::from(held.count)))
    };
    asker.bound(what, node).filter_map(amount).fold(what.free(node, resource), i64::saturating_sub)
}

/// How many of `most` tasks fit into `room` when room for `kept` others, which are on the move, stays free. A task that
/// is on the move and has its room here is among those others.
fn beside_kept(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, (kept, room): (u32, i64), most: u32) -> u32 {
    match asker.wish {
        Wish::Run { first, .. } if kept > 0 => {
            let own = |count: u32| rooms_of(what.cell, (asker.job.id, asker.group), node, (first, count));
            let fits = |count: &u32| i64::from(*count) + i64::from(kept.saturating_sub(own(*count))) <= room;
            (0..=most).rev().find(fits).unwrap_or(0)
        }
        _ => i64::from(most).min(room.saturating_sub(i64::from(kept))).max(0) as u32,
    }
}

pub(super) fn miss(_: &Asker<'_>, _: WhatIf<'_>, _: NodeId, _: ConflictReason) -> Miss {
    Miss::Held
}
