//! Room that is held for others stays free, and so does room for those tasks of the own group that are on the move.

use crate::rooms::reads::held_amount;
use crate::rooms::room::{Asker, Room, What, Wish};
use crate::state::nodes::NOMINATED;
use ohm_model::{ConflictReason, NodeId, ResourceId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    if matches!(asker.wish, Wish::Return { .. }) || what.over.held(what.cell, node).next().is_none() {
        return room;
    }
    for &(resource, request) in &asker.shape.requests {
        let free = what.over.free(what.cell, node, resource);
        let unheld = free.saturating_sub(held_from(asker, what, node, resource));
        if unheld < request.saturating_mul(i64::from(room.count)) {
            room = Room::up_to(unheld / request, ConflictReason::Held);
        }
        let beside = beside_moving(asker, what, node, (unheld / request, room.count));
        if beside < room.count {
            room = Room { count: beside, reason: Some(ConflictReason::Held) };
        }
    }
    room
}

/// How much of `resource` on `node` is kept from `asker`.
fn held_from(asker: &Asker<'_>, what: What<'_>, node: NodeId, resource: ResourceId) -> i64 {
    let amount = |held| held_amount(what.cell, held, resource);
    what.bound(asker, node).map(amount).fold(0, i64::saturating_add)
}

/// How many of `most` tasks find room when that for others of the group, which are on the move, stays free; `room` is
/// how many would without that.
fn beside_moving(asker: &Asker<'_>, what: What<'_>, node: NodeId, (room, most): (i64, u32)) -> u32 {
    let Wish::Run { first, .. } = asker.wish else { return most };
    let (cell, job, group) = (what.cell, asker.job, asker.group);
    let state = &job.groups[usize::from(group.0)];
    // A group that starts anew starts with those that moved, wherever there is room for all.
    if !state.started || cell.nodes.flags(node) & NOMINATED == 0 {
        return most;
    }
    let used = if state.moving.is_empty() { 0 } else { what.over.moved(job.id, group, node) };
    let kept = cell.room_for_moving(job.id, group, node).saturating_sub(used);
    if kept == 0 {
        return most;
    }
    let fits = |count: &u32| {
        let beside = kept - state.moving.overlap(first, *count).min(kept);
        i64::from(*count) + i64::from(beside) <= room
    };
    (0..=most).rev().find(fits).unwrap_or(0)
}
