//! A group that is bound to a domain stays in it, together with the groups it is placed with.

use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::topologies::{Fence, Topology};
use ohm_model::{ConflictReason, NodeId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: u32) -> Room {
    match is_inside(asker, what, node) {
        true => Room::ALL,
        false => Room::none(ConflictReason::TopologyBroken),
    }
}

#[inline]
fn is_inside(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId) -> bool {
    let (job, group) = (asker.job, usize::from(asker.group.0));
    if let Wish::Plan { within: Some(fence), .. } = asker.wish
        && !fence.holds(node)
    {
        return false;
    }
    let Some(bound) = job.binding_level(group) else { return true };
    is_in_domain(asker, what, node, bound)
}

fn is_in_domain(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, (name, level): (&str, &str)) -> bool {
    let (job, group) = (asker.job, usize::from(asker.group.0));
    let Some(topology) = what.cell.topologies.get(name) else { return false };
    let Some(level) = topology.level(level) else { return false };
    let Some(key) = topology.key_of(node, level) else { return false };
    let mut fixed = job.partners(group).filter_map(|other| what.over.domain(job, other)).peekable();
    match asker.wish {
        Wish::Run { .. } | Wish::Return { .. } | Wish::Plan { .. } | Wish::Repair => {
            fixed.all(|domain| domain == key || widens_to(asker, topology, (domain, level), node))
        }
        // A group that leaves its domain with everything it has goes to one other.
        Wish::Move => {
            let leaves = || job.partners(group).any(|other| what.over.has_domain_of(job, other));
            (fixed.peek().is_some() || leaves()) && fixed.all(|domain| domain == key)
        }
        // Spares are where the group is.
        Wish::Spare { .. } => fixed.peek().is_some() && fixed.all(|domain| domain == key),
    }
}

/// Whether a repair may leave the domain `domain` of `level` for that of `node`, as far as the job's policy says.
fn widens_to(asker: &Asker<'_>, topology: &Topology, (domain, level): (u32, usize), node: NodeId) -> bool {
    let wide = asker.job.widening_level(usize::from(asker.group.0)).and_then(|wide| topology.level(wide));
    wide.is_some_and(|wide| {
        let around = topology.key_above(level, domain, wide);
        around.is_some() && around == topology.key_of(node, wide)
    })
}

pub(super) fn miss(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, _: ConflictReason) -> Miss {
    match asker.wish {
        Wish::Plan { within: Some(fence), .. } => miss_outside(fence, node),
        _ => miss_of(what.cell.domain_key(asker.job, usize::from(asker.group.0), node)),
    }
}

/// Why a node that is outside of `fence` does not take a group whose planner keeps to it.
pub fn miss_outside(fence: Fence<'_>, node: NodeId) -> Miss {
    miss_of(fence.topology.key_of(node, fence.level))
}

fn miss_of(domain: Option<u32>) -> Miss {
    domain.map_or(Miss::OutsideTopology, |_| Miss::TopologyDomain)
}
