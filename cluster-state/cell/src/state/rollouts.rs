//! Rollouts: a service whose tasks are made of something else by now, and what they were made of before.
//!
//! ```text
//! update ──▶ Rolling ──every task is of the revision and available──▶ Complete
//!               │  └─another update, undo─▶ Left
//!               └──comes no further──▶ Stalled (goes on when it can, or back where it reverts by itself)
//! ```
//!
//! While a rollout is open the spec of the job says what is wanted now: a group has as many tasks as are wanted with
//! those beyond its count, and is made of the revision that is placed now. What its owner asked for is
//! [`Job::declared`]. A run keeps the revision that it was started as; a task that was lost is placed again as the
//! revision that was lost.

use crate::state::jobs::{Group, Job, TaskState};
use crate::state::runs::Run;
use ohm_model::{GroupSpec, JobSpec, RolloutKind, RolloutStrategy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What became of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RevisionState {
    /// Its tasks are being placed.
    Rolling,
    /// Every task was of it, and available.
    Complete,
    /// It came no further.
    Stalled,
    /// Another one came before it was complete.
    Left,
}

/// What a job was made of at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// From 1; that of a former revision again where an update goes back to it.
    pub number: u32,
    /// By group: the number of the revision in which its tasks were first made of this.
    pub groups: Vec<u32>,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// Stamped time at which it was asked for last.
    pub since_ms: u64,
    /// Who asked.
    pub owner: Arc<str>,
    /// What became of it.
    pub state: RevisionState,
    /// Whether it was complete once: it is good, as far as anybody knows.
    pub proven: bool,
}

/// How far a group has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRollout {
    /// The revision that all its tasks are to be of.
    pub target: u32,
    /// Tasks that wait to be placed as an earlier revision: it was of that one that they were lost.
    pub restore: BTreeMap<u32, u32>,
    /// The most that were of the target, the most of those that were available, and the fewest that were not of it.
    pub best: (u32, u32, u32),
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The revision that it leads to.
    pub number: u32,
    /// What the owner asks for.
    pub declared: Arc<JobSpec>,
    /// Stamped time of its begin.
    pub since_ms: u64,
    /// Stamped time at which it came further last.
    pub progress_ms: u64,
    /// Whether its canaries are good, or it needs none.
    pub promoted: bool,
    /// Whether its canaries are all available, and it waits to be promoted.
    pub waits: bool,
    /// Whether it has come no further for too long.
    pub stalled: bool,
    /// Whether it takes back one that stalled.
    pub reverts: bool,
    /// When its timer is due, in stamped time; 0 without one.
    pub due_ms: u64,
    /// By group.
    pub groups: Vec<GroupRollout>,
}

/// The revisions of a job that was changed while it was a service, and its rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollouts {
    /// Oldest first by the time at which they were asked for last; the last one is the present one.
    pub history: Vec<Revision>,
    /// The rollout under way.
    pub open: Option<Rollout>,
}

/// How many tasks of a group are where in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// Live, of the target, and not told to stop.
    pub updated: u32,
    /// Of those: running and ready.
    pub updated_ready: u32,
    /// Of those: ready for `minReadySeconds`.
    pub updated_available: u32,
    /// Live, of another revision, and not told to stop.
    pub old: u32,
    /// Of those: ready for `minReadySeconds`.
    pub old_available: u32,
    /// Told to stop, and still there.
    pub stopping: u32,
    /// Waiting to be placed, in back-off or not.
    pub waiting: u32,
}

impl Rollouts {
    /// The revision with this number.
    pub fn revision(&self, number: u32) -> Option<&Revision> {
        self.history.iter().find(|revision| revision.number == number)
    }

    /// What tasks of group `at` are made of in this revision of it.
    pub fn content(&self, at: usize, revision: u32) -> Option<&GroupSpec> {
        let latest = self.history.iter().rev();
        let found = latest.filter(|known| known.groups.get(at) == Some(&revision));
        found.filter_map(|known| known.spec.groups.get(at)).next()
    }

    /// The last revision before the present one that was complete once; else the one before the present one.
    pub fn stable(&self) -> Option<&Revision> {
        let earlier = &self.history[..self.history.len().saturating_sub(1)];
        let proven = earlier.iter().rev().find(|revision| revision.proven);
        proven.or(earlier.last())
    }
}

impl Rollout {
    /// Whether old tasks are replaced now.
    pub fn is_moving(&self, strategy: &RolloutStrategy) -> bool {
        self.promoted && !strategy.pause
    }
}

impl Job {
    /// What its owner asks for. Its spec says what is wanted now, which is something else while a rollout is open.
    pub fn declared(&self) -> &Arc<JobSpec> {
        self.rollout().map_or(&self.spec, |rollout| &rollout.declared)
    }

    /// How many tasks its owner asks for in group `at`.
    pub fn declared_count(&self, at: usize) -> u32 {
        self.declared().groups.get(at).map_or(0, |group| group.count)
    }

    /// Its rollout, while one is open.
    pub fn rollout(&self) -> Option<&Rollout> {
        self.rollouts.as_ref().and_then(|rollouts| rollouts.open.as_ref())
    }

    /// What a run of group `at` with this revision is made of: how many there are and how they are meant is not told
    /// by it.
    pub fn content(&self, at: usize, revision: u32) -> &GroupSpec {
        let present = &self.spec.groups[at];
        if self.groups[at].revision == revision {
            return present;
        }
        self.rollouts.as_ref().and_then(|rollouts| rollouts.content(at, revision)).unwrap_or(present)
    }

    /// The number of its present revision.
    pub fn revision(&self) -> u32 {
        let last = self.rollouts.as_ref().and_then(|rollouts| rollouts.history.last());
        let of_groups = || self.groups.iter().map(|group| group.revision).max();
        last.map(|revision| revision.number).or_else(of_groups).unwrap_or(1)
    }
}

/// Whether all tasks of the group have to end before one of the next revision is placed: those of one topology are one
/// whole.
pub fn is_recreated(strategy: &RolloutStrategy, spec: &GroupSpec) -> bool {
    strategy.kind == RolloutKind::Recreate || spec.topology.is_asked() || !spec.place_with.is_empty()
}

/// Since when a run is ready, in stamped time; nothing while it is not, or is told to stop.
pub fn ready_since_ms(run: &Run) -> Option<u64> {
    let since_ms = run.health.as_ref().map_or(run.started_ms, |health| health.ready_ms);
    (run.is_ready() && run.stop.is_none()).then_some(since_ms)
}

/// Counts the tasks of a group by what they are to a rollout to `target`. `run_of` gives the run in a slot.
pub fn rollout_counts<'a>(
    group: &Group,
    target: u32,
    available_before_ms: u64,
    run_of: impl Fn(u32) -> Option<&'a Run>,
) -> RolloutCounts {
    let mut counts = RolloutCounts::default();
    for task in group.tasks.iter() {
        let Some(run) = run_of(task.run) else {
            let waits = matches!(task.state, TaskState::Pending | TaskState::BackingOff | TaskState::Held);
            counts.waiting += u32::from(waits);
            continue;
        };
        if run.stop.is_some() {
            counts.stopping += 1;
            continue;
        }
        let is_available = ready_since_ms(run).is_some_and(|since_ms| since_ms <= available_before_ms);
        if run.revision == target {
            counts.updated += 1;
            counts.updated_ready += u32::from(run.is_ready());
            counts.updated_available += u32::from(is_available);
        } else {
            counts.old += 1;
            counts.old_available += u32::from(is_available);
        }
    }
    counts
}
