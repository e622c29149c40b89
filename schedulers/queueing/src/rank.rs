//! How jobs are ordered, and what the backlog must know about each.

use ohm_model::{Index, JobId, Shard};
use std::cmp::Reverse;
use std::sync::Arc;

/// A job's place in the order; smaller is earlier. No two jobs have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// What is urgent, below 2, goes before everything else, over all lines, 0 before 1. What is above 2 is no work: it
    /// goes after everything else, over all lines.
    pub urgency: u8,
    /// Higher priority first.
    pub priority: Reverse<i32>,
    /// Then the entry that submitted it.
    pub submitted: Index,
    /// Jobs of one entry by key.
    pub job: JobId,
}

impl Rank {
    /// Whether it goes before all lines.
    pub fn is_urgent(&self) -> bool {
        self.urgency < 2
    }

    /// Whether it goes after all work.
    pub fn is_idle(&self) -> bool {
        self.urgency > 2
    }
}

/// What the backlog knows about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its place in the order.
    pub rank: Rank,
    /// The queue it waits in; empty for none.
    pub line: Arc<str>,
    /// The part of the queue, where the parts have an order; else no name.
    pub part: Arc<str>,
    /// The shard it belongs to, so that a lost shard takes its jobs along.
    pub shard: Shard,
    /// Equal for jobs that ask for the same and stand the same. A job unlike all others carries its own key here.
    pub kin: Arc<[u8]>,
    /// Whether it waits to start: then it keeps back those behind it in a strict line while it finds no place.
    pub starts: bool,
    /// Moves whenever something about the job changed that could let it be placed.
    pub mark: u64,
}
