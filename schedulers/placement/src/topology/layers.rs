//! What a request means in levels: where it begins, how far it may widen, and in which sizes it is cut.

use ohm_model::{GroupSpec, TopologyMode, TopologySpec};

/// In which order domains are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The largest first, and the smallest sufficient one for what remains.
    BestFit,
    /// The fullest first: drains what is nearly full, keeps large domains whole.
    LeastFree,
}

/// How tasks are cut into slices: a slice of `size` tasks stands in one domain of `level`; layers inside it are cut
/// again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layers {
    /// The level of the outermost slices; the lowest one where none are asked for.
    pub level: usize,
    /// Tasks in an outermost slice; 1 where none are asked for.
    pub size: u64,
    /// By level: tasks of an inner slice come in whole numbers of this from domains of the level.
    inner: Vec<u64>,
}

impl Layers {
    /// The layers of `slices`, (level, size) from the outermost, in a tree whose lowest level is `lowest`.
    pub fn new(slices: &[(usize, u64)], lowest: usize) -> Self {
        let (level, size) = slices.first().copied().unwrap_or((lowest, 1));
        let mut inner = vec![1; lowest + 2];
        for pair in slices.windows(2) {
            inner[pair[0].0 + 1..=pair[1].0].fill(pair[1].1);
        }
        Layers { level, size, inner }
    }

    /// In which whole numbers domains of `level` give tasks to those above.
    pub fn inner(&self, level: usize) -> u64 {
        self.inner.get(level).copied().unwrap_or(1)
    }
}

/// A topology request, compiled against a topology that it agrees with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The level at which the search begins.
    pub level: usize,
    /// How strongly the group wants to be together; slices alone count as `Unconstrained`.
    pub mode: TopologyMode,
    /// (level, size) of each layer of slices, outermost first.
    pub slices: Vec<(usize, u64)>,
    /// Whether domains are to be filled evenly.
    pub balanced: bool,
}

impl Wish {
    /// Nothing when a level is unknown: then [`TopologySpec::check`] says which.
    pub fn new(group: &GroupSpec, topology: &TopologySpec) -> Option<Self> {
        let request = &group.topology;
        let mut slices = Vec::with_capacity(group.slices().len());
        for slice in group.slices() {
            slices.push((topology.level(&slice.level)?, u64::from(slice.size.max(1))));
        }
        let (level, mode) = match request.mode {
            TopologyMode::Required | TopologyMode::Preferred => (topology.level(&request.level)?, request.mode),
            // Slices without a level begin at the top, which contains them all.
            _ if !slices.is_empty() => (0, TopologyMode::Unconstrained),
            _ => (topology.levels.len().saturating_sub(1), TopologyMode::Unconstrained),
        };
        Some(Wish { level, mode, slices, balanced: request.balanced && mode == TopologyMode::Preferred })
    }

    /// In which order domains are tried.
    pub fn order(&self) -> Order {
        if self.mode == TopologyMode::Unconstrained { Order::LeastFree } else { Order::BestFit }
    }

    /// Tasks in an outermost slice.
    pub fn size(&self) -> u32 {
        self.slices.first().map_or(1, |(_, size)| *size as u32)
    }
}
