//! Jobs as the API shows them.

use super::{AdmissionView, RolloutSummary, is_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One page of jobs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobSummary>,
    /// How many jobs match in all.
    pub total: u64,
    /// Ask again with `?after=` this name for the next page; empty on the last one.
    #[serde(skip_serializing_if = "is_default")]
    pub next: String,
}

/// What one line says about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSummary {
    /// The name by which it is known: `web` in the namespace `default`, `team-a/web` in `team-a`.
    pub name: String,
    /// The namespace that it is in.
    pub namespace: String,
    /// `batch`, `service` or `tas`.
    pub class: String,
    /// `pending`, `running`, `suspended`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    /// Why, for people; possibly empty.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: String,
    /// Higher goes first.
    pub priority: i32,
    /// The queue it waits in, if any.
    #[serde(skip_serializing_if = "is_default")]
    pub queue: String,
    /// The subqueue of that queue which it names, if it does.
    #[serde(skip_serializing_if = "is_default")]
    pub subqueue: String,
    /// The stop policy of the queue, `Hold` or `HoldAndDrain`, while that keeps it from starting.
    #[serde(skip_serializing_if = "is_default")]
    pub held: String,
    /// Who submitted it.
    pub owner: String,
    /// Free marks.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When it was first placed; 0 before.
    pub started_ms: u64,
    /// When it is expected to start, while room is kept for it as for the head of its line; 0 else.
    #[serde(skip_serializing_if = "is_default")]
    pub expected_start_ms: u64,
    /// Whether that is guessed: not all that it waits for has a deadline.
    #[serde(skip_serializing_if = "is_default")]
    pub expected_start_is_guess: bool,
    /// When it ended; 0 before.
    pub finished_ms: u64,
    /// Its tasks, counted over all groups.
    pub tasks: TaskCounts,
}

impl JobSummary {
    /// Whether the job is over for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

/// Tasks by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskCounts {
    /// All that are asked for. A rollout may have some beside them for the moment.
    pub total: u64,
    /// Wait to be placed, also those that a rollout holds back.
    pub pending: u64,
    /// Wait for their back-off to pass.
    pub backing_off: u64,
    /// Hold room on a node, running or not yet.
    pub live: u64,
    /// Were reported to run, those that are to stop included.
    pub running: u64,
    /// Of all, those that are ready only when their probes say so.
    #[serde(skip_serializing_if = "is_default")]
    pub probed: u64,
    /// Of those, are ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: u64,
    /// Of the live ones, are to stop.
    #[serde(skip_serializing_if = "is_default")]
    pub stopping: u64,
    /// Did what they were asked to.
    pub succeeded: u64,
    /// Failed for good.
    pub failed: u64,
    /// Were left out at the start.
    pub skipped: u64,
}

impl TaskCounts {
    /// Adds other tasks.
    pub fn add(&mut self, other: &TaskCounts) {
        self.total += other.total;
        self.pending += other.pending;
        self.backing_off += other.backing_off;
        self.live += other.live;
        self.running += other.running;
        self.probed += other.probed;
        self.ready += other.ready;
        self.stopping += other.stopping;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Losses of a job and their repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RepairView {
    /// Empty for a whole job, `waiting` while something lost is not placed, `inFlight` until it runs.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// When the first loss of the repair under way happened; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub since_ms: u64,
    /// When the job's policy gives up; 0 is never.
    #[serde(skip_serializing_if = "is_default")]
    pub give_up_ms: u64,
    /// How many repairs were ever begun.
    #[serde(skip_serializing_if = "is_default")]
    pub begun: u32,
    /// The nodes that the repair under way has asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub requests: Vec<NodeRequestView>,
    /// Nodes that the job has to do without.
    #[serde(skip_serializing_if = "is_default")]
    pub unhealthy_nodes: Vec<UnhealthyNodeView>,
    /// The last ones that are over, oldest first.
    #[serde(skip_serializing_if = "is_default")]
    pub past: Vec<PastRepairView>,
}

/// A request for nodes that a repair has made (`repair: {provision: true}`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRequestView {
    /// The provisioning class that is asked.
    pub class: String,
    /// `pending`, `ready` or `failed`.
    pub state: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The name of the request.
    pub request: String,
    /// For how many lost tasks.
    pub tasks: u32,
    /// What the outside said last.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
    /// Since when it is in this state.
    pub since_ms: u64,
}

/// A node that a job lost tasks with, or has to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnhealthyNodeView {
    /// Its name.
    pub name: String,
    /// `lost`, `draining`, or the condition of the node that drives the job away, such as `health-check-failed`.
    pub cause: String,
    /// When it was found so.
    pub since_ms: u64,
}

/// A repair that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastRepairView {
    /// When the first loss happened.
    pub since_ms: u64,
    /// When it was over.
    pub ended_ms: u64,
    /// How many tasks were placed again.
    pub tasks: u32,
    /// The nodes that were lost.
    pub nodes: Vec<String>,
    /// Why it was given up; empty when the job became whole.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: String,
}

/// Whether what is placed of a job runs in the time that its queue gives (`readyTimeout`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessView {
    /// Since when something of it stands and it is not ready, in milliseconds since 1970; left out while it is.
    #[serde(skip_serializing_if = "is_default")]
    pub unready_since_ms: u64,
    /// It is stopped then unless it is ready before; left out while it has no such time.
    #[serde(skip_serializing_if = "is_default")]
    pub due_ms: u64,
    /// How often it was stopped so since it was ready last, or resumed.
    #[serde(skip_serializing_if = "is_default")]
    pub timeouts: u32,
    /// How often it may be before it is suspended; left out where nothing bounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<u32>,
    /// Nothing of it is placed before; left out while it does not wait because it was not ready.
    #[serde(skip_serializing_if = "is_default")]
    pub until_ms: u64,
}

/// Everything about a job. `Spec` is the job document in canonical form, which would make the same job again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobView<Spec> {
    /// The line.
    #[serde(flatten)]
    pub summary: JobSummary,
    /// Which shard of its class places it, such as `batch/3`.
    #[serde(default)]
    pub shard: String,
    /// How it becomes whole again after losses, and how often it did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repair: RepairView,
    /// When it fails unless something of it is placed before, in milliseconds since 1970; 0 while it does not wait
    /// under a start deadline.
    #[serde(default, skip_serializing_if = "is_default")]
    pub start_deadline_ms: u64,
    /// Whether what is placed of it runs in time; left out while nothing is to be told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub readiness: ReadinessView,
    /// What it asks for before it is placed, and what came of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub admission: AdmissionView,
    /// How far its rollout is; left out while none is under way.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rollout: RolloutSummary,
    /// The last log entry that changed its spec, state, reservation or unhealthy nodes.
    #[serde(default)]
    pub version: u64,
    /// Its groups.
    #[serde(default)]
    pub groups: Vec<GroupView>,
    /// Attempts that did not simply succeed, oldest first; only the last ones are kept.
    #[serde(default)]
    pub past_runs: Vec<PastRunView>,
    /// The job document.
    pub spec: Spec,
}

/// Equal tasks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupView {
    /// Its name.
    pub name: String,
    /// With how many tasks at once it starts.
    pub min_count: u64,
    /// Whether it has started.
    pub started: bool,
    /// The required topology domain it stands in, as label values from the top; empty without one.
    #[serde(skip_serializing_if = "is_default")]
    pub domain: Vec<String>,
    /// What each task asks for.
    pub requests: BTreeMap<String, String>,
    /// The most each task may take, as far as it has limits; memory without one ends at its request.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: BTreeMap<String, String>,
    /// The flavor that it gets each resource from, where its queue gives quota by flavor.
    #[serde(skip_serializing_if = "is_default")]
    pub flavors: BTreeMap<String, String>,
    /// For how many tasks that may be lost room is to be held.
    #[serde(skip_serializing_if = "is_default")]
    pub spares: u32,
    /// The nodes where it is held, one for each.
    #[serde(skip_serializing_if = "is_default")]
    pub spare_nodes: Vec<String>,
    /// Its tasks, counted.
    pub counts: TaskCounts,
    /// Its tasks by rank, from `?firstTask=` on, at most `?tasks=`.
    pub tasks: Vec<TaskView>,
    /// How many tasks are not listed.
    #[serde(skip_serializing_if = "is_default")]
    pub tasks_omitted: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskView {
    /// Its rank in the group, from 0.
    pub task: u32,
    /// `pending`, `backingOff`, `held` (a rollout places others first), `placed`, `running`, `stopping`, `succeeded`,
    /// `failed`, `skipped`, `stopped` or `removed`.
    pub state: String,
    /// The last attempt; 0 before the first.
    pub incarnation: u32,
    /// The revision of its group that the live attempt was started as; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: u32,
    /// How many attempts failed by themselves.
    pub failures: u32,
    /// Where the last attempt stands or stood; empty before the first, and when the node is gone.
    #[serde(skip_serializing_if = "is_default")]
    pub node: String,
    /// Its process id on the node, while it runs.
    #[serde(skip_serializing_if = "is_default")]
    pub pid: u32,
    /// When the live attempt was placed.
    #[serde(skip_serializing_if = "is_default")]
    pub placed_ms: u64,
    /// When the live attempt was reported to run.
    #[serde(skip_serializing_if = "is_default")]
    pub started_ms: u64,
    /// Whether the live attempt is ready, while it runs and its probes decide about that.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: Option<bool>,
    /// Why it is not ready: which probe failed, and how; empty while none has.
    #[serde(skip_serializing_if = "is_default")]
    pub unready_reason: String,
    /// The live attempt is not started before: an earlier one failed its probes.
    #[serde(skip_serializing_if = "is_default")]
    pub starts_ms: u64,
    /// How the last attempt ended, in words; empty before.
    #[serde(skip_serializing_if = "is_default")]
    pub exit: String,
    /// The exit code, where the last attempt ended with one.
    #[serde(skip_serializing_if = "is_default")]
    pub exit_code: Option<i32>,
    /// The signal, where the last attempt ended by one.
    #[serde(skip_serializing_if = "is_default")]
    pub exit_signal: Option<i32>,
    /// Why the live attempt is to stop, once it is.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_cause: String,
}

/// An attempt that is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastRunView {
    /// The group's name.
    pub group: String,
    /// The task's rank.
    pub task: u32,
    /// The attempt.
    pub incarnation: u32,
    /// The revision of its group that it was started as.
    #[serde(skip_serializing_if = "is_default")]
    pub revision: u32,
    /// Where it stood.
    pub node: String,
    /// When it was placed.
    pub placed_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// How it ended, in words.
    pub exit: String,
    /// Why it was to stop, if it was.
    #[serde(skip_serializing_if = "is_default")]
    pub stop_cause: String,
    /// More for people; possibly empty.
    #[serde(skip_serializing_if = "is_default")]
    pub message: String,
}

/// The answer to `GET /v1/jobs/NAME/wait`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitAnswer {
    /// Whether what was waited for has come; false when the time is up. Ask again then.
    pub reached: bool,
    /// The job as it is now.
    pub job: JobSummary,
}
