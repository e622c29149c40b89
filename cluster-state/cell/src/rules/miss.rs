//! Why one task finds no room on a node, for people: finer than the reasons of verdicts.

use crate::cell::Cell;
use crate::state::shapes::ClassMiss;
use ohm_model::{NodeId, ResourceId, Taint};
use serde::{Deserialize, Serialize};

/// The first rule that keeps a group away from a node. Nodes are counted by it, in the order the rules are asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Miss {
    /// Health does not say ready.
    NotReady,
    /// A person keeps new work away.
    Cordoned,
    /// It is being drained.
    Draining,
    /// This taint is not tolerated.
    Taint(Taint),
    /// A selected label is missing or different.
    NodeSelector,
    /// No affinity term matches.
    Affinity,
    /// It lacks a label of the topology's levels.
    OutsideTopology,
    /// It is outside the domain the job must stay in.
    TopologyDomain,
    /// Even empty it would have too little of this resource for one task.
    Capacity(ResourceId),
    /// Not enough of this resource is free for one task.
    Resource(ResourceId),
    /// Enough is free of this device resource in sum, but not on whole devices or not on one device.
    Devices(ResourceId),
    /// A port is taken.
    Port(u16),
    /// The group's limit per node is reached.
    LimitPerNode,
    /// The room is kept for a nominated job.
    Held,
}

impl From<ClassMiss> for Miss {
    fn from(miss: ClassMiss) -> Self {
        match miss {
            ClassMiss::Taint(taint) => Miss::Taint(taint),
            ClassMiss::NodeSelector => Miss::NodeSelector,
            ClassMiss::Affinity => Miss::Affinity,
        }
    }
}

/// The shortage that counts, of resources as (resource, asked, free) on `node`: of several, the first by name. None of
/// them leaves room for one task, so none is tighter. A resource may be taken, or even the empty node has too little.
pub fn short_of(cell: &Cell, node: NodeId, amounts: impl Iterator<Item = (ResourceId, i64, i64)>) -> Option<Miss> {
    let short = amounts.filter(|(_, asked, free)| free < asked);
    let (resource, asked, _) = short.min_by_key(|(resource, _, _)| cell.resources.name(*resource))?;
    let never = cell.nodes.capacity(node, resource) < asked;
    Some(if never { Miss::Capacity(resource) } else { Miss::Resource(resource) })
}
