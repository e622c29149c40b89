//! Nodes that are lost and come back again and again: they are held down for a while, each time for longer. Silence
//! that ends before the node is lost does not count: nothing moved because of it, and it is as often the fault of what
//! lies between as of the node.
//!
//! ```text
//!               3rd return within 10 minutes                  time is over, or a person
//!   up ───────────────────────────────────────▶ held down ──────────────────────────────▶ on trial
//!   ▲                                            ▲  │ ▲                                     │  │
//!   │                       returns once more ───┼──┘ └──────────── returns once more ──────┘  │
//!   └────────────────────────────────────────────┼─────────────── 10 minutes without a return ─┘
//!                                                each time twice as long, 30 minutes at most
//! ```
//! A person's release leads straight back to `up`. All of it is stamped time; no safety hangs on it.

use serde::{Deserialize, Serialize};

/// So many returns within the window are too many.
pub const FLAPS_MAX: usize = 3;
/// No more returns than this are remembered.
const RETURNS_MAX: usize = 16;
/// Returns longer ago do not count.
pub const FLAP_WINDOW_MS: u64 = 600_000;
/// The first hold-down.
pub const HOLD_DOWN_MS: u64 = 60_000;
/// No hold-down is longer.
pub const HOLD_DOWN_MAX_MS: u64 = 1_800_000;

/// How often a node came back of late, and what followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaps {
    /// Stamped times at which it came back, within the window before the last of them; at most 16.
    pub returns_ms: Vec<u64>,
    /// How many times in a row it was held down.
    pub hold_downs: u32,
    /// Stamped time at which the last hold-down ends or ended; 0 when there was none.
    pub held_until_ms: u64,
    /// It is held down now.
    pub is_held: bool,
}

impl Flaps {
    /// Notes that the node came back at `now_ms`. Returns for how long it is held down from now on, if it is.
    pub(crate) fn note_return(&mut self, now_ms: u64) -> Option<u64> {
        if self.hold_downs > 0 && now_ms >= self.held_until_ms.saturating_add(FLAP_WINDOW_MS) {
            *self = Flaps::default();
        }
        self.returns_ms.retain(|at_ms| at_ms.saturating_add(FLAP_WINDOW_MS) > now_ms);
        if self.returns_ms.len() >= RETURNS_MAX {
            self.returns_ms.remove(0);
        }
        self.returns_ms.push(now_ms);
        if self.hold_downs == 0 && self.returns_ms.len() < FLAPS_MAX {
            return None;
        }
        let hold_down_ms = (HOLD_DOWN_MS << self.hold_downs.min(16)).min(HOLD_DOWN_MAX_MS);
        self.hold_downs = self.hold_downs.saturating_add(1);
        // An earlier hold-down that lasts longer still stands.
        self.held_until_ms = self.held_until_ms.max(now_ms.saturating_add(hold_down_ms));
        self.is_held = true;
        Some(hold_down_ms)
    }
}
