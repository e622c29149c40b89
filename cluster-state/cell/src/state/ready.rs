//! Whether what is placed of a job runs and is ready, by its probes where it has any, and since when it is not.
//!
//! ```text
//!            placed                 all of it is ready
//! nothing ──────────▶ not ready ──────────────────▶ ready
//!    ▲                  │   ▲  a task ended or is gone │
//!    │                  │   └──────────────────────────┘
//!    └── back-off ◀─────┘ not ready in the time that its queue gives
//! ```

use ohm_stdx::bug::{self, Bug};
use serde::{Deserialize, Serialize};

/// What a job remembers of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Since when something of it stands and it is not ready, in stamped time; 0 while it is, or nothing stands.
    pub unready_since_ms: u64,
    /// Whether it was ready since something of it stands.
    pub was_ready: bool,
    /// Unless it is ready by then, in stamped time, it is stopped; 0 while its queue gives it no such time.
    pub due_ms: u64,
    /// How often it was stopped so since it was ready last, or resumed.
    pub timeouts: u32,
    /// Nothing of it is placed before this stamped time; 0 while it does not back off.
    pub until_ms: u64,
}

impl Readiness {
    /// Whether the job waits because it was not ready in time.
    pub fn backs_off(&self) -> bool {
        self.until_ms > 0
    }

    /// Until when it waits so, in stamped time.
    pub fn backs_off_until(&self) -> Option<u64> {
        (self.until_ms > 0 && !bug::is_planted(Bug::ForgetReadyBackOff)).then_some(self.until_ms)
    }
}
