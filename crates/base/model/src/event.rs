//! What happened, and when.

use crate::event_kind::EventKind;
use crate::ids::Index;
use serde::{Deserialize, Serialize};

/// One thing that happened when an entry was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The entry.
    pub index: Index,
    /// Stamped time.
    pub at_ms: u64,
    /// What.
    pub kind: EventKind,
}
