//! The answer, in the words and the order in which it is printed as JSON; see the crate's page.

use crate::queues::QueueAnswer;
use ohm_framework::{Counted, Excluded, Tried};
use ohm_manifest::FieldPath;
use ohm_model::resources;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Every job of the job file, and those of the cell file that were placed, repaired or evicted; in file order.
    pub jobs: Vec<JobAnswer>,
    /// The cell as the documents describe it.
    pub before: Totals,
    /// The cell with everything that was planned, without the nodes that failed.
    pub after: Totals,
    /// The quota tree with everything that was planned, if that was asked: queues and cohorts by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueAnswer>>,
    /// How many more copies of each job would fit, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_fit: Option<Vec<Copies>>,
    /// Fields of Kubernetes objects that bear on where pods go and are not honoured.
    pub ignored: Vec<IgnoredField>,
}

/// A field that is not honoured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IgnoredField {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The path of the field.
    pub field: String,
    /// Why, where there is more to say than that nothing honours it.
    pub reason: Option<String>,
}

impl IgnoredField {
    pub(crate) fn of(kind: &'static str, name: &str, field: &FieldPath, reason: Option<String>) -> Self {
        IgnoredField { kind, name: name.to_string(), field: field.to_string(), reason }
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum JobOutcome {
    /// Everything it must have stands; some of it may have stood before.
    Placed,
    /// It lost tasks, and they stand elsewhere.
    Repaired,
    /// It does not stand with what it must have.
    Pending,
    /// The same, and in passes: it is not looked at again before something changes.
    Parked,
    /// Others are told to stop for it, and it is placed once they have.
    Preempting,
    /// It stood and had to make room.
    Evicted,
}

impl JobOutcome {
    /// The word that JSON has.
    pub fn name(self) -> &'static str {
        match self {
            JobOutcome::Placed => "placed",
            JobOutcome::Repaired => "repaired",
            JobOutcome::Pending => "pending",
            JobOutcome::Parked => "parked",
            JobOutcome::Preempting => "preempting",
            JobOutcome::Evicted => "evicted",
        }
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobAnswer {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub outcome: JobOutcome,
    /// Why it is pending or evicted, in one sentence.
    pub reason: Option<String>,
    /// The reason at length, line by line; what `ohm explain` would say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<String>,
    /// By when it finds room, where it finds none now and jobs with a deadline have ended by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<StartAnswer>,
    /// The profile and the strategies that were tried before the explanation was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Arc<Tried>>,
    /// What of its quota keeps it out: `NoMatchingFlavor`, `ExceedsMaxQuota`, `WaitingForQuota` or `WaitingForVictims`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// From how far up its queue borrows for it: 0 within its own, else the height of the cohort that lends. Nothing
    /// without a queue, and where it does not stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrowing: Option<u32>,
    /// Whom it stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preempts: Vec<VictimAnswer>,
    /// Where room is kept for it until they have stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominated: Vec<NodeCount>,
    /// Its tasks in numbers.
    pub tasks: TaskCounts,
    /// Its groups in order.
    pub groups: Vec<GroupAnswer>,
}

/// By when a job starts, if nothing else comes before it: all that has a deadline (`activeDeadlineSeconds`) began just
/// now, runs until then, and takes its whole grace period to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// From now on.
    pub within_seconds: u64,
    /// The jobs of which something has to end before.
    pub waits_for: Vec<String>,
}

/// A job that is stopped for another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimAnswer {
    /// Its name.
    pub job: String,
    /// NAMESPACE/NAME of a Pod of the cell file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Where it stands, if that is one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The rule that allows it.
    pub reason: &'static str,
    /// Whether that breaks a disruption budget: nothing else was found.
    #[serde(rename = "violatesBudget")]
    pub violates_budget: bool,
}

/// Tasks of a job in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCounts {
    /// How many it asks for.
    pub asked: u32,
    /// How many stood before.
    pub before: u32,
    /// How many of those lost their node or leave it.
    pub lost: u32,
    /// How many stand now.
    pub after: u32,
}

/// Where a group stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupAnswer {
    /// Its name.
    pub name: String,
    /// Nodes in the order of the ranks on them.
    pub placements: Vec<NodeCount>,
    /// The lowest domains of its topology, in the order of their paths; empty without a topology.
    pub domains: Vec<DomainCount>,
    /// The flavor that it has of each resource, or is to have; empty where its queue gives quota without flavors.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flavors: BTreeMap<String, String>,
    /// Room held for tasks it may lose, if it asks for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spares: Option<SparesAnswer>,
    /// Why it could not be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Counted>,
    /// Every node as it was before the job was planned, if that was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeVerdict>,
}

/// Whether a node takes a task of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeVerdict {
    /// The node.
    pub node: String,
    /// Whether it does.
    pub fits: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<NodeMiss>,
    /// What kube-scheduler's plugins would give the node, 0 to 100 by the name of the plugin; only where it takes the
    /// task. Those that the profile does not count, and those that have nothing to say about the group, are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<&'static str, u32>,
    /// Their sum, each as often as its weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// What keeps a task away from a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeMiss {
    /// The first rule that does, by kube-scheduler's name where it has one.
    pub filter: &'static str,
    /// Whether it would find room once others there had stopped.
    pub resolvable: bool,
    /// In words.
    pub message: String,
}

/// The spares of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SparesAnswer {
    /// How many it asks for.
    pub asked: u32,
    /// Where they are held.
    pub held: Vec<NodeCount>,
}

/// Tasks on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeCount {
    /// The node.
    pub node: String,
    /// How many.
    pub count: u32,
}

/// Tasks in a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainCount {
    /// Label values, top to bottom.
    pub values: Vec<String>,
    /// How many.
    pub count: u32,
}

/// A cell in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How many nodes there are.
    pub nodes: u32,
    /// How many hold anything.
    pub nodes_used: u32,
    /// By resource, as quantities.
    pub resources: BTreeMap<String, Taken>,
}

/// How much of a resource is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// What jobs and others hold.
    pub allocated: String,
    /// What there is.
    pub allocatable: String,
    /// How much of it that is, in whole hundredths.
    pub percent: u32,
}

impl Totals {
    pub(crate) fn add(&mut self, name: &str, taken: i64, capacity: i64) {
        if taken == 0 && capacity == 0 {
            return;
        }
        let percent = i128::from(taken.max(0)) * 100 / i128::from(capacity.max(1));
        let taken = Taken {
            allocated: resources::display(name, taken),
            allocatable: resources::display(name, capacity),
            percent: u32::try_from(percent).unwrap_or(u32::MAX),
        };
        self.resources.insert(name.to_string(), taken);
    }
}

/// How many more copies of a job would fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copies {
    /// The job.
    pub job: String,
    /// How many.
    pub copies: u32,
    /// Whether counting stopped there, so that still more may fit.
    pub at_least: bool,
    /// What the next copy lacks, in one sentence.
    pub reason: Option<String>,
    /// What is left once they all stand, by kind of node: for each group.
    pub groups: Vec<GroupRoom>,
}

/// What is left for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRoom {
    /// The group.
    pub name: String,
    /// Kinds of nodes: equal in room, taints and labels, host names and topology labels aside.
    pub classes: Vec<ClassRoom>,
}

/// What is left for a group on nodes of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassRoom {
    /// The first of them.
    pub like: String,
    /// How many there are.
    pub nodes: u32,
    /// How many more single tasks they take.
    pub tasks: u64,
    /// Those that take none, by the first reason found.
    pub excluded: Excluded,
    /// Those that are not looked at, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<&'static str, u32>,
}
