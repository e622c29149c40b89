//! The tasks that a group is spread with are even over the domains of a node label (kube-scheduler: PodTopologySpread).

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::task_counts::asks::{SpreadAsk, Stand};
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
    let is_counted = near.counts_own(ask.counter);
    let grows = is_counted && ground.counted_domain(node).is_some();
    let fewest = near.fewest(what, ask.counter, Some(domain).filter(|_| grows));
    let count = near.count(what, ask.counter, domain);
    ask.room(Stand { width: ground.width(), count, fewest, is_counted, grows })
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
