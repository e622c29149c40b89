//! Rollouts: how a service gets from one revision to the next.

use super::is_default;
use serde::{Deserialize, Serialize};

/// How far the rollout of a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSummary {
    /// The revision that all of the job is to be of.
    pub revision: u32,
    /// `complete`, `rolling`, `paused`, `waiting` (for somebody to promote its canaries), `stalled`, or `left`: its job
    /// ended before it was complete.
    pub state: String,
    /// The same in a sentence, with what to do next.
    pub message: String,
}

/// The rollout of a job, by group, and its revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutView {
    /// The job.
    pub job: String,
    /// How far it is.
    #[serde(flatten)]
    pub summary: RolloutSummary,
    /// Whether it takes back a revision that stalled.
    #[serde(skip_serializing_if = "is_default")]
    pub reverts: bool,
    /// When it began; 0 while none is under way.
    #[serde(skip_serializing_if = "is_default")]
    pub since_ms: u64,
    /// When it stalls unless it comes further before; 0 where it does not.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline_ms: u64,
    /// By group.
    pub groups: Vec<GroupRolloutView>,
    /// What the job was made of, by the time at which it was asked for last; the last one is the present one.
    pub history: Vec<RevisionView>,
}

/// How far a group is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRolloutView {
    /// Its name.
    pub name: String,
    /// The revision in which its tasks were first made of what they are to be made of.
    pub revision: u32,
    /// How many tasks it is to have.
    pub count: u32,
    /// Live tasks that are of the revision, and are to stay.
    pub updated: u32,
    /// Of those, run and are ready.
    pub updated_ready: u32,
    /// Of those, have been ready for `minReadySeconds`.
    pub updated_available: u32,
    /// Live tasks of other revisions that were not told to stop.
    pub old: u32,
    /// Of those, have been ready for `minReadySeconds`.
    pub old_available: u32,
    /// Told to stop, and still there.
    pub stopping: u32,
    /// Wait to be placed.
    pub waiting: u32,
    /// How many tasks it has beyond its count for the moment.
    pub surge: u32,
}

/// What a job was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionView {
    /// Its number; the same again where somebody goes back to it.
    pub revision: u32,
    /// When it was asked for last.
    pub since_ms: u64,
    /// Who asked; `ohm` where the one before it stalled.
    pub owner: String,
    /// `rolling`, `complete`, `stalled`, or `left`: another one came before it was complete.
    pub state: String,
    /// The fields that differ from the revision before it.
    #[serde(skip_serializing_if = "is_default")]
    pub changed: Vec<String>,
}
