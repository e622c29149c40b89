//! Disruption budgets, and how many of their tasks are healthy. The counts move with each run, so that no decision
//! walks over runs or jobs; they are derived from budgets, jobs and runs, and there are none while no budget is about
//! any job.
//!
//! ```text
//! Budget (namespace, labels) ─┐
//!                             ├─▶ Covered: the budgets of each group of a job ──▶ Count: healthy, expected
//! budget of a group ──────────┘
//! ```

pub(crate) mod book;
pub(crate) mod counts;
pub(crate) mod health;
pub(crate) mod settle;
pub(crate) mod states;
