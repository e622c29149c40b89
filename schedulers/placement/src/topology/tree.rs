//! A topology as planners read it: every level in ascending path order, children side by side, nodes last.

use ohm_cell::{Cell, NO_DOMAIN, Topology};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{DomainId, NodeId};
use std::collections::BTreeMap;
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
}

impl Tree {
    /// The tree over all nodes of `cell` that carry every label of `topology`.
    pub fn new(cell: &Cell, topology: &Topology) -> Self {
        let stored = topology.stored_levels();
        let mut levels: Vec<Vec<Place>> = Vec::with_capacity(stored + 1);
        // By domain number: its position on its level.
        let mut position: Vec<u32> = vec![u32::MAX; topology.domains.len()];
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
        levels.push(nodes.into_iter().map(|(parent, _, key)| Place { key, parent, children: 0..0 }).collect());
        link(&mut levels);
        let lowest = if topology.ends_at_hosts() { stored } else { stored.saturating_sub(1) };
        Tree { levels, lowest }
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
        self.level(level).iter().position(|place| place.key == key).map(|at| at as u32)
    }

    /// The node at `position` of the node level.
    pub fn node(&self, position: u32) -> NodeId {
        self.level(self.node_level()).get(position as usize).map_or(NodeId(u32::MAX), |place| NodeId(place.key))
    }

    /// The positions of all nodes below `position` of `level`.
    pub fn nodes_below(&self, level: usize, position: u32) -> Range<u32> {
        let mut range = position..position + 1;
        for at in level..self.node_level() {
            let places = &self.levels[at][range.start as usize..range.end as usize];
            range = match (places.first(), places.last()) {
                (Some(first), Some(last)) => first.children.start..last.children.end,
                _ => 0..0,
            };
        }
        range
    }

    /// Where each node stands in path order, for handing out ranks.
    pub fn rank(&self) -> BTreeMap<NodeId, u32> {
        self.level(self.node_level()).iter().zip(0..).map(|(place, at)| (NodeId(place.key), at)).collect()
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
