//! Who is next: the jobs a scheduler replica has to look at, in order, and those that wait for something to change.
//!
//! ```text
//!            put                    take                     (planned: remove)
//!  cell ───────────▶ ready ───────────────────▶ taken ──────────────────────────▶ in flight, owned by the caller
//!                     ▲ ▲                        │ │ │
//!                     │ └──────give_back─────────┘ │ │
//!                     │        wait_until          │ │
//!                     ├────reached / due──── waiting ┘ park
//!                     └────wake / sweep───── parked ◀┘
//! ```
//! Order: repairs first, over all lines; then one line per queue, lines in turn by weight (stride scheduling,
//! Waldspurger and Weihl 1995), inside a line by priority and then by age. The share of a line is where a full fair
//! share (DRF) goes.
//!
//! Jobs that ask for the same are *kin*. When one of them finds no place, no later one of them would, so all are parked
//! together, and a change that might help wakes the first of them alone; while placing goes well, more follow, twice as
//! many each time. So a backlog of 200,000 equal jobs costs one plan per change, not 200,000.
//!
//! Invariants: every operation on one job costs O(log n); nothing here reads the cell or a clock.

mod backlog;
mod kin;
mod lines;
mod rank;

pub use backlog::Backlog;
pub use kin::Blocker;
pub use rank::{Rank, Ticket};
