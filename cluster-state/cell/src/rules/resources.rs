//! Every amount that the tasks ask for is free on the node (kube-scheduler: NodeResourcesFit).

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::{Miss, short_of};
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    let (mut room, taken) = (Room { count: most, reason: None }, what.over.taken_on(node));
    for &(resource, request) in &asker.shape.requests {
        let taken = taken.get(usize::from(resource.0)).copied().unwrap_or(0);
        let free = what.cell.nodes.free(node, resource).saturating_sub(taken);
        if free < request.saturating_mul(i64::from(room.count)) {
            room = Room::up_to(free / request, ConflictReason::NodeFull(resource));
        }
        if room.count == 0 {
            break;
        }
    }
    room
}

pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let amounts = asker.shape.requests.iter();
    let amounts = amounts.map(|&(resource, asked)| (resource, asked, what.free(node, resource)));
    short_of(what.cell, node, amounts).unwrap_or(Miss::NotReady)
}
