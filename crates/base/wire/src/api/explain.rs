//! The answer to "why is my job not running?".

use super::is_default;
use super::job::NodeRequestView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// What stands in the way: `room`, `domain`, `quota`, `turn`, `stopping`, `waiting`, `tooLarge`,
    /// `conflicts`, `emptyPlan` or `noScheduler`; empty when nothing does.
    #[serde(skip_serializing_if = "is_default")]
    pub obstacle: String,
    /// The group that could not be placed.
    #[serde(skip_serializing_if = "is_default")]
    pub group: String,
    /// That group, and the leader that is placed with it, in numbers: the same that `ohm plan` prints.
    #[serde(skip_serializing_if = "is_default")]
    pub groups: Vec<GroupExplainView>,
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
    /// The profile that its planner was asked with; empty where none was asked.
    #[serde(skip_serializing_if = "is_default")]
    pub profile: String,
    /// The strategies of the profile that were tried, in its order.
    #[serde(skip_serializing_if = "is_default")]
    pub strategies: Vec<String>,
    /// Jobs of the same queue (or, without a queue, of the same class) that go first; nothing when it does not wait.
    #[serde(skip_serializing_if = "is_default")]
    pub jobs_ahead: Option<u64>,
    /// Room that is owed to it, because it lost tasks and found none for them.
    #[serde(skip_serializing_if = "is_default")]
    pub owed: Vec<OwedView>,
    /// The nodes that its repair has asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub node_requests: Vec<NodeRequestView>,
    /// The jobs for whose repairs room is held that it can't have: where, by name.
    #[serde(skip_serializing_if = "is_default")]
    pub held_for: BTreeMap<String, Vec<String>>,
}

/// Room that is owed to a group of which tasks were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwedView {
    /// The group's name.
    pub group: String,
    /// How many of its tasks are lost.
    pub lost: u64,
    /// For how many of those room is held.
    pub held: u64,
    /// For how many it is missing.
    pub missing: u64,
    /// Where it is held, and for how many.
    #[serde(skip_serializing_if = "is_default")]
    pub nodes: BTreeMap<String, u64>,
    /// Until when it is owed; a later loss sets it anew.
    pub until_ms: u64,
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

/// Why one group is not placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupExplainView {
    /// The group.
    pub name: String,
    /// Why not, in numbers.
    pub explain: CountedView,
}

/// Why a group is not placed, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CountedView {
    /// How many units would find room as they were asked for.
    pub fit: u32,
    /// How many must find room at once.
    pub of: u32,
    /// What is counted: `task` or `slice`.
    pub unit: String,
    /// Nodes in question: ready, schedulable and, where a topology is asked for, with a label for each of its levels.
    pub total_nodes: u32,
    /// Nodes that take no task, each under the first filter that excludes it.
    pub excluded: ExcludedView,
    /// Nodes that are not in question, by reason.
    #[serde(skip_serializing_if = "is_default")]
    pub unavailable: BTreeMap<String, u32>,
    /// The domain that takes most, and what it lacks, where the group asks for a topology.
    #[serde(skip_serializing_if = "is_default")]
    pub best: Option<BestDomainView>,
}

/// Nodes by the first filter that excludes them. What is zero is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExcludedView {
    /// Too little of a resource; the one that is shortest.
    #[serde(skip_serializing_if = "is_default")]
    pub resource: BTreeMap<String, u32>,
    /// A taint that is not tolerated, as `key=value:Effect`.
    #[serde(skip_serializing_if = "is_default")]
    pub taint: BTreeMap<String, u32>,
    /// A selected label is missing or different.
    #[serde(skip_serializing_if = "is_default")]
    pub node_selector: u32,
    /// No term of the node affinity matches.
    #[serde(skip_serializing_if = "is_default")]
    pub affinity: u32,
    /// Outside the domain it must be placed in.
    #[serde(skip_serializing_if = "is_default")]
    pub topology_domain: u32,
    /// A host port is taken.
    #[serde(skip_serializing_if = "is_default")]
    pub port: BTreeMap<String, u32>,
    /// It holds as many tasks of the group as one node may.
    #[serde(skip_serializing_if = "is_default")]
    pub limit_per_node: u32,
    /// No task runs near that it must be near, or the node has no label to say so.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_affinity: u32,
    /// A task runs near that it must not be near.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_anti_affinity: u32,
    /// Its tasks would be less evenly spread than it allows.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_topology_spread: u32,
    /// The room is kept for another job.
    #[serde(skip_serializing_if = "is_default")]
    pub held: u32,
}

/// The domain that takes most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BestDomainView {
    /// The label of its level.
    pub level: String,
    /// Its label values, top to bottom.
    pub values: Vec<String>,
    /// What it holds of each layer of slices, outermost first.
    #[serde(skip_serializing_if = "is_default")]
    pub per_level: Vec<LayerFitView>,
}

/// What a domain holds of one layer of slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayerFitView {
    /// The label of the layer's level.
    pub level: String,
    /// How many slices fit.
    pub fit: u32,
    /// How many are needed.
    pub needed: u32,
}
