//! Placing groups in a topology: as many tasks as fit together where they must or would rather be together.
//!
//! ```text
//! request ──▶ Wish (levels, slices) ──▶ Counts (what fits, by domain; kept per shape) ──▶ choose ──▶ nodes
//!                                          ▲ changed nodes, as differences                  │
//!                            standing tasks, broken slices (repair) ─────────────────────────┘
//! ```
//!
//! Every filter holds at every level: what a domain takes is the sum of what its nodes take, task by task, also where
//! the topology does not end at hosts.

mod balanced;
mod choose;
mod counts;
mod layers;
mod place;
mod repair;
mod tally;
mod tree;

pub use choose::{Choice, Reach, Request, Short, choose};
pub use counts::{Count, Counts};
pub use layers::{Layers, Order, Wish};
pub(crate) use place::Seats;
pub(crate) use tally::Tallies;
pub use tree::{Place, Tree};

use crate::placer::Placer;
use crate::subject::Subject;
use ohm_cell::Fence;
use ohm_cell::{Cell, Topology};
use ohm_framework::{LayerFit, Obstacle};
use ohm_model::{DomainId, NodeId, TopologyMode};
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
    fn inside_slice(&self, level: usize, inner: &[(usize, u64)]) -> Self {
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

impl Placer {
    /// Sorts nodes by their place in the topology that the subject's group asks for; leaves them as they are when it
    /// asks for none. False when it asks for one that the cell lacks or the request contradicts.
    pub fn sort_by_path(&mut self, subject: &Subject<'_>, nodes: &mut [(NodeId, u32)]) -> bool {
        let site = self.site(subject, subject.view.cell());
        if let Ok(Some(site)) = &site {
            nodes.sort_by_key(|(node, _)| site.tree.position(*node));
        }
        site.is_ok()
    }

    /// Where the subject's group asks to stand; nothing when it asks for no topology. An error when the cell has no
    /// such topology, or one that the request contradicts.
    pub(crate) fn site<'c>(&mut self, subject: &Subject<'_>, cell: &'c Cell) -> Result<Option<Site<'c>>, Obstacle> {
        let request = &subject.spec.topology;
        if !request.is_asked() {
            return Ok(None);
        }
        let unknown = || format!("the cell has no topology called \"{}\"", request.topology);
        let contradiction = |problem: String| Obstacle::Contradiction { problem };
        let topology = cell.topologies().get(&request.topology).ok_or_else(|| contradiction(unknown()))?;
        topology.spec.check(subject.spec).map_err(|error| contradiction(error.to_string()))?;
        let wish = Wish::new(subject.spec, &topology.spec).ok_or_else(|| contradiction(unknown()))?;
        let name = &topology.spec.name;
        let known = self.trees.get(name).cloned();
        let tree = known.unwrap_or_else(|| {
            let tree = Arc::new(Tree::new(cell, topology));
            self.trees.insert(name.clone(), Arc::clone(&tree));
            tree
        });
        Ok(Some(Site { topology, tree, wish }))
    }
}
