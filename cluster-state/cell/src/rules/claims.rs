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
    let kept = kept_for_moving(asker, what, node);
    for &(resource, request) in &asker.shape.requests {
        let free = what.over.free(what.cell, node, resource);
        let unheld = free.saturating_sub(held_from(asker, what, node, resource));
        let count = beside_kept(asker, kept, unheld / request, room.count);
        if count < room.count {
            room = Room { count, reason: Some(ConflictReason::Held) };
        }
    }
    room
}

/// How much of `resource` on `node` is kept from `asker`.
fn held_from(asker: &Asker<'_>, what: What<'_>, node: NodeId, resource: ResourceId) -> i64 {
    let amount = |held| held_amount(what.cell, held, resource);
    what.bound(asker, node).map(amount).fold(0, i64::saturating_add)
}

/// For how many tasks of its own group, which are on the move, room on `node` is kept from waiting ones.
fn kept_for_moving(asker: &Asker<'_>, what: What<'_>, node: NodeId) -> u32 {
    let (cell, job, group) = (what.cell, asker.job, asker.group);
    let state = &job.groups[usize::from(group.0)];
    // A group that starts anew starts with those that moved, wherever there is room for all.
    let is_waiting = matches!(asker.wish, Wish::Run { .. }) && state.started;
    if !is_waiting || cell.nodes.flags(node) & NOMINATED == 0 {
        return 0;
    }
    let used = if state.moving.is_empty() { 0 } else { what.over.moved(job.id, group, node) };
    cell.room_for_moving(job.id, group, node).saturating_sub(used)
}

/// How many of `most` tasks fit into `room` when room for `kept` others, which are on the move, stays free. A task that
/// is on the move itself is among those others.
fn beside_kept(asker: &Asker<'_>, kept: u32, room: i64, most: u32) -> u32 {
    let moving = &asker.job.groups[usize::from(asker.group.0)].moving;
    match asker.wish {
        Wish::Run { first, .. } if kept > 0 => {
            let others = |count: u32| kept - moving.overlap(first, count).min(kept);
            let fits = |count: &u32| i64::from(*count) + i64::from(others(*count)) <= room;
            (0..=most).rev().find(fits).unwrap_or(0)
        }
        _ => i64::from(most).min(room).max(0) as u32,
    }
}
