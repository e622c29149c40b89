//! Rollouts: a service whose tasks are made of something else by now, and what they were made of before.
//!
//! ```text
//! update ──▶ Rolling ──every task is of the revision and available──▶ Complete
//!               │  └─another update, undo─▶ Left
//!               └──comes no further──▶ Stalled (goes on when it can, or back where it reverts by itself)
//! ```
//!
//! While a rollout is open the spec of the job says what is wanted now: a group has as many tasks as are wanted with
//! those beyond its count, and is made of the revision that is placed now. `Job::declared` is what its owner asked for.
//! A run keeps the revision that it was started as; a task that was lost is placed again as the
//! revision that was lost.

use ohm_model::{GroupSpec, JobSpec, RolloutStrategy};
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

/// What a task that waits was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// The revision that it is placed again as.
    pub revision: u32,
    /// Whether it was lost with its node, and not stopped or ended by itself.
    pub lost: bool,
    /// Stamped time since which it waits.
    pub since_ms: u64,
}

/// How far a group has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRollout {
    /// The revision that all its tasks are to be of.
    pub target: u32,
    /// Tasks that wait to be placed as what they were before.
    pub restore: BTreeMap<u32, Former>,
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

/// What waits to be what it was for so long has no room, where no deadline says less.
const RESTORED_MS_MAX: u64 = 600_000;

impl Rollout {
    /// Until when it is sought to place a task again as what it was before anything else is placed.
    pub fn restored_until_ms(&self, former: &Former) -> u64 {
        let deadline_ms = self.declared.strategy().progress_deadline_seconds.saturating_mul(1000);
        former.since_ms.saturating_add(if deadline_ms == 0 { RESTORED_MS_MAX } else { deadline_ms })
    }

    /// Whether old tasks are replaced now.
    pub fn is_moving(&self, strategy: &RolloutStrategy) -> bool {
        self.promoted && !strategy.pause
    }

    /// When it has come no further for too long, in stamped time; nothing while it waits for somebody, or has stalled.
    pub fn stalls_ms(&self) -> Option<u64> {
        let strategy = self.declared.strategy();
        let may = strategy.progress_deadline_seconds > 0 && !self.waits && !strategy.pause && !self.stalled;
        may.then(|| self.progress_ms.saturating_add(strategy.progress_deadline_seconds.saturating_mul(1000)))
    }
}

/// `asked`, with so many tasks that are made as those of `content`. How many must stand, how they are meant and what is
/// held for them is as asked.
pub(crate) fn with_content(asked: &GroupSpec, content: &GroupSpec, count: u32) -> GroupSpec {
    GroupSpec {
        name: asked.name.clone(),
        count,
        min_count: asked.min_count,
        labels: asked.labels.clone(),
        spares: asked.spares,
        disruption_budget: asked.disruption_budget.clone(),
        ..content.clone()
    }
}
