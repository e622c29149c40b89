//! The queue may use what the tasks ask for, itself or by borrowing.

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use ohm_model::{ConflictReason, NodeId};

pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, _: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    let Some(queue) = asker.queue else { return room };
    for &(resource, request) in &asker.shape.requests {
        let left = what.quota_left(queue, resource);
        if left < request.saturating_mul(i64::from(room.count)) {
            room = Room::up_to(left / request, ConflictReason::QuotaExceeded);
        }
    }
    room
}
