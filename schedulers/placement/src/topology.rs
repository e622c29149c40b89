//! Placing groups in a topology: as many tasks as fit together where they must or would rather be together.
//!
//! ```text
//! request ──▶ Wish (levels, slices) ──▶ Counts (what fits, by domain; kept per shape) ──▶ choose ──▶ nodes
//!                                          ▲ changed nodes, as differences                  │
//!                            standing tasks, broken slices (repair) ─────────────────────────┘
//! ```
//!
//! Every filter holds at every level: what a domain takes is the sum of what its nodes take, task by task, also where
//! the topology does not end at hosts.

mod balanced;
mod borrow;
mod choose;
mod counts;
mod domains;
mod layers;
mod place;
mod repair;
mod site;
mod tally;
mod tree;

pub use choose::choose;
pub use counts::{Count, Counts};
pub use domains::{Choice, Reach, Request, Short};
pub use layers::{Layers, Order, Wish};
pub(crate) use place::Seats;
pub(crate) use site::{Refusal, Site};
pub(crate) use tally::Tallies;
pub use tree::{Place, Tree};
