//! What a job that lost nodes remembers until it is whole again, and of earlier times.
//!
//! ```text
//!            loss                 all lost tasks placed            all of them run
//!   Whole ─────────▶ Waiting ───────────────────────▶ InFlight ──────────────────▶ Whole
//!                     ▲  │                               │   └─ something still stops ▶ Leaving
//!                     │  └─ policy gives up: the gang ──▶ evicted whole, starts as it did the first time
//!                     └───────────── another loss ───────┘
//! ```
//! What a node drives away is lost when it ends. A gang that it takes below its minimum is not repaired before all of
//! it has ended (`Job::awaits_ends`): one cause is one loss. From `Leaving` the next loss leads to `Waiting`.
//! Ended too by the end, suspension or eviction of the job, and when nothing of it runs any more.

use ohm_model::{ConditionKind, GroupIndex, Index, JobId, NodeId};
use ohm_stdx::RangeSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How many past repairs a job keeps; older ones are dropped.
pub const PAST_REPAIRS_MAX: usize = 8;

/// Why a node is no place for a job's tasks. All but [`UnhealthyCause::Lost`] are found by `Cell::leave_cause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UnhealthyCause {
    /// It was declared lost.
    Lost,
    /// It is being drained.
    Draining,
    /// A condition of it drives away what does not tolerate it.
    Condition(ConditionKind),
}

/// A node that a job has to leave, or lost tasks with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnhealthyNode {
    /// Its slot, until it is removed from the cell.
    pub node: Option<NodeId>,
    /// Its name.
    pub name: String,
    /// Why.
    pub cause: UnhealthyCause,
    /// The entry that found it so.
    pub since: Index,
    /// Stamped time of that entry.
    pub since_ms: u64,
}

/// How far a repair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairState {
    /// Nothing is lost.
    Whole,
    /// Lost tasks wait to be placed again.
    Waiting,
    /// All are placed, some don't run yet.
    InFlight,
    /// All that were lost run again, and something that its node drives away still stops.
    Leaving,
}

/// A repair under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRepair {
    /// The first loss.
    pub since: Index,
    /// Stamped time of it.
    pub since_ms: u64,
    /// The policy gives up at this stamped time; 0 is never.
    pub give_up_ms: u64,
    /// Stamped time of the last loss.
    pub last_ms: u64,
    /// How many losses it has taken together.
    pub losses: u32,
    /// How many tasks were placed again so far.
    pub placed: u32,
    /// Names of the nodes that were lost.
    pub nodes: Vec<String>,
    /// The groups for which schedulers have found no room.
    pub without_room: BTreeSet<GroupIndex>,
    /// The nodes it has asked for, in the order it did.
    pub requests: Vec<RepairRequest>,
}

/// What a request for nodes has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RequestState {
    /// Asked for.
    Pending,
    /// The nodes are there, or about to join.
    Ready,
    /// There were none; another attempt may follow.
    Failed,
}

/// A request for nodes that a repair makes while it waits; see `policy/repair_requests.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairRequest {
    /// Its number among all that repairs of the job have made, from 1.
    pub number: u32,
    /// The provisioning class that is asked.
    pub class: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What it has come to.
    pub state: RequestState,
    /// Stamped time of the state.
    pub since_ms: u64,
    /// What the outside said last; possibly empty.
    pub message: String,
    /// The lost tasks that the nodes are for, by group.
    pub tasks: BTreeMap<GroupIndex, RangeSet>,
}

impl OpenRepair {
    /// Requests whose nodes are there are for these tasks no more; one without tasks is over.
    pub(crate) fn end_served(&mut self, group: GroupIndex, tasks: &RangeSet) {
        for request in self.requests.iter_mut().filter(|request| request.state == RequestState::Ready) {
            let asked = request.tasks.entry(group).or_default();
            asked.remove_all(tasks);
            request.tasks.retain(|_, tasks| !tasks.is_empty());
        }
        self.requests.retain(|request| !request.tasks.is_empty());
    }
}

impl RepairRequest {
    /// For how many tasks it asks.
    pub fn count(&self) -> u32 {
        self.tasks.values().map(RangeSet::len).sum()
    }
}

/// How a repair ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RepairEnd {
    /// Everything that was lost runs again.
    Repaired,
    /// It was given up and the gang evicted whole.
    Failed(String),
}

/// A repair that is over, kept for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRepair {
    /// Stamped time of the first loss.
    pub since_ms: u64,
    /// Stamped time of its end.
    pub ended_ms: u64,
    /// How many tasks were placed again.
    pub placed: u32,
    /// Names of the nodes that were lost.
    pub nodes: Vec<String>,
    /// How it ended.
    pub end: RepairEnd,
}

/// The repairs of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repairs {
    /// Nodes that the job has to leave or lost tasks with, by name.
    pub unhealthy: Vec<UnhealthyNode>,
    /// The one under way.
    pub open: Option<OpenRepair>,
    /// Those that are over, oldest first.
    pub past: Vec<PastRepair>,
    /// How many were ever begun.
    pub begun: u32,
    /// How many requests for nodes they have made.
    pub requested: u32,
}

/// What one entry took away, by job: how many tasks, and the nodes they ran on.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) by_job: BTreeMap<JobId, Loss>,
}

#[derive(Debug, Default)]
pub(crate) struct Loss {
    pub(crate) tasks: Vec<(u16, u32)>,
    /// How many of them are on the move, with a place reserved.
    pub(crate) moving: u32,
    pub(crate) nodes: BTreeSet<NodeId>,
}

impl Repairs {
    /// Takes out the nodes that were lost; those to be left stay as long as something runs there. Returns their
    /// slots.
    pub(crate) fn take_lost(&mut self) -> Vec<NodeId> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unhealthy).into_iter().partition(|entry| entry.cause == UnhealthyCause::Lost);
        self.unhealthy = kept;
        gone.into_iter().filter_map(|entry| entry.node).collect()
    }
}
