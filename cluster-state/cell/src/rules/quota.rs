//! The queue may use what the tasks ask for, itself or by borrowing.

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, _: WhatIf<'_>, _: NodeId, most: u32) -> Room {
    match asker.quota {
        Some(left) if left < most => Room { count: left, reason: Some(ConflictReason::QuotaExceeded) },
        _ => Room { count: most, reason: None },
    }
}
