//! The craft that planners share: which nodes can take a group, which of them are best, and why the others can't.
//!
//! ```text
//! view ──▶ NodeTable (columns, holds subtracted) ──▶ Demand (a shape, compiled) ──▶ ShapeIndex (best node per block)
//!             ▲ refresh of touched nodes                                                     │
//!             └───────────────────────── rows taken in the pass ◀── flat / topology ◀────────┘
//! ```
//!
//! Invariants: every search looks at all nodes and is exact, nothing is sampled; what is planned is what the cell's
//! judge takes on the same picture; the fast scan and the filters that explain agree on every node; the same picture,
//! work and dice give the same plan. Integers only; nothing depends on an order that is not written down here.
//!
//! Absent on purpose: preemption's choice of victims, which has its place in [`drive::PostFilter`].

mod demand;
pub mod devices;
pub mod drive;
mod explain;
pub mod filters;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod flat;
mod index;
mod moved;
mod placer;
mod rows;
pub mod score;
mod search;
mod spared;
mod spot;
mod subject;
mod table;
mod together;
pub mod topology;
mod verdicts;

pub use drive::{PostFilter, plan_work};
pub use flat::{Amount, Spots, tasks_of};
pub use placer::{Config, Pass, Placer};
pub use rows::rows;
pub use subject::{Fence, Subject};
pub use table::{BLOCK, NodeTable, WHOLE};

#[cfg(test)]
mod tests;
