//! How a node is being drained.

use ohm_model::Index;
use serde::{Deserialize, Serialize};

/// How a node is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// The entry that began it.
    pub since: Index,
    /// Stamped time of that entry.
    pub since_ms: u64,
    /// What still stands there at this stamped time is stopped; 0 is never.
    pub deadline_ms: u64,
    /// How many tasks of one group of a service may be on the move at the same time, at least 1.
    pub at_once: u32,
}
