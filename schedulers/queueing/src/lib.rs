//! Who is next: the jobs a scheduler replica has to look at, in order, and those that wait for something to change.
//!
//! ```text
//!            put                    take                     (planned: depart)
//!  cell ───────────▶ ready ───────────────────▶ taken ──────────────────────────▶ in flight, until `settle`
//!                     ▲ ▲                        │ │ │
//!                     │ └──────give_back─────────┘ │ │
//!                     │        wait_until          │ │
//!                     ├────reached / due──── waiting ┘ park
//!                     └────wake / sweep───── parked ◀┘
//! ```
//! Order: repairs first, over all lines; then one line per queue, the line first of which least was placed for its
//! weight (`lines.rs`), in a cohort tree those before that borrow least ([`Chooser`]), inside a line by its parts, if
//! it has any, by priority and then by age. A job costs its line what is placed of it, by the
//! resource of which that is the largest share of the cell, and nothing when it finds no place.
//!
//! Jobs that ask for the same are *kin*. When one of them finds no place, no later one of them would, so all are parked
//! together, and a change that might help wakes the first of them alone; while placing goes well, more follow, twice as
//! many each time. So a backlog of 200,000 equal jobs costs one plan per change, not 200,000. While the followers of a
//! job depend on what comes of it, its line is waited for: otherwise every line would get as much as the others with
//! each wave, whatever its weight.
//!
//! Invariants: every operation on one job costs O(log n); nothing here reads the cell or a clock.

mod backlog;
mod chooser;
mod kin;
mod line;
mod lines;
mod rank;

pub use backlog::Backlog;
pub use chooser::Chooser;
pub use kin::Blocker;
pub use line::Others;
pub use lines::{Fare, Lines, WHOLE};
pub use rank::{Rank, Ticket};
