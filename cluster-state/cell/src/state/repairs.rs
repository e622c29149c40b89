//! What a job that lost nodes remembers until it is whole again, and of earlier times.
//!
//! ```text
//!            loss                 all lost tasks placed            all of them run
//!   Whole ─────────▶ Waiting ───────────────────────▶ InFlight ──────────────────▶ Whole
//!                     ▲  │                               │
//!                     │  └─ policy gives up: the gang ──▶ evicted whole, starts as it did the first time
//!                     └───────────── another loss ───────┘
//! ```
//! Ended too by the end, suspension or eviction of the job, and when nothing of it stands any more.

use crate::state::jobs::{Group, Job};
use ohm_model::{ConditionKind, Index, JobId, NodeId};
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

/// Where a repair stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairState {
    /// Nothing is lost.
    Whole,
    /// Lost tasks wait to be placed again.
    Waiting,
    /// All are placed, some don't run yet.
    InFlight,
}

/// A repair under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRepair {
    /// The first loss.
    pub since: Index,
    /// Stamped time of it.
    pub since_ms: u64,
    /// The policy gives up at this stamped time; 0 is never.
    pub give_up_ms: u64,
    /// How many losses it has taken together.
    pub losses: u32,
    /// How many tasks were placed again so far.
    pub placed: u32,
    /// Names of the nodes that were lost.
    pub nodes: Vec<String>,
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
}

/// What one entry took away, by job: how many tasks, and the nodes they stood on.
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
    /// Takes out the nodes that were lost; those to be left stay as long as something stands there. Returns their
    /// slots.
    pub(crate) fn take_lost(&mut self) -> Vec<NodeId> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unhealthy).into_iter().partition(|entry| entry.cause == UnhealthyCause::Lost);
        self.unhealthy = kept;
        gone.into_iter().filter_map(|entry| entry.node).collect()
    }
}

impl Job {
    /// Where its repair stands.
    pub fn repair_state(&self) -> RepairState {
        if self.groups.iter().any(|group| !group.lost.is_empty()) {
            RepairState::Waiting
        } else if self.groups.iter().any(|group| !group.replaced.is_empty()) {
            RepairState::InFlight
        } else {
            RepairState::Whole
        }
    }

    /// Whether a gang that stands has fewer tasks than its minimum, in any group; what is to stop does not count, but
    /// what moves to a place that is reserved for it does.
    pub fn is_below_minimum(&self) -> bool {
        let short = |(group, spec): (&Group, &ohm_model::GroupSpec)| {
            let stands = group.live.saturating_sub(group.stopping) + group.moving.len();
            group.started && stands < group.needed(spec)
        };
        self.starts_whole() && self.groups.iter().zip(&self.spec.groups).any(short)
    }

    /// Ends whatever repair is under way. Returns the slots of the nodes that were lost for it.
    pub(crate) fn drop_repair(&mut self) -> Vec<NodeId> {
        for group in &mut self.groups {
            (group.lost, group.replaced) = Default::default();
        }
        self.repairs.open = None;
        self.repairs.take_lost()
    }

    /// Puts the repair under way, if there is one, to the past.
    pub(crate) fn close_repair(&mut self, now_ms: u64, end: RepairEnd) -> Option<PastRepair> {
        let open = self.repairs.open.take()?;
        let past =
            PastRepair { since_ms: open.since_ms, ended_ms: now_ms, placed: open.placed, nodes: open.nodes, end };
        if self.repairs.past.len() >= PAST_REPAIRS_MAX {
            self.repairs.past.remove(0);
        }
        self.repairs.past.push(past.clone());
        Some(past)
    }
}
