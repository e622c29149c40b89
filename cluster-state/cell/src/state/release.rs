//! How a node that was brought goes back.
//!
//! ```text
//!   in use ◀─────▶ idle ──idleSeconds──▶ releasing ──taken back──▶ released ──lost──▶ removed
//! ```
//! It is idle when nothing is on it, and its request is over or nothing of the job waits (see `policy/brought.rs`).
//! From `releasing` on a taint keeps new work away. A new boot of the machine begins anew.

use ohm_model::Index;
use serde::{Deserialize, Serialize};

/// How far a node that was brought is on its way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// It is used, or somebody is about to use it. So is every node that was not brought.
    #[default]
    InUse,
    /// Nobody uses it since this stamped time.
    Idle {
        /// In milliseconds.
        since_ms: u64,
    },
    /// Who brought it is asked to take it back, since this entry.
    Releasing {
        /// The entry.
        since: Index,
    },
    /// It was taken back; it leaves the cell once it is lost.
    Released,
}

impl Release {
    /// Whether it goes back, so that it takes no new work.
    pub fn is_on_its_way(&self) -> bool {
        matches!(self, Release::Releasing { .. } | Release::Released)
    }
}
