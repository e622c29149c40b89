//! What nodes have and what is taken of it, summed.

use crate::answer::Totals;
use crate::question::add;
use crate::world::World;
use ohm_manifest::NodeDocument;
use ohm_model::{Amounts, NodeId};

/// What documents say about rooms, summed over the nodes that are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    capacity: Amounts,
    /// What others take.
    used: Amounts,
    /// By slot, whether others take anything.
    busy: Vec<bool>,
}

impl Rooms {
    pub(crate) fn of(world: &World, nodes: &[NodeDocument]) -> Self {
        let mut rooms = Rooms { busy: vec![false; world.cell.nodes().slots()], ..Rooms::default() };
        for (at, node) in nodes.iter().enumerate() {
            add(&mut rooms.capacity, &node.spec.capacity, 1);
            add(&mut rooms.used, &node.used, 1);
            // Nodes joined in this order: mostly the slot is known without a search.
            let here = world.cell.nodes().get(NodeId(at as u32)).filter(|record| record.spec.name == node.spec.name);
            let slot = match here {
                Some(_) => Some(at),
                None => world.cell.nodes().find(&node.spec.name).map(|id| id.0 as usize),
            };
            if let Some(busy) = slot.and_then(|slot| rooms.busy.get_mut(slot)) {
                *busy = node.used.values().any(|amount| *amount > 0);
            }
        }
        rooms
    }

    /// Leaves out a node that fails.
    pub(crate) fn leave(&mut self, node: &NodeDocument) {
        let less = |sum: &mut Amounts, amounts: &Amounts| {
            amounts.iter().for_each(|(name, amount)| *sum.entry(name.clone()).or_insert(0) -= amount);
        };
        less(&mut self.capacity, &node.spec.capacity);
        less(&mut self.used, &node.used);
    }

    /// What the nodes of the cell have, and what is taken of it.
    pub(crate) fn totals(&self, world: &World) -> Totals {
        let (nodes, names) = (world.cell.nodes(), world.cell.resources());
        let mut totals = Totals::default();
        let mut taken = self.used.clone();
        for column in (0..names.len() as u16).map(ohm_model::ResourceId) {
            let on_node = |(node, _)| nodes.capacity(node, column) - nodes.free(node, column);
            let by_runs: i64 = nodes.iter().map(on_node).sum();
            *taken.entry(names.name(column).to_string()).or_insert(0) += by_runs;
        }
        for (name, amount) in &taken {
            totals.add(name, *amount, self.capacity.get(name).copied().unwrap_or(0));
        }
        let by_others = |node: NodeId| self.busy.get(node.0 as usize).copied().unwrap_or(false);
        let used = nodes.iter().filter(|(node, _)| nodes.run_count(*node) > 0 || by_others(*node));
        (totals.nodes, totals.nodes_used) = (nodes.len() as u32, used.count() as u32);
        totals
    }
}
