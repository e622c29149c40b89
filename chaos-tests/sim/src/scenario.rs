//! What a run is made of, apart from what its seed draws.

use crate::knobs::NODES_MAX;
use crate::script::Script;
use std::sync::Arc;

/// A run. Everything that is not said here follows from the seed.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// How long faults strike, in virtual milliseconds.
    pub faults_ms: Option<u64>,
    /// How long the healed cell has to become quiet.
    pub quiet_ms: Option<u64>,
    /// How many nodes; above 200 the cell is run as a large one.
    pub nodes: Option<usize>,
    /// How many servers: 1, 3 or 5. Without a number a script has what it says, or one, and a seed draws it.
    pub servers: Option<usize>,
    /// Keep a readable trace of everything.
    pub trace: bool,
    /// Of the drawn faults, only these strike; the network is as drawn.
    pub kept_faults: Option<Vec<usize>>,
    /// What happens besides.
    pub script: Option<Arc<Script>>,
}

impl Scenario {
    /// The run of a seed with nothing said about it.
    pub fn of_seed(seed: u64) -> Self {
        Scenario { seed, ..Scenario::default() }
    }
}

/// What cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A number of servers that nobody runs.
    #[error("a cell with {0} servers is not simulated: use --servers 1, 3 or 5")]
    Servers(usize),
    /// A cell without nodes.
    #[error("a cell needs at least one node")]
    NoNodes,
    /// A cell that no machine could hold.
    #[error("{0} nodes are too many: a cell has at most {NODES_MAX}")]
    Nodes(usize),
}

impl Scenario {
    /// Says what cannot be simulated.
    pub fn check(&self) -> Result<(), Unsupported> {
        match self.servers {
            _ if self.nodes == Some(0) => Err(Unsupported::NoNodes),
            _ if self.nodes.is_some_and(|nodes| nodes > NODES_MAX) => {
                Err(Unsupported::Nodes(self.nodes.unwrap_or_default()))
            }
            None | Some(1 | 3 | 5) => Ok(()),
            Some(servers) => Err(Unsupported::Servers(servers)),
        }
    }
}
