//! Explanations as numbers under the names that JSON has.

use crate::answer::{Excluded, Explain};
use ohm_cell::Cell;
use ohm_framework::{Explanation, Miss};
use std::collections::BTreeMap;

/// What an explanation counted.
pub(crate) fn of(cell: &Cell, explanation: &Explanation) -> Explain {
    let mut explain = Explain {
        fit: explanation.fit,
        of: explanation.of,
        unit: if explanation.slice > 1 { "slice" } else { "task" },
        ..Explain::default()
    };
    for (miss, nodes) in &explanation.misses {
        count(cell, miss, *nodes, &mut explain.excluded, &mut explain.unavailable);
    }
    let unavailable: u32 = explain.unavailable.values().sum();
    explain.total_nodes = explanation.total_nodes.saturating_sub(unavailable);
    explain
}

/// Counts `nodes` nodes under `miss`.
pub(crate) fn count(
    cell: &Cell,
    miss: &Miss,
    nodes: u32,
    excluded: &mut Excluded,
    unavailable: &mut BTreeMap<&'static str, u32>,
) {
    match miss {
        Miss::NotReady => *unavailable.entry("notReady").or_insert(0) += nodes,
        Miss::Cordoned => *unavailable.entry("unschedulable").or_insert(0) += nodes,
        Miss::OutsideTopology => *unavailable.entry("notInTopology").or_insert(0) += nodes,
        Miss::Excluded => *unavailable.entry("excluded").or_insert(0) += nodes,
        Miss::Taint(taint) => *excluded.taint.entry(taint.to_string()).or_insert(0) += nodes,
        Miss::NodeSelector => excluded.node_selector += nodes,
        Miss::Affinity => excluded.affinity += nodes,
        Miss::TopologyDomain => excluded.topology_domain += nodes,
        Miss::Capacity(resource) | Miss::Resource(resource) | Miss::Devices(resource) => {
            *excluded.resource.entry(cell.resources().name(*resource).to_string()).or_insert(0) += nodes;
        }
        Miss::Port(port) => *excluded.port.entry(port.to_string()).or_insert(0) += nodes,
        Miss::LimitPerNode => excluded.limit_per_node += nodes,
        Miss::Held => excluded.held += nodes,
        Miss::Filter(name) => *excluded.filter.entry(name.clone()).or_insert(0) += nodes,
    }
}
