//! Where a group asks to stand, and why it finds no seats there.

use super::{Counts, Place, Short, Tree, Wish};
use ohm_cell::{Cell, Fence, Topology};
use ohm_framework::{LayerFit, Obstacle};
use ohm_model::{DomainId, TopologyMode};
use std::sync::Arc;

/// Where a group asks to stand.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) tree: Arc<Tree>,
    pub(crate) wish: Wish,
}

/// Why a group finds no seats.
#[derive(Clone, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) obstacle: Obstacle,
    /// The domain it had to stay in, if one was fixed.
    pub(crate) fence: Fence<'a>,
    /// How many slices fit.
    pub(crate) fit: u32,
    /// Of how many.
    pub(crate) of: u32,
    /// Tasks in a slice.
    pub(crate) slice: u32,
}

impl<'a> Site<'a> {
    /// That too little fits: `short` says how much, and where most.
    pub(crate) fn refusal(
        &self,
        cell: &Cell,
        counts: &Counts,
        short: &Short,
        tasks: u32,
        fence: Fence<'a>,
    ) -> Refusal<'a> {
        let place = short.best.and_then(|at| self.tree.level(short.level).get(at as usize));
        let best = place.map_or_else(Vec::new, |place| self.path(cell, short.level, place));
        let level = self.topology.spec.levels.get(short.level).cloned().unwrap_or_default();
        let spreads = self.wish.mode != TopologyMode::Required;
        let layers = match short.best {
            None => Vec::new(),
            Some(at) => self.layer_fits(counts, short.level, at, tasks),
        };
        let fit = short.fit.min(u64::from(u32::MAX)) as u32;
        let (slice, obstacle) = (self.wish.size(), Obstacle::Domain { level, best, fit, layers, spreads });
        Refusal { obstacle, fence, fit, of: tasks / slice, slice }
    }

    /// The same place for a part of a broken slice, which is cut into the slices inside it.
    pub(super) fn inside_slice(&self, level: usize, inner: &[(usize, u64)]) -> Self {
        let wish = Wish { slices: inner.to_vec(), level, mode: TopologyMode::Required, balanced: false };
        Site { topology: self.topology, tree: Arc::clone(&self.tree), wish }
    }

    /// What the domain at `position` of `level` holds of each layer of slices, and what is needed.
    fn layer_fits(&self, counts: &Counts, level: usize, position: u32, tasks: u32) -> Vec<LayerFit> {
        let slices = |layer: usize, size: u64| match layer == counts.layers().level {
            // Of the outermost slices it is known what a leader leaves of them.
            true => counts.at(level, position).slices_beside,
            false => counts.slices_below(level, position, layer, size),
        };
        let layers = self.wish.slices.iter().filter(|(layer, _)| *layer >= level);
        let fits = layers.map(|&(layer, size)| LayerFit {
            level: self.topology.spec.levels.get(layer).cloned().unwrap_or_default(),
            fit: slices(layer, size).min(u64::from(u32::MAX)) as u32,
            needed: tasks / (size.max(1) as u32),
        });
        fits.collect()
    }

    fn path(&self, cell: &Cell, level: usize, place: &Place) -> Vec<String> {
        let stored = self.topology.stored_levels();
        if level < stored {
            return self.topology.path(DomainId(place.key)).into_iter().map(String::from).collect();
        }
        let node = ohm_model::NodeId(place.key);
        let above =
            if stored == 0 { Vec::new() } else { self.topology.path(self.topology.domain_of(node, stored - 1)) };
        let host = cell.nodes().get(node).and_then(|record| record.spec.labels.get(ohm_model::node::HOSTNAME_LABEL));
        let host = host.map_or_else(|| cell.nodes().name(node), String::as_str);
        above.into_iter().chain([host]).map(String::from).collect()
    }

    /// The fence around one domain.
    pub(crate) fn fence(&self, level: usize, key: Option<u32>) -> Fence<'a> {
        Fence { topology: self.topology, level, key }
    }
}
