//! Topologies: levels of node labels, and what a group asks of them.

use serde::{Deserialize, Serialize};

/// Most levels a topology may have (Kueue's bound).
pub const LEVELS_MAX: usize = 16;

/// An ordered list of node labels, coarse to fine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologySpec {
    /// Unique in the cell.
    pub name: String,
    /// Label keys from the top; 1 to [`LEVELS_MAX`], distinct.
    pub levels: Vec<String>,
}

/// How strongly a group wants to be together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TopologyMode {
    /// It does not care.
    #[default]
    None,
    /// All tasks in one domain of the level, always.
    Required,
    /// As close together as possible, from the level upwards.
    Preferred,
    /// Anywhere in the topology, counted against its leaves.
    Unconstrained,
}

/// What a group asks of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// The topology's name; the only one of the cell when empty.
    pub topology: String,
    /// How strongly.
    pub mode: TopologyMode,
    /// The label key of the level; empty for `None` and `Unconstrained`.
    pub level: String,
}
