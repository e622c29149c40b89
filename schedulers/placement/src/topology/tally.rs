//! Counts kept between passes, per shape, topology and cut: only nodes that changed are counted again.

use super::{Counts, Layers, Site, Tree};
use crate::demand::Demand;
use crate::demand_key::{DemandKey, REFUSED};
use crate::subject::Subject;
use crate::table::{BLOCK, CLOSED, NodeTable};
use ohm_cell::{Shape, device_room};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{ClassId, GroupSpec, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// For how many (shape, cut) pairs counts are kept; the one longest unused makes room. Each takes about 20 bytes a
/// node.
const REMEMBERED: usize = 16;

/// Counts of one shape under one cut, and the state of the table they are for.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(super) key: DemandKey,
    shape: Arc<Shape>,
    tree: Arc<Tree>,
    layers: Layers,
    seen: Vec<u64>,
    clock: u64,
    used: u64,
    counts: Counts,
}

/// The tallies kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    kept: Vec<Tally>,
    uses: u64,
}

impl Tallies {
    /// Takes the tally out that is for this group, cut and tree.
    pub(super) fn take(&mut self, subject: &Subject<'_>, tree: &Arc<Tree>, layers: &Layers) -> Option<Tally> {
        let same = |tally: &Tally| {
            tally.key.is(subject.shape_id, subject.spec)
                && Arc::ptr_eq(&tally.tree, tree)
                && tally.layers == *layers
                && tally.shape == *subject.shape
        };
        let at = self.kept.iter().position(same)?;
        Some(self.kept.swap_remove(at))
    }

    /// Keeps a tally for the next time.
    pub(crate) fn keep(&mut self, mut tally: Tally) {
        self.uses += 1;
        tally.used = self.uses;
        if self.kept.len() >= REMEMBERED
            && let Some(oldest) = (0..self.kept.len()).min_by_key(|at| self.kept[*at].used)
        {
            self.kept.swap_remove(oldest);
        }
        self.kept.push(tally);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}

/// Counts borrowed for one placement, with what was changed in them for this one group alone.
pub(crate) struct Loan {
    tally: Tally,
    changed: Vec<(u32, u64)>,
}

impl Loan {
    pub(super) fn of(tally: Tally) -> Self {
        Loan { tally, changed: Vec::new() }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.tally.counts
    }

    /// Changes what fits on one node until the loan is given back.
    pub(crate) fn set(&mut self, position: u32, room: u64) {
        let before = self.tally.counts.set(position, room);
        if before != room {
            self.changed.push((position, before));
        }
    }

    /// The tally as it was.
    pub(super) fn settle(mut self) -> Tally {
        for (position, before) in self.changed.into_iter().rev() {
            self.tally.counts.set(position, before);
        }
        self.tally
    }
}

impl Tally {
    pub(super) fn new(
        subject: &Subject<'_>,
        site: &Site<'_>,
        layers: Layers,
        table: &NodeTable,
        demand: &Demand,
    ) -> Self {
        let tree = &site.tree;
        let places = tree.level(tree.node_level());
        let rooms = places.iter().map(|place| room(subject, table, demand, NodeId(place.key)));
        let mut counts = Counts::new(tree, layers.clone(), rooms.collect());
        if !subject.spec.preferred.is_empty() {
            let mut known = Affinities::new(subject.spec);
            counts.set_affinities(places.iter().map(|place| known.of(subject, table, demand, place.key)).collect());
        }
        Tally {
            key: demand.key.clone(),
            shape: Arc::clone(subject.shape),
            tree: Arc::clone(tree),
            layers,
            seen: table.changed().to_vec(),
            clock: table.clock(),
            used: 0,
            counts,
        }
    }

    /// Counts the nodes anew that changed; returns how many were looked at.
    pub(super) fn sync(&mut self, subject: &Subject<'_>, table: &NodeTable, demand: &Demand) -> usize {
        let blocks = table.blocks();
        let clock = std::mem::replace(&mut self.clock, table.clock());
        if clock == table.clock() && self.seen.len() == blocks {
            return 0;
        }
        self.seen.resize(blocks, 0);
        let mut known = Affinities::new(subject.spec);
        let mut looked = 0;
        let mut look = |tally: &mut Tally, block: usize| {
            let changed = table.changed()[block];
            if tally.seen[block] != changed {
                tally.seen[block] = changed;
                looked += BLOCK;
                tally.sync_block(subject, table, demand, &mut known, block);
            }
        };
        match table.changed_since(clock) {
            Some(trail) if trail.size_hint().0 < blocks => trail.for_each(|block| look(self, block)),
            _ => (0..blocks).for_each(|block| look(self, block)),
        }
        looked
    }

    fn sync_block(
        &mut self,
        subject: &Subject<'_>,
        table: &NodeTable,
        demand: &Demand,
        known: &mut Affinities<'_>,
        block: usize,
    ) {
        for slot in (block * BLOCK..(block + 1) * BLOCK).map(|slot| slot as u32) {
            let Some(position) = self.tree.position(NodeId(slot)) else { continue };
            self.counts.set(position, room(subject, table, demand, NodeId(slot)));
            if self.counts.has_affinity() {
                self.counts.set_affinity(position, known.of(subject, table, demand, slot));
            }
        }
    }
}

/// How many tasks fit on a node, whoever's they are: by columns where they decide, by a look at devices where not.
pub(super) fn room(subject: &Subject<'_>, table: &NodeTable, demand: &Demand, node: NodeId) -> u64 {
    let kind = table.kind(node);
    if kind == CLOSED || demand.kind_cost(kind) == REFUSED {
        return 0;
    }
    let mut room = demand.room(table, node);
    if room > 0 && !demand.is_plain() {
        if !demand.fits(table, &subject.view, node) {
            return 0;
        }
        room = demand
            .whole_devices_room(table, node, room)
            .unwrap_or_else(|| room.min(device_room(subject.view.what(), subject.shape, node).0));
        if !subject.shape.ports.is_empty() {
            room = room.min(1);
        }
    }
    u64::from(room.min(subject.shape.most_on_node()))
}

/// The preferred affinity of nodes, remembered by class.
struct Affinities<'a> {
    spec: &'a GroupSpec,
    by_class: BTreeMap<ClassId, u64>,
    names_hosts: bool,
}

impl<'a> Affinities<'a> {
    fn new(spec: &'a GroupSpec) -> Self {
        let terms = spec.preferred.iter().flat_map(|(_, term)| &term.requirements);
        let names_hosts = terms.into_iter().any(|requirement| requirement.key == HOSTNAME_LABEL);
        Affinities { spec, by_class: BTreeMap::new(), names_hosts }
    }

    /// The weights of the terms that a node meets; nothing for nodes that are out of question.
    fn of(&mut self, subject: &Subject<'_>, table: &NodeTable, demand: &Demand, slot: u32) -> u64 {
        let (node, kind) = (NodeId(slot), table.kind(NodeId(slot)));
        if kind == CLOSED || demand.kind_cost(kind) == REFUSED {
            return 0;
        }
        let nodes = subject.view.cell().nodes();
        let Some(record) = nodes.get(node) else { return 0 };
        let sum = || -> u64 {
            let met =
                self.spec.preferred.iter().filter(|(_, term)| term.matches(&record.spec.name, &record.spec.labels));
            met.map(|(weight, _)| u64::from(*weight)).sum()
        };
        if self.names_hosts {
            return sum();
        }
        *self.by_class.entry(nodes.class(node)).or_insert_with(sum)
    }
}
