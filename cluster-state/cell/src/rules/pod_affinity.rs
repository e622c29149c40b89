//! Tasks that the group must be near run in the domain of the node (kube-scheduler: InterPodAffinity).

use crate::rooms::room::{Asker, Room};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::task_counts::counter::CounterId;
use crate::state::task_counts::counts::Neighbourhood;
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: u32) -> Room {
    if what.cell.task_counts.is_empty() {
        return Room::ALL;
    }
    match first_unmet(asker, what, node) {
        None => Room::ALL,
        Some(_) => Room::none(ConflictReason::PodAffinity),
    }
}

/// The first term that keeps the group away.
fn first_unmet(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> Option<CounterId> {
    let near = asker.neighbourhood(what)?;
    let terms = &near.asks?.affinity;
    let domain = |id: CounterId| near.ground_of(id)?.domain(node);
    let is_met = |id: CounterId| domain(id).is_some_and(|domain| near.count(what, id, domain) > 0);
    let unmet = terms.iter().copied().find(|id| !is_met(*id))?;
    let lacks_label = terms.iter().copied().find(|id| domain(*id).is_none());
    if lacks_label.is_none() && is_first(&near, what, terms) { None } else { lacks_label.or(Some(unmet)) }
}

/// Whether no task at all is what the group must be near, and its own would be: then somebody has to be the first.
fn is_first(near: &Neighbourhood<'_>, what: WhatIf<'_>, terms: &[CounterId]) -> bool {
    terms.iter().all(|id| near.counts_own(*id) && near.total(what, *id) == 0)
}

pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    let unmet = first_unmet(asker, what, node);
    Miss::PodAffinity(unmet.and_then(|id| asker.neighbourhood(what)?.key_of(id)).unwrap_or_default())
}
