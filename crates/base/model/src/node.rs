//! Nodes as they are registered.

use crate::ids::{Incarnation, NodeId};
use crate::resources::Amounts;
use crate::selector::Labels;
use crate::taint::Taint;
use serde::{Deserialize, Serialize};

/// The label that holds a node's own name; kept out of the node class, because it is different on every node.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// What an agent says its node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Unique in the cell.
    pub name: String,
    /// Labels; [`HOSTNAME_LABEL`] is added by the cell when absent.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Room for tasks; without `pods` nothing fits.
    pub capacity: Amounts,
    /// Where its tasks listen, handed to peers; empty when it has none.
    pub address: String,
}

/// What the health duty holds of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeHealth {
    /// Beats arrive.
    Ready,
    /// Beats are missing: no new work.
    Suspect,
    /// Its lease has surely ended: its runs are over.
    Lost,
}

/// The health duty's conclusion about one registration of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeConclusion {
    /// The node.
    pub node: NodeId,
    /// The registration it is about.
    pub incarnation: Incarnation,
    /// What is held of it from now on.
    pub health: NodeHealth,
}
