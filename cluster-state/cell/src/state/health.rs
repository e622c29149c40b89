//! What the probes of a run say of it.
//!
//! ```text
//! placed anew after a failed probe ─▶ waits for its back-off ─▶ runs, not ready ◀─▶ ready
//!                                        placed otherwise ─────▶─┘
//! ```

use serde::{Deserialize, Serialize};

/// What is known of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHealth {
    /// Whether it is ready; never before it runs.
    pub ready: bool,
    /// Since when, in stamped time; 0 while it is not.
    pub ready_ms: u64,
    /// The number of the last word of its node about that; 0 before the first.
    pub number: u64,
    /// Why it is not ready, for people: which probe failed, and how. Empty while nothing has.
    pub message: String,
    /// It is not to be started before this stamped time; 0 where it may be started at once.
    pub starts_ms: u64,
}
