//! What an entry gives back: written where room or quota is given back, read by whoever wakes those who wait for it.

use ohm_model::NodeId;
use std::sync::Arc;

/// What one entry gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Nodes that may take work which they did not take before; may repeat.
    pub nodes: Vec<NodeId>,
    /// The roots of the quota trees in which something was given back; each once.
    pub roots: Vec<Arc<str>>,
    /// Whether tasks may stand beside others where they could not before.
    pub neighbours: bool,
}

impl Freed {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.roots.clear();
        self.neighbours = false;
    }
}
