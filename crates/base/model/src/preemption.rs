//! Preemption: jobs that are stopped because another one needs what they have, and the rule that allows it.

use crate::ids::JobId;
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
}

impl PreemptionReason {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "InClusterQueue",
            PreemptionReason::InCohortReclamation => "InCohortReclamation",
            PreemptionReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            PreemptionReason::InCohortFairSharing => "InCohortFairSharing",
        }
    }
}

/// A job that is stopped whole: all of its runs, and what is reserved for it. It waits again as it did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Victim {
    /// The job.
    pub job: JobId,
    /// The rule that allows it.
    pub reason: PreemptionReason,
}

/// What happens to a job because one needs the quota that others have.
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
        /// The names of those that are stopped, and the rule that allows it.
        victims: Vec<(String, PreemptionReason)>,
        /// Until when at most their quota is kept for it, in stamped milliseconds.
        until_ms: u64,
    },
    /// It is stopped for another one, and waits again.
    Stopped {
        /// The name of the job that needs its quota.
        by: String,
        /// The rule that allows it.
        reason: PreemptionReason,
    },
    /// The quota of those that were stopped for it is kept no longer.
    Over {
        /// Why, for people.
        reason: String,
    },
}
