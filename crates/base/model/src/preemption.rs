//! Preemption: jobs that are stopped because another one needs what they have, and the rule that allows it.

use crate::ids::{JobId, RunRef};
use serde::{Deserialize, Serialize};

/// The rule under which a job is stopped for another one. Names are those of Kueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PreemptionReason {
    /// It is of the same queue, and comes after the other one.
    InClusterQueue,
    /// Its queue uses more than its own, which the queue of the other one takes back.
    InCohortReclamation,
    /// Its queue uses more than its own, and the queue of the other one will, too.
    InCohortReclaimWhileBorrowing,
    /// Its queue has more of what is borrowed than its share.
    InCohortFairSharing,
    /// It is less important, and no rule of queues decides between the two.
    LowerPriority,
}

impl PreemptionReason {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "InClusterQueue",
            PreemptionReason::InCohortReclamation => "InCohortReclamation",
            PreemptionReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            PreemptionReason::InCohortFairSharing => "InCohortFairSharing",
            PreemptionReason::LowerPriority => "LowerPriority",
        }
    }
}

/// A job that is stopped for another one, whole or in part. What is stopped waits again as it did before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Victim {
    /// The job.
    pub job: JobId,
    /// What the other one lacks.
    pub need: PreemptionNeed,
    /// The rule that allows it.
    pub reason: PreemptionReason,
    /// The runs to stop, ascending; empty where the job is stopped whole: all of its runs, and what is reserved for it.
    pub runs: Vec<RunRef>,
}

impl Victim {
    /// `job`, stopped whole.
    pub fn whole(job: JobId, need: PreemptionNeed, reason: PreemptionReason) -> Self {
        Victim { job, need, reason, runs: Vec::new() }
    }

    /// Whether it is stopped whole.
    pub fn is_whole(&self) -> bool {
        self.runs.is_empty()
    }
}

/// What a job lacks that others are stopped for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PreemptionNeed {
    /// Quota of its queue.
    Quota,
    /// Room on nodes.
    Room,
}

impl PreemptionNeed {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PreemptionNeed::Quota => "quota",
            PreemptionNeed::Room => "room",
        }
    }
}

/// What these are stopped for; all of them for the same.
pub fn need_of(victims: &[Victim]) -> PreemptionNeed {
    victims.first().map_or(PreemptionNeed::Quota, |victim| victim.need)
}

/// What happens to a job because one needs what others have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionEvent {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub change: PreemptionChange,
}

/// What happens to one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionChange {
    /// Others are stopped for it, and it waits until they have ended.
    Waits {
        /// What it lacks.
        need: PreemptionNeed,
        /// The names of those that are stopped, and the rule that allows it.
        victims: Vec<(String, PreemptionReason)>,
        /// The disruption budgets that this breaks, as nothing else was found.
        budgets: Vec<String>,
        /// Until when at most what they give back is kept for it, in stamped milliseconds.
        until_ms: u64,
    },
    /// It is stopped for another one, whole or in part, and waits again.
    Stopped {
        /// The name of the job that needs what it has.
        by: String,
        /// What that one lacks.
        need: PreemptionNeed,
        /// How many of its runs stop, where it is not stopped whole.
        runs: Option<u32>,
        /// The rule that allows it.
        reason: PreemptionReason,
    },
    /// What those gave back that were stopped for it is kept no longer.
    Over {
        /// Why, for people.
        reason: String,
    },
}
