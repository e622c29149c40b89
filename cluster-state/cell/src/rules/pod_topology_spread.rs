//! The tasks that a group is spread with are even over the domains of a node label (kube-scheduler: PodTopologySpread).

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::task_counts::asks::{MeansOwn, SpreadAsk};
use crate::state::task_counts::counts::Neighbourhood;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    if what.cell.task_counts.is_empty() {
        return Room::ALL;
    }
    let Some(near) = asker.neighbourhood(what) else { return Room::ALL };
    let asked = near.asks.into_iter().flat_map(|asks| &asks.spread);
    let count = asked.map(|ask| tasks(&near, what, ask, node)).min().unwrap_or(u32::MAX).min(most);
    Room { count, reason: (count < most).then_some(ConflictReason::PodTopologySpread) }
}

/// How many more tasks of the group one constraint lets onto the node.
fn tasks(near: &Neighbourhood<'_>, what: WhatIf<'_>, ask: &SpreadAsk, node: NodeId) -> u32 {
    let Some(ground) = near.ground_of(ask.counter) else { return 0 };
    let Some(domain) = ground.domain(node) else { return 0 };
    let count = i64::from(near.count(what, ask.counter, domain));
    let is_counted = near.counts_own(ask.counter);
    let means_own = is_counted || ask.means_own == MeansOwn::Always;
    let grows = is_counted && ground.counted_domain(node).is_some();
    let is_narrow = ground.width() < ask.min_domains;
    // Where each task that is placed counts, the domain is the one with the fewest only while it is no fuller than all
    // others.
    let fewest = match near.fewest(what, ask.counter, Some(domain).filter(|_| grows)) {
        _ if is_narrow => 0,
        Some(fewest) => i64::from(fewest),
        None if grows => return u32::MAX,
        None => 0,
    };
    let left = i64::from(ask.max_skew) + fewest - count;
    match left {
        // Tasks that the constraint does not count leave the domain as it is.
        _ if !means_own => {
            if left >= 0 {
                u32::MAX
            } else {
                0
            }
        }
        ..1 => 0,
        _ if !grows => u32::MAX,
        _ => u32::try_from(left).unwrap_or(u32::MAX),
    }
}

pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let near = asker.neighbourhood(what);
    let asked = near.iter().flat_map(|near| near.asks).flat_map(|asks| &asks.spread);
    let key = |ask: &SpreadAsk| near.as_ref().and_then(|near| near.key_of(ask.counter)).unwrap_or_default();
    let lacks = |ask: &&SpreadAsk| near.as_ref().and_then(|near| near.ground_of(ask.counter)?.domain(node)).is_none();
    if let Some(ask) = asked.clone().find(lacks) {
        return Miss::SpreadLabel(key(ask));
    }
    let full = |ask: &&SpreadAsk| near.as_ref().is_some_and(|near| tasks(near, what, ask, node) == 0);
    Miss::PodTopologySpread(asked.clone().find(full).map(key).unwrap_or_default())
}
