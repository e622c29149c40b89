//! No task that the group must not be near runs in the domain of the node, nor one that must not be near the group
//! (kube-scheduler: InterPodAffinity).

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::task_counts::counter::CounterId;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    if what.cell.task_counts.is_empty() {
        return Room::ALL;
    }
    if first_met(asker, what, node).is_some() {
        return Room::none(ConflictReason::PodAntiAffinity);
    }
    if most > 1 && is_alone(asker, what, node) {
        return Room { count: 1, reason: Some(ConflictReason::PodAntiAffinity) };
    }
    Room::ALL
}

/// The first term, of the group or of others, that keeps it away.
fn first_met(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> Option<CounterId> {
    let near = asker.neighbourhood(what)?;
    let own = near.asks.into_iter().flat_map(|asks| &asks.anti_affinity);
    let is_met = |id: &&CounterId| {
        let domain = near.ground_of(**id).and_then(|ground| ground.domain(node));
        domain.is_some_and(|domain| near.count(what, **id, domain) > 0)
    };
    own.chain(&near.marks.repelled).find(is_met).copied()
}

/// Whether two tasks of the group can't stand on the node together.
fn is_alone(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
    let Some(near) = asker.neighbourhood(what) else { return false };
    let Some(asks) = near.asks else { return false };
    let bears = |id: &CounterId| near.ground_of(*id).is_some_and(|ground| ground.domain(node).is_some());
    asks.anti_affinity.iter().any(|id| near.counts_own(*id) && bears(id))
}

pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let met = first_met(asker, what, node);
    Miss::PodAntiAffinity(met.and_then(|id| asker.neighbourhood(what)?.key_of(id)).unwrap_or_default())
}
