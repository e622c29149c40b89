//! Why one task finds no room on a node, for people: finer than the reasons of verdicts.

use crate::cell::Cell;
use crate::state::shapes::ClassMiss;
use ohm_model::{HostPort, NodeId, ResourceId, Taint};
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
    Port(HostPort),
    /// The group's limit per node is reached.
    LimitPerNode,
    /// No task that the group must be near runs in the domain of this node label, or the label is missing.
    PodAffinity(String),
    /// A task runs in the domain of this node label that the group must not be near, or that must not be near it.
    PodAntiAffinity(String),
    /// The domain of this node label has as many tasks as it may have beside the others.
    PodTopologySpread(String),
    /// This node label, over whose domains the group is spread, is missing.
    SpreadLabel(String),
    /// The room is kept for a nominated job.
    Held,
}

impl Miss {
    /// What says it: kube-scheduler's filter where it has one for it, else the rule of Ohm.
    pub fn filter(&self) -> &'static str {
        match self {
            Miss::NotReady | Miss::Draining => "NodeReady",
            Miss::Cordoned => "NodeUnschedulable",
            Miss::Taint(_) => "TaintToleration",
            Miss::NodeSelector | Miss::Affinity => "NodeAffinity",
            Miss::OutsideTopology | Miss::TopologyDomain => "TopologyDomain",
            Miss::Capacity(_) | Miss::Resource(_) => "NodeResourcesFit",
            Miss::Devices(_) => "Devices",
            Miss::Port(_) => "NodePorts",
            Miss::LimitPerNode => "LimitPerNode",
            Miss::PodAffinity(_) | Miss::PodAntiAffinity(_) => "InterPodAffinity",
            Miss::PodTopologySpread(_) | Miss::SpreadLabel(_) => "PodTopologySpread",
            Miss::Held => "Claims",
        }
    }

    /// Whether it hangs on the tasks around the group.
    pub fn is_of_neighbours(&self) -> bool {
        matches!(self, Miss::PodAffinity(_) | Miss::PodAntiAffinity(_) | Miss::PodTopologySpread(_))
    }

    /// Whether it would be otherwise once others on the node had stopped.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Miss::NotReady | Miss::Draining | Miss::Cordoned | Miss::Taint(_) | Miss::NodeSelector => false,
            Miss::PodAffinity(_) | Miss::SpreadLabel(_) => false,
            Miss::PodAntiAffinity(_) | Miss::PodTopologySpread(_) => true,
            Miss::Affinity | Miss::OutsideTopology | Miss::TopologyDomain | Miss::Capacity(_) => false,
            Miss::Resource(_) | Miss::Devices(_) | Miss::Port(_) | Miss::LimitPerNode | Miss::Held => true,
        }
    }
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
