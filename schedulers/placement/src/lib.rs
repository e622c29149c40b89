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
//! work and dice give the same plan, where a score asks for what is typical (`typical.rs`) with the same counts of it.
//! Integers only; nothing depends on an order that is not written down here.
//!
//! Absent on purpose: what is tried for a job in which order; that is the planner's pipeline of strategies.

mod amount;
mod asks;
mod beside;
mod bundle;
mod demand;
mod demand_key;
pub mod devices;
mod explain;
#[cfg(feature = "fixture")]
pub mod fixture;
mod flat;
mod group_search;
mod index;
mod job_search;
mod joint;
mod placer;
mod rows;
pub mod score;
mod search;
mod seek;
mod sides;
mod subject;
mod table;
mod together;
mod told;
pub mod topology;
mod typical;
mod verdicts;

pub use amount::{Amount, Spots, tasks_of};
pub use asks::{GroupAsk, asks};
pub use bundle::{Bundle, bundles};
pub use job_search::JobSearch;
pub use joint::Joint;
pub use placer::{Config, Pass, Placer};
pub use rows::{rows, rows_bound};
pub use seek::{Failure, Found, Seek};
pub use subject::Subject;
pub use table::{BLOCK, NodeTable, WHOLE};
pub use typical::{Typical, TypicalRequest};
