//! Nodes as the API shows them.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One page of nodes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeList {
    /// The nodes.
    pub nodes: Vec<NodeSummary>,
    /// How many nodes there are in all.
    pub total: u64,
    /// Ask again with `?after=` this name for the next page; empty on the last one.
    #[serde(skip_serializing_if = "is_default")]
    pub next: String,
}

/// What one line says about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// `ready`, `suspect` or `lost`.
    pub health: String,
    /// Whether a person keeps new work away.
    pub cordoned: bool,
    /// Whether it may take new work.
    pub schedulable: bool,
    /// That it is being drained, and how; absent when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// How many runs are on it: stopping ones too, and those that live on while it is lost or came back with it.
    pub runs: u64,
    /// Which registration this is.
    pub incarnation: u32,
    /// Where its tasks listen; empty when it has no address.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints as `key=value:Effect`: those that it registers with, of people, and of its state.
    #[serde(skip_serializing_if = "is_default")]
    pub taints: Vec<String>,
    /// Those of them that people put there.
    #[serde(skip_serializing_if = "is_default")]
    pub put_taints: Vec<PutTaintView>,
    /// Room for tasks.
    pub capacity: BTreeMap<String, String>,
    /// What is free of it; below zero while a node that shrank is being emptied.
    pub free: BTreeMap<String, String>,
    /// Free shares of each device that is tracked singly, in thousandths, by resource.
    #[serde(skip_serializing_if = "is_default")]
    pub devices: BTreeMap<String, Vec<u16>>,
    /// What its agent finds wrong with it.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<NodeConditionView>,
    /// Until when it is held down, because it fell silent and came back too often; 0 when it is not.
    #[serde(skip_serializing_if = "is_default")]
    pub held_until_ms: u64,
    /// How often it came back within ten minutes, the last time included.
    #[serde(skip_serializing_if = "is_default")]
    pub flaps: u32,
    /// What it was brought for; absent when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brought: Option<BroughtView>,
}

/// What a node was brought for, and whether it goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BroughtView {
    /// The label of the request.
    pub request: String,
    /// The provisioning class that brought it; empty when the node does not say.
    #[serde(skip_serializing_if = "is_default")]
    pub class: String,
    /// The job that asked, while its request is open.
    #[serde(skip_serializing_if = "is_default")]
    pub job: String,
    /// Whether nobody but that job may use it.
    pub kept: bool,
    /// `in use`, `idle`, `releasing` or `released`.
    pub state: String,
    /// When it goes back, if nobody uses it until then; 0 when it is not idle.
    #[serde(skip_serializing_if = "is_default")]
    pub idle_until_ms: u64,
}

/// A taint that a person put on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PutTaintView {
    /// As `key=value:Effect`.
    pub taint: String,
    /// Since when.
    pub since_ms: u64,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeConditionView {
    /// `disk-pressure`, `memory-pressure`, `device-error` or `health-check-failed`.
    pub kind: String,
    /// What follows: `note`, `no-new-work` or `drain`.
    pub action: String,
    /// Since when.
    pub since_ms: u64,
    /// More for people.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
}

/// The drain of a node. It is over when no run is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainView {
    /// When it began.
    pub since_ms: u64,
    /// When what is left is stopped without a place for it; 0 is never.
    #[serde(skip_serializing_if = "is_default")]
    pub deadline_ms: u64,
    /// How many tasks of one group of a service move at the same time.
    pub at_once: u32,
}

/// A job that still stands on a node that it has to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeavingView {
    /// The job's name.
    pub job: String,
    /// How many runs of it stand there and are not told to stop.
    pub staying: u64,
    /// How many stop already.
    pub stopping: u64,
    /// What those that stay wait for, as a sentence; empty when nothing stays.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: String,
}

/// Room on a node that is held for tasks which don't stand there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldView {
    /// The job's name.
    pub job: String,
    /// The group's name.
    pub group: String,
    /// For how many tasks.
    pub tasks: u64,
    /// What for: `preemptor`, `move`, `spare` or `repair`.
    pub purpose: String,
}

/// Everything about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDetail {
    /// The line.
    #[serde(flatten)]
    pub summary: NodeSummary,
    /// The log entry that registered it.
    #[serde(default)]
    pub registered: u64,
    /// Taken host ports: `8080`, `53/UDP`, `10.0.0.1:80`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ports: Vec<String>,
    /// Its runs, last placed first, then kept and returned ones; at most `?runs=`.
    #[serde(default)]
    pub run_list: Vec<NodeRunView>,
    /// How many runs are not listed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runs_omitted: u64,
    /// The jobs that have to leave it, because it is being drained or has a condition that they don't tolerate; at most
    /// 20.
    #[serde(default, skip_serializing_if = "is_default")]
    pub leaving: Vec<LeavingView>,
    /// Room that is held on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: Vec<HeldView>,
}

/// A run on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRunView {
    /// The job's name.
    pub job: String,
    /// The group's name.
    pub group: String,
    /// The task's rank.
    pub task: u32,
    /// The attempt.
    pub incarnation: u32,
    /// `placed`, `running` or `stopping`; `kept` while it lives on although the node is lost, `returned` when it came
    /// back with the node and waits until what stands in its place is over.
    pub state: String,
    /// Its process id on the node, while it runs.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: u32,
    /// When it was placed.
    pub placed_ms: u64,
    /// When it was reported to run; 0 before.
    #[serde(skip_serializing_if = "is_default")]
    pub started_ms: u64,
}
