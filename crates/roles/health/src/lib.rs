//! The health duty: hears the beats of all nodes, answers them while it may, and concludes about nodes that fell
//! silent.
//!
//! ```text
//!   agents ──beats──▶ servers ──Beats──▶ HealthCore ──Conclude──▶ log ──▶ every copy
//!     ▲                  │                │   ▲                             │
//!     └─────answers──────┘◀───Answers─────┘   └── NodesSeen, Duty ◀─────────┘
//! ```
//! Beats never enter the log, conclusions do. Every candidate runs this core; only the holder of the health lease acts.
//!
//! Why a lost node runs nothing that must stop: an answer grants a lease that counts from the *sending* of the beat;
//! the holder counts one lease and a margin for drifting clocks from the *arrival* of the last beat it answered.
//! Earlier holders answered nothing after this one took over, so it counts from its take-over where that is later. From
//! the moment a node is found lost no beat of that registration is answered again, not even while the conclusion is
//! still under way.
//!
//! Invariants: no clock is read here, time comes in as milliseconds of the owner's monotonic clock; without a running
//! duty lease nothing is answered and nothing concluded; work per step is proportional to what is due, not to the cell.

mod brake;
mod config;
mod core;
mod duty;
mod watch;

pub use self::core::{BeatMark, DutyWord, HealthCore, HealthEffect, HealthInput, NodeSeen};
pub use config::HealthConfig;
pub use duty::{DutyConfig, DutyCore, DutyEffect, DutyInput, RelayedBeats};
