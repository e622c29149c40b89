//! Queues, cohorts, resource flavors and topologies as the API shows them.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All queues and cohorts, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueList {
    /// The queues and cohorts.
    pub queues: Vec<QueueView>,
}

/// A queue or a cohort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// `Queue` or `Cohort`.
    pub kind: String,
    /// The cohort above; empty at the root.
    #[serde(skip_serializing_if = "is_default")]
    pub parent: String,
    /// Share among siblings in thousandths; 1000 is one.
    pub weight_milli: u64,
    /// 1000 times what is borrowed of the dominant resource, by what the cohort can lend of it, divided by the weight
    /// and rounded up. 0 where nothing is borrowed, 9223372036854775807 where something is with weight 0.
    pub weighted_share: i64,
    /// The resource of which most is borrowed; left out where nothing is.
    #[serde(skip_serializing_if = "is_default")]
    pub dominant_resource: String,
    /// Whom its jobs may preempt; left out for a cohort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<QueuePreemptionView>,
    /// Whether its jobs may start: `None`, `Hold` or `HoldAndDrain`; left out for a cohort.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_policy: String,
    /// How many of its jobs may wait; a submit beyond that is refused. Left out where there is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub max_waiting_jobs: u32,
    /// The namespaces whose jobs may wait in it; those of all when absent.
    #[serde(skip_serializing_if = "is_default")]
    pub namespaces: Option<Vec<String>>,
    /// For so long after its start, no job of another queue has one of this queue stopped; left out where it is 0.
    #[serde(skip_serializing_if = "is_default")]
    pub min_runtime_seconds: u64,
    /// By when what is placed of its jobs must run; left out where it need not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_timeout: Option<ReadyTimeoutView>,
    /// The provisioning classes that must say yes before its jobs are placed.
    #[serde(skip_serializing_if = "is_default")]
    pub admission_checks: Vec<String>,
    /// By check, the flavors that it is for: it is asked for jobs only that have one of them. A check that is not here
    /// is asked for all jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub on_flavors: BTreeMap<String, Vec<String>>,
    /// What it may use and uses, by resource, where its quota is of no flavor. Of a queue without `flavors`, a resource
    /// that is not here is not limited.
    pub resources: BTreeMap<String, QueueResourceView>,
    /// What it may use and uses of each flavor, in the order of its resource groups. Jobs of a queue with flavors that
    /// ask for another resource are not placed.
    #[serde(skip_serializing_if = "is_default")]
    pub flavors: Vec<QueueFlavorView>,
    /// Its jobs come in the order of what their subqueues have used, as this says; left out where they don't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_based_order: Option<UsageBasedOrderView>,
    /// Its subqueues by name, before them, with an empty name, the jobs that name the queue itself, if it has any
    /// subqueue. In a queue with `usageBasedOrder` those of smaller `keyMilli` come first.
    #[serde(skip_serializing_if = "is_default")]
    pub subqueues: Vec<SubqueueView>,
    /// Jobs of the queue that wait.
    pub pending: u64,
    /// Jobs of the queue that run.
    pub running: u64,
    /// Jobs of the queue that are suspended.
    pub suspended: u64,
}

/// In which order the subqueues of a queue come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageBasedOrderView {
    /// After so long what was used counts half; 0: only what is used now counts.
    pub half_life_seconds: u64,
    /// What a core, a device, a GiB of memory or storage, or a piece of another resource counts, in thousandths; 1000
    /// for a resource that is not here, and 0 for `pods`.
    pub resource_weights_milli: BTreeMap<String, u64>,
}

/// A subqueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubqueueView {
    /// Its name; empty for the jobs that name the queue itself.
    pub name: String,
    /// Its weight in thousandths.
    pub weight_milli: u64,
    /// What its jobs are charged now, by resource.
    pub used: BTreeMap<String, String>,
    /// What it has consumed, by resource, of which half is forgotten in each half-life. Left out where the queue has no
    /// `usageBasedOrder`.
    #[serde(skip_serializing_if = "is_default")]
    pub consumed: BTreeMap<String, String>,
    /// What it will have consumed in five minutes, if what it uses now stays in use, by the weights of the resources
    /// and its own, in thousandths. Left out where the queue has no order, or the subqueue has weight 0 and comes last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_milli: Option<u64>,
    /// Its jobs that wait.
    pub pending: u64,
    /// Its jobs that run.
    pub running: u64,
}

/// By when what is placed of the jobs of a queue must run, and how long they wait where it did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadyTimeoutView {
    /// From the first placement until the job is ready.
    pub timeout_seconds: u64,
    /// From when it is ready no more until it is again.
    pub recovery_timeout_seconds: u64,
    /// How long it waits after the first time-out; twice as long after each one more.
    pub backoff_base_seconds: u64,
    /// It never waits longer.
    pub backoff_max_seconds: u64,
    /// After so many time-outs in a row the next one suspends it; left out where nothing bounds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<u32>,
}

/// A queue or cohort with its jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueDetail {
    /// The line about it.
    #[serde(flatten)]
    pub summary: QueueView,
    /// How its jobs come after each other: `BestEffortFIFO` or `StrictFIFO`; empty for a cohort.
    #[serde(skip_serializing_if = "is_default")]
    pub queueing_strategy: String,
    /// The first of its jobs that wait, in their order: with `usageBasedOrder` by what their subqueues have used, then
    /// by priority, then by when they came to it.
    pub waiting: Vec<WaitingJobView>,
    /// The first of its jobs that have live runs, by priority, then by the time of the oldest of these.
    pub active: Vec<ActiveJobView>,
}

/// A job that waits in its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingJobView {
    /// Its place in the order of the queue, from 1.
    pub position: u64,
    /// Its name.
    pub name: String,
    /// The subqueue that it names, if it does.
    #[serde(skip_serializing_if = "is_default")]
    pub subqueue: String,
    /// Its class.
    pub class: String,
    /// Its priority.
    pub priority: i32,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: u64,
    /// Why it waits: the answer of `/v1/jobs/NAME/explain`, in one line.
    pub reason: String,
}

/// A job of a queue that has live runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActiveJobView {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its priority.
    pub priority: i32,
    /// When the oldest of its live runs was placed, in milliseconds since 1970.
    pub since_ms: u64,
    /// How many of its tasks have live runs.
    pub live: u64,
    /// What it is charged of what the queue limits, by resource, with the flavor before it where there is one:
    /// `spot/cpu`.
    pub quota: BTreeMap<String, String>,
}

/// Whom jobs of a queue may preempt where they lack quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueuePreemptionView {
    /// Jobs of the same queue: `Never`, `LowerPriority` or `LowerOrNewerEqualPriority`.
    pub within_cluster_queue: String,
    /// Jobs of other queues that borrow: `Never`, `LowerPriority` or `Any`.
    pub reclaim_within_cohort: String,
    /// Jobs of other queues while the queue borrows itself.
    pub borrow_within_cohort: BorrowWithinCohortView,
    /// Whether more important jobs from outside the root may stop jobs of this queue for room even while it uses no
    /// more than its own: `Never` or `LowerPriority`.
    pub outside_root: String,
}

/// Whom jobs of a queue may preempt while it borrows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BorrowWithinCohortView {
    /// `Never` or `LowerPriority`.
    pub policy: String,
    /// Jobs above this priority are not preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority_threshold: Option<i32>,
}

/// What holds for all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingView {
    /// How borrowed quota is shared out.
    pub fair_sharing: FairSharingView,
}

/// How borrowed quota is shared out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FairSharingView {
    /// Whether it is, by weight.
    pub enable: bool,
    /// When a job may preempt one of another queue, the first rule first; none where nothing is shared out.
    pub preemption_strategies: Vec<String>,
}

/// One flavor in one resource group of a queue or cohort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueFlavorView {
    /// The flavor's name. It stands here again if it is in another group, too.
    pub name: String,
    /// What may be used and is used of it, by resource.
    pub resources: BTreeMap<String, QueueResourceView>,
}

/// One resource of a queue or cohort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueResourceView {
    /// Own room.
    pub nominal: String,
    /// How much may be borrowed; left out when there is no bound.
    #[serde(skip_serializing_if = "is_default")]
    pub borrowing_limit: String,
    /// How much may be lent; left out when everything may be.
    #[serde(skip_serializing_if = "is_default")]
    pub lending_limit: String,
    /// What is used here, and what queues below use beyond their own.
    pub used: String,
    /// How much of that is borrowed from the cohort.
    pub borrowed: String,
    /// How much more may be used, borrowing included; may be below zero after a quota was cut.
    pub available: String,
}

/// All resource flavors, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFlavorList {
    /// The flavors.
    pub resource_flavors: Vec<ResourceFlavorView>,
}

/// A resource flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFlavorView {
    /// Its name.
    pub name: String,
    /// Labels that its nodes have.
    pub node_labels: BTreeMap<String, String>,
    /// Taints that its nodes have, each as `key=value:Effect`.
    pub node_taints: Vec<String>,
    /// What tasks that get it tolerate besides, each as `key=value:Effect`: without the value for any value, without
    /// the effect for every effect, with `*` for every key, and with ` for 30s` where it ends after so long.
    pub tolerations: Vec<String>,
}

/// All namespaces, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceList {
    /// The namespaces.
    pub namespaces: Vec<NamespaceView>,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceView {
    /// Its name.
    pub name: String,
    /// By which others select it.
    pub labels: BTreeMap<String, String>,
    /// How many jobs the cell knows in it.
    pub jobs: u64,
}

/// All priority classes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClassList {
    /// The classes.
    pub priority_classes: Vec<PriorityClassView>,
}

/// A priority class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClassView {
    /// Its name.
    pub name: String,
    /// The priority of jobs that are submitted with it.
    pub value: i32,
    /// Whether others may be stopped for these jobs: `PreemptLowerPriority` or `Never`.
    pub preemption_policy: String,
    /// What it is meant for.
    pub description: String,
    /// Whether jobs that name neither a class nor a priority get it.
    pub global_default: bool,
}

/// All topologies, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyList {
    /// The topologies.
    pub topologies: Vec<TopologyView>,
}

/// A topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyView {
    /// Its name.
    pub name: String,
    /// Label keys, coarse to fine.
    pub levels: Vec<String>,
    /// Its domains that hold nodes, parents before children, hosts left out.
    pub domains: Vec<DomainView>,
}

/// A domain of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DomainView {
    /// The label key of its level.
    pub level: String,
    /// Label values from the top.
    pub values: Vec<String>,
    /// How many nodes are in it.
    pub nodes: u64,
}
