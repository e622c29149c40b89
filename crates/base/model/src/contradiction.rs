//! What no cell with a topology can ever give a group, whatever room there is.

use crate::job::GroupSpec;
use crate::topology::{SLICE_LAYERS_MAX, TopologyMode, TopologySpec};

impl TopologySpec {
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
