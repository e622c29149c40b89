//! What an entry gives back: written where room or quota is given back, read by whoever wakes those who wait for it.

use crate::cell::Cell;
use ohm_model::{NodeId, ResourceId};
use std::sync::Arc;

/// What one entry gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Nodes that may take work which they did not take before; may repeat.
    pub nodes: Vec<NodeId>,
    /// The roots of the quota trees in which something was given back; each once.
    pub roots: Vec<Arc<str>>,
}

impl Freed {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.roots.clear();
    }
}

impl Cell {
    /// More may fit on `node` than before.
    pub(super) fn free_node(&mut self, node: NodeId) {
        if self.freed.nodes.last() != Some(&node) {
            self.freed.nodes.push(node);
        }
    }

    /// Sets or clears a flag that bears on new work.
    pub(super) fn mark_node(&mut self, node: NodeId, flag: u8, on: bool) {
        let before = self.nodes.is_schedulable(node);
        self.nodes.set_flag(node, flag, on);
        if !before && self.nodes.is_schedulable(node) {
            self.free_node(node);
        }
    }

    /// Adds each amount to the usage of `queue`; negative gives back.
    pub(super) fn charge_queue(&mut self, queue: &str, amounts: impl Iterator<Item = (ResourceId, i64)>) {
        let mut gives = false;
        self.quota.charge(queue, amounts.inspect(|(_, amount)| gives |= *amount < 0));
        if gives {
            let root = self.quota.root(queue);
            if !self.freed.roots.iter().any(|known| **known == *root) {
                self.freed.roots.push(Arc::from(root));
            }
        }
    }
}
