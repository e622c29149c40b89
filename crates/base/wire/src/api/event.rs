//! Events as the API shows them.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventList {
    /// The events.
    pub events: Vec<EventView>,
    /// How many older events this server no longer has, since it started.
    pub dropped: u64,
    /// Ask again with `?after=` this index for what happens from here on.
    pub next: u64,
}

/// One thing that happened. `message` says it for people; the other fields say it for programs, those that belong to
/// the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventView {
    /// The log entry.
    pub index: u64,
    /// When.
    pub at_ms: u64,
    /// `jobSubmitted`, `jobUpdated`, `jobState`, `jobForgotten`, `placed`, `stopping`, `started`, `ended`,
    /// `nodeRegistered`, `nodeHealth`, `nodeCordoned`, `nodeRemoved`, `nodeCondition`, `nodeHeldDown`, `nodeReleased`,
    /// `ready`, `notReady`, `unhealthy`, `conflicted`, `leaseTaken`, or `dropped`: of what
    /// came after entry `index`, `count` events (0: nobody knows how many) are no longer there.
    pub kind: String,
    /// For people.
    pub message: String,
    /// The job's name.
    #[serde(skip_serializing_if = "is_default")]
    pub job: String,
    /// The group's name.
    #[serde(skip_serializing_if = "is_default")]
    pub group: String,
    /// The task's rank, or the first of `count`.
    #[serde(skip_serializing_if = "is_default")]
    pub task: Option<u32>,
    /// How many tasks.
    #[serde(skip_serializing_if = "is_default")]
    pub count: u32,
    /// The attempt, or the registration of the node.
    #[serde(skip_serializing_if = "is_default")]
    pub incarnation: u32,
    /// The node's name.
    #[serde(skip_serializing_if = "is_default")]
    pub node: String,
    /// The state the job or node is in now.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: String,
    /// Why a run was to stop.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_cause: String,
    /// How a run ended, in words.
    #[serde(skip_serializing_if = "is_default")]
    pub exit: String,
    /// The session of the scheduler, or of the new holder of a lease.
    #[serde(skip_serializing_if = "is_default")]
    pub session: String,
    /// The lease.
    #[serde(skip_serializing_if = "is_default")]
    pub lease: String,
    /// Refused rows by reason.
    #[serde(skip_serializing_if = "is_default")]
    pub conflicts: BTreeMap<String, u32>,
}
