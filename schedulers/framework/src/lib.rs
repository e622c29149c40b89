//! The scheduler as a core: it follows the log, asks a planner, commits what it decided, and tries again what collided
//! (Omega, EuroSys 2013, section 3.4).
//!
//! A crate that places jobs implements [`Planner`]: from a [`View`] of the cell and some [`Work`] to a [`Plan`]. What
//! is left is the same for all of them and is here: the own copy, the session and its shards, order and wake-ups, many
//! plans in one transaction, many transactions under way with what they will take shown as taken ([`Holds`]), verdicts,
//! retries, and why a job waits ([`Explanation`]).
//!
//! Invariants: a job has at most one transaction under way; what is held is exactly what is under way; a plan is made
//! only for a shard whose lease runs on the own clock; work per step is bounded by counts, and equal inputs give equal
//! effects.

pub mod counted;
pub mod explain;
pub mod flavors;
pub mod plan;
pub mod planner;
pub mod preempt;
mod preempt_quota;
mod preempt_room;
mod repair;

mod abroad;
mod admission;
mod as_if;
mod ask;
mod cost;
mod counters;
mod flight;
mod follow;
mod heads;
mod holds;
mod in_time;
mod input;
mod moves;
mod pass;
mod scheduler;
mod shares;
mod ticket;
mod turns;
mod verdict;
pub mod victims;
mod view;
mod words;

pub use admission::{admission_obstacle, reserve_with};
pub use ask::{Answer, explain_job, held_by_budget, jobs_ahead};
pub use cost::CellSize;
pub use counted::{BestDomain, Counted, Excluded, Unit, count_miss};
pub use counters::Counters;
pub use explain::{Explanation, LayerFit, Miss, NearMiss, Obstacle, Tried};
pub use holds::{Holds, Taken};
pub use in_time::{ExpectedStart, expected_start};
pub use input::{Again, Proceed, SchedulerConfig, SchedulerEffect, SchedulerInput};
pub use moves::plan_move;
pub use pass::TRANSACTION_BYTES_MAX;
pub use plan::{Decision, Plan, PlannedJob};
pub use planner::{Budget, Need, Planner, Work, WorkItem, need_of};
pub use scheduler::{SchedulerCore, Standing, is_class_known};
pub use ticket::rank_of;
pub use turns::Turns;
pub use victims::live::LiveJobs;
pub use view::{Board, View};
pub use words::miss_words;
