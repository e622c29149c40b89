//! The answer to "why is my job not running?".

use super::is_default;
use serde::{Deserialize, Serialize};

/// Why a job is in the state it is in. Every number was counted on one picture of the cell; none is estimated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExplainView {
    /// The job's name.
    pub job: String,
    /// Its state.
    pub state: String,
    /// The log entry that the picture had seen.
    pub index: u64,
    /// The answer in one sentence.
    pub summary: String,
    /// More sentences: what was counted on the nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub details: Vec<String>,
    /// What would change it, for people; possibly empty.
    #[serde(skip_serializing_if = "is_default")]
    pub hint: String,
    /// What stands in the way: `room`, `domain`, `quota`, `stopping`, `waiting`, `tooLarge`, `conflicts` or
    /// `emptyPlan`; empty when nothing does.
    #[serde(skip_serializing_if = "is_default")]
    pub obstacle: String,
    /// The group that could not be placed.
    #[serde(skip_serializing_if = "is_default")]
    pub group: String,
    /// How many tasks would find room now.
    #[serde(skip_serializing_if = "is_default")]
    pub fit: u64,
    /// How many must find room at once.
    #[serde(skip_serializing_if = "is_default")]
    pub needed: u64,
    /// Nodes in the cell.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: u64,
    /// Nodes that can take at least one task.
    #[serde(skip_serializing_if = "is_default")]
    pub open_nodes: u64,
    /// All other nodes, by the first filter that excludes them; most nodes first.
    #[serde(skip_serializing_if = "is_default")]
    pub reasons: Vec<ReasonView>,
    /// The node that came nearest in each resource, among those that are short of that resource only.
    #[serde(skip_serializing_if = "is_default")]
    pub nearest: Vec<NearestView>,
    /// Jobs of the same queue (or, without a queue, of the same class) that go first; nothing when it does not wait.
    #[serde(skip_serializing_if = "is_default")]
    pub jobs_ahead: Option<u64>,
}

/// Nodes that one filter excludes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasonView {
    /// One word for programs, such as `resource`, `taint`, `nodeSelector`.
    pub code: String,
    /// For people.
    pub reason: String,
    /// How many nodes.
    pub nodes: u64,
}

/// The node that came nearest in one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NearestView {
    /// The resource.
    pub resource: String,
    /// What one task asks for.
    pub asked: String,
    /// The largest amount that is free.
    pub free: String,
    /// On which node.
    pub node: String,
}
