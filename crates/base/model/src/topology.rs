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

/// Most layers of slices (Kueue's bound).
pub const SLICE_LAYERS_MAX: usize = 3;

/// One layer of slices: so many tasks always stand together in one domain of the level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopologySlice {
    /// The label key of the level.
    pub level: String,
    /// How many tasks a slice has; at least 1.
    pub size: u32,
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
    /// Tasks are placed in whole slices; outermost first, at most [`SLICE_LAYERS_MAX`]. Slices without a mode are a
    /// request of their own: anywhere in the topology, slice by slice.
    pub slices: Vec<TopologySlice>,
    /// With `Preferred`: the domains used get numbers of slices as equal as can be.
    pub balanced: bool,
}

impl TopologyRequest {
    /// Whether anything is asked of a topology at all.
    pub fn is_asked(&self) -> bool {
        self.mode != TopologyMode::None || !self.slices.is_empty()
    }
}

impl TopologySpec {
    /// The position of the level with this label, from 0 at the top.
    pub fn level(&self, label: &str) -> Option<usize> {
        self.levels.iter().position(|level| level == label)
    }
}
