//! An explanation as `ohm explain` and `ohm plan` print it: what fits, of how many, and which nodes were left out why.

use crate::explain::{Explanation, LayerFit, Miss, Obstacle};
use ohm_cell::Cell;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a count in [`Counted`] is a count of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Single tasks.
    Task,
    /// Outermost slices of the group's topology request.
    Slice,
}

impl Unit {
    /// The word that JSON has.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Task => "task",
            Unit::Slice => "slice",
        }
    }
}

/// Why a group is not placed, in numbers. Made by [`Explanation::counted`].
///
/// `ohm plan` prints it as `explain` of the groups that [`Explanation::groups`] names, and the server answers with it;
/// groups planned after a refused one have none. Serialised it is the documented JSON object; counts of zero
/// and empty maps are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// How many units would find room as they were asked for.
    pub fit: u32,
    /// How many must find room at once.
    pub of: u32,
    /// What is counted.
    pub unit: Unit,
    /// Nodes in question: ready, schedulable and, where a topology is asked for, with a label for each of its levels.
    pub total_nodes: u32,
    /// Nodes that take no task, each under the first filter that excludes it.
    pub excluded: Excluded,
    /// Nodes that are not in question, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<&'static str, u32>,
    /// The domain that takes most, and what it lacks, where the group asks for a topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestDomain>,
}

/// Nodes by the first filter that excludes them. What is zero is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    /// Too little of a resource; the one that is shortest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource: BTreeMap<String, u32>,
    /// A taint that is not tolerated.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub taint: BTreeMap<String, u32>,
    /// A selected label is missing or different.
    #[serde(skip_serializing_if = "is_zero")]
    pub node_selector: u32,
    /// No term of the node affinity matches.
    #[serde(skip_serializing_if = "is_zero")]
    pub affinity: u32,
    /// Outside the domain it must be placed in.
    #[serde(skip_serializing_if = "is_zero")]
    pub topology_domain: u32,
    /// A host port is taken.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub port: BTreeMap<String, u32>,
    /// It holds as many tasks of the group as one node may.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit_per_node: u32,
    /// No task runs near that it must be near, or the node has no label to say so.
    #[serde(skip_serializing_if = "is_zero")]
    pub pod_affinity: u32,
    /// A task runs near that it must not be near.
    #[serde(skip_serializing_if = "is_zero")]
    pub pod_anti_affinity: u32,
    /// Its tasks would be less evenly spread than it allows.
    #[serde(skip_serializing_if = "is_zero")]
    pub pod_topology_spread: u32,
    /// The room is kept for another job.
    #[serde(skip_serializing_if = "is_zero")]
    pub held: u32,
}

/// The domain that takes most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BestDomain {
    /// The label of its level.
    pub level: String,
    /// Its label values, top to bottom.
    pub values: Vec<String>,
    /// What it holds of each layer of slices, outermost first; empty where no slices are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_level: Vec<LayerFit>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Explanation {
    /// The explanation in numbers. `cell` gives names to numbers.
    pub fn counted(&self, cell: &Cell) -> Counted {
        let (mut excluded, mut unavailable) = (Excluded::default(), BTreeMap::new());
        for (miss, &nodes) in &self.misses {
            count_miss(cell, miss, nodes, &mut excluded, &mut unavailable);
        }
        let absent = unavailable.values().sum();
        let best = match &self.obstacle {
            Obstacle::Domain { level, best, layers, .. } if !best.is_empty() => {
                Some(BestDomain { level: level.clone(), values: best.clone(), per_level: layers.clone() })
            }
            _ => None,
        };
        Counted {
            fit: self.fit,
            of: self.of,
            unit: if self.slice > 1 { Unit::Slice } else { Unit::Task },
            total_nodes: self.total_nodes.saturating_sub(absent),
            excluded,
            unavailable,
            best,
        }
    }
}

/// Counts `nodes` nodes under `miss`: excluded, or not in question at all.
pub fn count_miss(
    cell: &Cell,
    miss: &Miss,
    nodes: u32,
    excluded: &mut Excluded,
    unavailable: &mut BTreeMap<&'static str, u32>,
) {
    match miss {
        Miss::NotReady => *unavailable.entry("notReady").or_insert(0) += nodes,
        Miss::Draining => *unavailable.entry("draining").or_insert(0) += nodes,
        Miss::Cordoned => *unavailable.entry("unschedulable").or_insert(0) += nodes,
        Miss::OutsideTopology => *unavailable.entry("notInTopology").or_insert(0) += nodes,
        Miss::Taint(taint) => *excluded.taint.entry(taint.to_string()).or_insert(0) += nodes,
        Miss::NodeSelector => excluded.node_selector += nodes,
        Miss::Affinity => excluded.affinity += nodes,
        Miss::TopologyDomain => excluded.topology_domain += nodes,
        Miss::Capacity(resource) | Miss::Resource(resource) | Miss::Devices(resource) => {
            *excluded.resource.entry(cell.resources().name(*resource).to_string()).or_insert(0) += nodes;
        }
        Miss::Port(port) => *excluded.port.entry(port.to_string()).or_insert(0) += nodes,
        Miss::LimitPerNode => excluded.limit_per_node += nodes,
        Miss::PodAffinity(_) => excluded.pod_affinity += nodes,
        Miss::PodAntiAffinity(_) => excluded.pod_anti_affinity += nodes,
        Miss::PodTopologySpread(_) | Miss::SpreadLabel(_) => excluded.pod_topology_spread += nodes,
        Miss::Held => excluded.held += nodes,
    }
}
