//! A topology as planners read it: every level in ascending path order, children side by side, nodes last.

use ohm_cell::{Cell, NO_DOMAIN, Topology};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{DomainId, NodeId};
use std::ops::Range;

/// One domain, or one node on the last level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its domain number, or its node slot on the node level: the key by which the cell tells domains apart.
    pub key: u32,
    /// The position of the domain above, one level up.
    pub parent: u32,
    /// The positions below, one level down.
    pub children: Range<u32>,
}

/// The domains of a topology with at least one node. A position is an index into its level; positions ascend with the
/// path of label values from the top, so comparing positions compares paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    levels: Vec<Vec<Place>>,
    lowest: usize,
    /// By domain number: its position on its level.
    domains: Vec<u32>,
    /// By node slot: its position on the node level.
    nodes: Vec<u32>,
}

/// No position: the domain or node is not in the tree.
const NOWHERE: u32 = u32::MAX;

impl Tree {
    /// The tree over all nodes of `cell` that carry every label of `topology`.
    pub fn new(cell: &Cell, topology: &Topology) -> Self {
        let stored = topology.stored_levels();
        let mut levels: Vec<Vec<Place>> = Vec::with_capacity(stored + 1);
        let mut position: Vec<u32> = vec![NOWHERE; topology.domains.len()];
        for level in 0..stored {
            let here = topology.domains.iter().enumerate();
            let here = here.filter(|(_, domain)| usize::from(domain.level) == level && domain.nodes > 0);
            let above = |parent: DomainId| position.get(parent.0 as usize).copied().unwrap_or(0);
            let mut places: Vec<(u32, &str, u32)> =
                here.map(|(number, domain)| (above(domain.parent), domain.value.as_str(), number as u32)).collect();
            places.sort_unstable();
            for (at, (_, _, number)) in places.iter().enumerate() {
                position[*number as usize] = at as u32;
            }
            levels.push(places.into_iter().map(|(parent, _, key)| Place { key, parent, children: 0..0 }).collect());
        }
        let mut nodes: Vec<(u32, &str, u32)> = Vec::new();
        for (node, record) in cell.nodes().iter() {
            let domain = if stored == 0 { DomainId(0) } else { topology.domain_of(node, stored - 1) };
            if domain == NO_DOMAIN {
                continue;
            }
            let parent = if stored == 0 { 0 } else { position[domain.0 as usize] };
            let host = record.spec.labels.get(HOSTNAME_LABEL).unwrap_or(&record.spec.name);
            nodes.push((parent, host.as_str(), node.0));
        }
        nodes.sort_unstable();
        let mut slots = vec![NOWHERE; cell.nodes().slots()];
        nodes.iter().zip(0..).for_each(|((_, _, slot), at)| slots[*slot as usize] = at);
        levels.push(nodes.into_iter().map(|(parent, _, key)| Place { key, parent, children: 0..0 }).collect());
        link(&mut levels);
        let lowest = if topology.ends_at_hosts() { stored } else { stored.saturating_sub(1) };
        Tree { levels, lowest, domains: position, nodes: slots }
    }

    /// The level of the nodes: the last one.
    pub fn node_level(&self) -> usize {
        self.levels.len() - 1
    }

    /// The lowest level of the topology itself; the node level, unless the topology ends above the hosts.
    pub fn lowest(&self) -> usize {
        self.lowest
    }

    /// The places of `level` in path order.
    pub fn level(&self, level: usize) -> &[Place] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// The position on `level` of the domain that the cell calls `key`.
    pub fn find(&self, level: usize, key: u32) -> Option<u32> {
        let positions = if level == self.node_level() { &self.nodes } else { &self.domains };
        positions.get(key as usize).copied().filter(|at| *at != NOWHERE)
    }

    /// The position of `node` on the node level, if it is in the tree.
    pub fn position(&self, node: NodeId) -> Option<u32> {
        self.find(self.node_level(), node.0)
    }

    /// The position of the domain of `level` that holds `position` of the node level.
    pub fn above(&self, position: u32, level: usize) -> u32 {
        self.ancestor(self.node_level(), position, level)
    }

    /// The position of the domain of `level` that holds `position` of the level `from` below it.
    pub fn ancestor(&self, from: usize, position: u32, level: usize) -> u32 {
        let levels = (level + 1..=from).rev();
        levels.fold(position, |at, below| self.levels[below].get(at as usize).map_or(0, |place| place.parent))
    }

    /// The positions one level below the adjacent positions of `level`.
    pub fn children_of(&self, level: usize, range: Range<u32>) -> Range<u32> {
        if level >= self.node_level() {
            return 0..0;
        }
        let places = self.levels[level].get(range.start as usize..range.end as usize).unwrap_or(&[]);
        match (places.first(), places.last()) {
            (Some(first), Some(last)) => first.children.start..last.children.end,
            _ => 0..0,
        }
    }

    /// The node at `position` of the node level.
    pub fn node(&self, position: u32) -> NodeId {
        self.level(self.node_level()).get(position as usize).map_or(NodeId(u32::MAX), |place| NodeId(place.key))
    }

    /// The positions of all nodes below `position` of `level`.
    pub fn nodes_below(&self, level: usize, position: u32) -> Range<u32> {
        (level..self.node_level()).fold(position..position + 1, |range, level| self.children_of(level, range))
    }
}

/// Gives every place its children: they lie side by side, because levels are sorted by parent first.
fn link(levels: &mut [Vec<Place>]) {
    for level in 1..levels.len() {
        let (above, below) = levels.split_at_mut(level);
        let (Some(above), Some(below)) = (above.last_mut(), below.first()) else { continue };
        let mut at = 0u32;
        for (parent, place) in above.iter_mut().enumerate() {
            let start = at;
            while below.get(at as usize).is_some_and(|child| child.parent as usize == parent) {
                at += 1;
            }
            place.children = start..at;
        }
    }
}
