//! Topologies: levels of node labels, and what a group asks of them.

use crate::job::GroupSpec;
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

    /// Whether what `group` asks agrees with this topology: the level is there, layers of slices lie at or below it and
    /// each below the one before, each size divides the one before and the first the group's count.
    pub fn check(&self, group: &GroupSpec) -> Result<(), TopologyContradiction> {
        let (request, slices) = (&group.topology, group.slices());
        use TopologyContradiction as No;
        let levels = || self.levels.join(", ");
        let known = |label: &String| {
            let gone = || No::LevelUnknown { level: label.clone(), topology: self.name.clone(), levels: levels() };
            self.level(label).ok_or_else(gone)
        };
        let (mut above, mut strict, mut size) = (0, false, group.count);
        let mut above_label = self.levels.first().cloned().unwrap_or_default();
        if matches!(request.mode, TopologyMode::Required | TopologyMode::Preferred) {
            above = known(&request.level)?;
            above_label.clone_from(&request.level);
        }
        if slices.len() > SLICE_LAYERS_MAX {
            return Err(No::TooManyLayers { layers: slices.len() });
        }
        for (layer, slice) in slices.iter().enumerate() {
            let level = known(&slice.level)?;
            if level < above || (strict && level == above) {
                return Err(No::NotBelow { level: slice.level.clone(), above: above_label });
            }
            if slice.size == 0 || !size.is_multiple_of(slice.size) {
                return Err(No::NotDivided { size: slice.size, whole: size, is_count: layer == 0 });
            }
            (above, strict, size) = (level, true, slice.size);
            above_label.clone_from(&slice.level);
        }
        Ok(())
    }
}

/// Why a request can be met by no cell with this topology, whatever room there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyContradiction {
    /// The topology has no such level.
    #[error("\"{level}\" is no level of topology {topology}; the levels are {levels}")]
    LevelUnknown {
        /// The level asked for.
        level: String,
        /// The topology.
        topology: String,
        /// Its levels, as text.
        levels: String,
    },
    /// A layer of slices lies above what must contain it, or beside it.
    #[error("slices in \"{level}\" must lie below \"{above}\", which contains them")]
    NotBelow {
        /// The level of the slices.
        level: String,
        /// The level that must be above.
        above: String,
    },
    /// A slice size does not divide what it is a part of.
    #[error("a slice size of {size} does not divide the {} of {whole}", whole_name(*.is_count))]
    NotDivided {
        /// The slice size.
        size: u32,
        /// What it should divide.
        whole: u32,
        /// Whether that is the group's count.
        is_count: bool,
    },
    /// Too many layers.
    #[error("{layers} layers of slices; at most 3 are possible")]
    TooManyLayers {
        /// How many.
        layers: usize,
    },
}

fn whole_name(is_count: bool) -> &'static str {
    if is_count { "count" } else { "outer slice size" }
}
