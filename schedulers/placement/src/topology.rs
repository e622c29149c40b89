//! Placing a group in a topology: as many tasks as fit together where they must or would rather be together.
//!
//! Every filter holds at every level: what a domain takes is the sum of what its nodes take, task by task. Slices,
//! leaders and balanced placement belong into [`choose()`]: they change what is counted and in which order
//! domains are tried, not what is around it.

mod choose;
mod tree;

pub use choose::{Counts, Order, Request, choose};
pub use tree::{Place, Tree};

use crate::flat::{Amount, Spots};
use crate::placer::{Pass, Placer};
use crate::subject::{Fence, Subject};
use ohm_cell::{Cell, Topology};
use ohm_framework::Obstacle;
use ohm_model::{DomainId, TopologyMode};
use std::sync::Arc;

/// Where a group asks to stand.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) tree: Arc<Tree>,
    /// The level asked for; the lowest one where none is.
    pub(crate) level: usize,
    pub(crate) mode: TopologyMode,
}

impl<'a> Site<'a> {
    /// The obstacle that no domain of `level` takes enough: `position` takes `fit`.
    pub(crate) fn obstacle(&self, cell: &Cell, level: usize, position: Option<u32>, fit: u64) -> Obstacle {
        let place = position.and_then(|at| self.tree.level(level).get(at as usize));
        let best = place.map_or_else(Vec::new, |place| self.path(cell, level, place));
        let label = self.topology.spec.levels.get(level).cloned().unwrap_or_default();
        Obstacle::Domain { level: label, best, fit: fit.min(u64::from(u32::MAX)) as u32 }
    }

    fn path(&self, cell: &Cell, level: usize, place: &Place) -> Vec<String> {
        let stored = self.topology.stored_levels();
        if level < stored {
            return self.topology.path(DomainId(place.key)).into_iter().map(String::from).collect();
        }
        let node = ohm_model::NodeId(place.key);
        let above =
            if stored == 0 { Vec::new() } else { self.topology.path(self.topology.domain_of(node, stored - 1)) };
        above.into_iter().chain([cell.nodes().name(node)]).map(String::from).collect()
    }

    /// The fence around one domain.
    pub(crate) fn fence(&self, level: usize, key: Option<u32>) -> Fence<'a> {
        Fence { topology: self.topology, level, key }
    }
}

impl Placer {
    /// Where the subject's group asks to stand; nothing when it asks for no topology. An error when the cell has no
    /// such topology or level any more.
    pub(crate) fn site<'c>(&mut self, subject: &Subject<'_>, cell: &'c Cell) -> Result<Option<Site<'c>>, Obstacle> {
        let request = &subject.spec.topology;
        if request.mode == TopologyMode::None {
            return Ok(None);
        }
        let gone = || Obstacle::Domain { level: request.level.clone(), best: Vec::new(), fit: 0 };
        let topology = cell.topologies().get(&request.topology).ok_or_else(gone)?;
        let level = match request.mode {
            TopologyMode::Unconstrained | TopologyMode::None => topology.spec.levels.len().saturating_sub(1),
            TopologyMode::Required | TopologyMode::Preferred => topology.level(&request.level).ok_or_else(gone)?,
        };
        let name = &topology.spec.name;
        let known = self.trees.get(name).cloned();
        let tree = known.unwrap_or_else(|| {
            let tree = Arc::new(Tree::new(cell, topology));
            self.trees.insert(name.clone(), Arc::clone(&tree));
            tree
        });
        Ok(Some(Site { topology, tree, level, mode: request.mode }))
    }

    /// How many tasks of the subject's group each domain takes; only inside `fence`, if there is one.
    pub(crate) fn count(
        &mut self,
        pass: &Pass<'_>,
        subject: &Subject<'_>,
        site: &Site<'_>,
        fence: Option<Fence<'_>>,
    ) -> Counts {
        let tree = &site.tree;
        let all = 0..tree.level(tree.node_level()).len() as u32;
        let range = match fence.and_then(|fence| Some((fence.level, fence.key?))) {
            None => all.clone(),
            Some((level, key)) => tree.find(level, key).map_or(0..0, |at| tree.nodes_below(level, at)),
        };
        let (slot, scanned) = self.index(subject);
        let (table, index) = self.parts(slot);
        let plain = index.demand.is_plain() && subject.excluded.is_empty();
        let mut on_nodes = vec![0u64; all.len()];
        pass.look_at(scanned + range.len() as u64);
        for at in range {
            let node = tree.node(at);
            let kind = table.kind(node);
            let room = match plain && !table.is_singled(node) {
                true if index.demand.kind_cost(kind) == crate::demand::REFUSED => 0,
                true => subject.limited(node, index.demand.room(table, node)),
                false => subject.room(node),
            };
            on_nodes[at as usize] = u64::from(room);
        }
        Counts::new(tree, on_nodes)
    }

    /// Places as many of `amount.most` tasks as fit together, at least `amount.least`, in ascending path order.
    pub(crate) fn place_in_topology(
        &mut self,
        pass: &Pass<'_>,
        subject: &Subject<'_>,
        site: &Site<'_>,
        fence: Option<Fence<'_>>,
        amount: &Amount,
    ) -> Result<Spots, Obstacle> {
        let counts = self.count(pass, subject, site, fence);
        let fenced = fence.filter(|fence| fence.key.is_some());
        let required = fenced.is_some() || site.mode == TopologyMode::Required;
        let mut request = Request {
            need: u64::from(amount.most),
            level: fenced.map_or(site.level, |fence| fence.level),
            required,
            climbs: site.mode == TopologyMode::Preferred,
            order: if site.mode == TopologyMode::Unconstrained { Order::LeastFree } else { Order::BestFit },
        };
        let mut chosen = choose(&site.tree, &counts, &request);
        if let Err(fit) = chosen
            && fit >= u64::from(amount.least.max(1))
        {
            request.need = fit;
            chosen = choose(&site.tree, &counts, &request);
        }
        match chosen {
            Ok(chosen) => {
                let spots = chosen.into_iter().map(|(at, units)| (site.tree.node(at), units as u32));
                Ok(spots.filter(|(_, count)| *count > 0).collect())
            }
            Err(fit) => {
                let level = if required { request.level } else { 0 };
                let best = counts.largest(level).filter(|(_, count)| *count > 0).map(|(at, _)| at);
                Err(site.obstacle(subject.view.cell(), level, best, fit))
            }
        }
    }
}
