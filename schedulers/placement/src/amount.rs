//! How many tasks are to be placed, and where they go.

use ohm_model::NodeId;

/// Where tasks go: nodes and how many tasks each gets, in the order in which tasks are handed out.
pub type Spots = Vec<(NodeId, u32)>;

/// How many tasks the spots hold.
pub fn tasks_of(spots: &[(NodeId, u32)]) -> u32 {
    spots.iter().map(|(_, count)| count).sum()
}

/// How many tasks, and how hard to try.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// At least this many, or the group is not placed.
    pub least: u32,
    /// At most this many.
    pub most: u32,
    /// At most this many nodes, once `least` are placed: bounds the rows of a plan.
    pub nodes: usize,
    /// How many plans of the job collided before.
    pub attempt: u32,
    /// Orders domains and nodes that are equally good, for groups with topologies; by path if it is 0.
    pub salt: u64,
}
