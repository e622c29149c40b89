//! Whether a live cell shares its quota as fair sharing says, for minutes, with work in every queue, and again after
//! quotas and weights were changed under it.
//!
//! ```text
//! scene ── queues, cohorts, changes ──▶ submitted to a cell of real processes ──▶ usage, averaged over time ┐
//!    └───▶ solver: who should have how much, from the rules alone ──────────────────────────────────────────┴▶ report
//! ```
//! The solver shares no code with the product and counts in floats.

#![allow(unreachable_pub)]

pub mod run;
pub mod scene;
pub mod solver;
