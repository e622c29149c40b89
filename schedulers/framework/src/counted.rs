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

/// Why a group is not placed, in numbers. Made by [`Explanation::counted`].
///
/// `ohm plan` prints it as `explain` of the group that [`Explanation::group`] names, and of the group placed with it (its
/// leader); groups planned after a refused one have none. Serialised it is the documented JSON object; counts of zero
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
    /// The domain that takes most, and what it lacks, where the group asks for a topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestDomain>,
}

/// Nodes by the first filter that excludes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    /// Too little of a resource, by its name; of several, the first by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource: BTreeMap<String, u32>,
    /// A taint that is not tolerated, as `key=value:Effect`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub taint: BTreeMap<String, u32>,
    /// No match of the node selector.
    #[serde(skip_serializing_if = "is_zero")]
    pub node_selector: u32,
    /// No match of the required node affinity.
    #[serde(skip_serializing_if = "is_zero")]
    pub affinity: u32,
    /// Outside the domain that the group must stay in.
    #[serde(skip_serializing_if = "is_zero")]
    pub topology_domain: u32,
    /// Everything else by name: `excluded`, `port`, `limitPerNode`, `held` or the filter's own.
    #[serde(flatten)]
    pub other: BTreeMap<String, u32>,
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
        let (mut excluded, mut absent) = (Excluded::default(), 0);
        for (miss, &nodes) in &self.misses {
            match miss {
                // Such a node takes no part in the placement at all.
                Miss::NotReady | Miss::Cordoned | Miss::OutsideTopology => absent += nodes,
                Miss::Taint(taint) => add(&mut excluded.taint, taint_text(taint), nodes),
                Miss::NodeSelector => excluded.node_selector += nodes,
                Miss::Affinity => excluded.affinity += nodes,
                Miss::TopologyDomain => excluded.topology_domain += nodes,
                Miss::Capacity(resource) | Miss::Resource(resource) | Miss::Devices(resource) => {
                    add(&mut excluded.resource, cell.resources().name(*resource).to_string(), nodes);
                }
                Miss::Excluded => add(&mut excluded.other, "excluded".into(), nodes),
                Miss::Port(_) => add(&mut excluded.other, "port".into(), nodes),
                Miss::LimitPerNode => add(&mut excluded.other, "limitPerNode".into(), nodes),
                Miss::Held => add(&mut excluded.other, "held".into(), nodes),
                Miss::Filter(name) => add(&mut excluded.other, name.clone(), nodes),
            }
        }
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
            best,
        }
    }
}

fn add(counts: &mut BTreeMap<String, u32>, name: String, nodes: u32) {
    *counts.entry(name).or_insert(0) += nodes;
}

fn taint_text(taint: &ohm_model::Taint) -> String {
    format!("{}={}:{:?}", taint.key, taint.value, taint.effect)
}
