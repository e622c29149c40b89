//! Jobs.

use super::heads::start_of;
use super::words::{amounts, shard, stop_cause};
use ohm_cell::{
    Cell, Group, Job, PastRepair, PastRun, RepairEnd, RepairState, Run, Standing, Task, TaskState, UnhealthyCause,
    UnhealthyNode,
};
use ohm_model::{Exit, GroupSpec, StopPolicy, split_job_name};
use ohm_wire::api::{
    GroupView, JobSummary, JobView, PastRepairView, PastRunView, RepairView, TaskCounts, TaskView, UnhealthyNodeView,
};
use serde_json::Value;

/// Which tasks of each group are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskWindow {
    /// The first one.
    pub(crate) first: usize,
    /// At most so many.
    pub(crate) count: usize,
}

/// One line about `job`.
pub(crate) fn job_summary(cell: &Cell, job: &Job) -> JobSummary {
    let mut tasks = TaskCounts::default();
    job.groups.iter().zip(&job.declared().groups).for_each(|(group, spec)| tasks.add(&counts(group, spec)));
    let (held, start) = (held(cell, job), start_of(cell, job).filter(|_| job.live() == 0));
    JobSummary {
        name: job.spec.name.clone(),
        class: job.spec.class.name().to_string(),
        state: job.phase().to_string(),
        reason: held.map_or_else(|| job.reason.clone(), |policy| policy.reason(&job.spec.queue)),
        priority: job.spec.priority,
        queue: job.spec.queue.clone(),
        subqueue: job.spec.subqueue.clone(),
        held: held.map(|policy| policy.name().to_string()).unwrap_or_default(),
        namespace: split_job_name(&job.spec.name).0.to_string(),
        owner: job.owner.to_string(),
        labels: job.spec.labels.clone(),
        submitted_ms: job.submitted_ms,
        started_ms: job.started_ms,
        expected_start_ms: start.map_or(0, |start| start.ms),
        expected_start_is_guess: start.is_some_and(|start| start.is_guess),
        finished_ms: job.finished_ms,
        tasks,
    }
}

/// The stop policy that keeps the job from starting.
fn held(cell: &Cell, job: &Job) -> Option<StopPolicy> {
    match cell.standing(job) {
        Standing::Held(policy) if job.live() == 0 => Some(policy),
        _ => None,
    }
}

/// The tasks of a group of which `spec` is asked for.
fn counts(group: &Group, spec: &GroupSpec) -> TaskCounts {
    let gates = spec.task.probes.as_ref().is_some_and(|probes| probes.gates_readiness());
    TaskCounts {
        total: u64::from(spec.count) + u64::from(group.leaving),
        pending: u64::from(group.pending.len()) + u64::from(group.held),
        backing_off: group.backing_off.into(),
        live: group.live.into(),
        running: group.running.into(),
        probed: if gates { u64::from(spec.count) + u64::from(group.leaving) } else { 0 },
        ready: if gates { group.ready().into() } else { 0 },
        stopping: group.stopping.into(),
        succeeded: group.succeeded.into(),
        failed: group.failed.into(),
        skipped: group.skipped.into(),
    }
}

/// Everything about `job`.
pub(crate) fn job(cell: &Cell, job: &Job, window: TaskWindow) -> JobView<Value> {
    let groups = 0..job.groups.len();
    // A document is made of maps, lists, texts and numbers; nothing in it can fail to be JSON.
    let spec = serde_json::to_value(ohm_manifest::document(job.declared())).unwrap_or(Value::Null);
    JobView {
        summary: job_summary(cell, job),
        shard: shard(job.shard),
        repair: repair(job),
        start_deadline_ms: job.start_deadline_ms().unwrap_or(0),
        readiness: super::ready::readiness(cell, job),
        admission: super::admission::admission(cell, job),
        rollout: super::rollout::of_open(cell, job),
        version: job.version.0,
        groups: groups.filter_map(|at| group_view(cell, job, at, window)).collect(),
        past_runs: job.past.iter().map(|past| past_run(job, past)).collect(),
        spec,
    }
}

fn repair(job: &Job) -> RepairView {
    let open = job.repairs.open.as_ref();
    let unhealthy = |node: &UnhealthyNode| UnhealthyNodeView {
        name: node.name.clone(),
        cause: match node.cause {
            UnhealthyCause::Lost => "lost",
            UnhealthyCause::Draining => "draining",
            UnhealthyCause::Condition(kind) => kind.name(),
        }
        .to_string(),
        since_ms: node.since_ms,
    };
    let past = |past: &PastRepair| PastRepairView {
        since_ms: past.since_ms,
        ended_ms: past.ended_ms,
        tasks: past.placed,
        nodes: past.nodes.clone(),
        failed: match &past.end {
            RepairEnd::Repaired => String::new(),
            RepairEnd::Failed(reason) => reason.clone(),
        },
    };
    RepairView {
        state: match job.repair_state() {
            RepairState::Whole => "",
            RepairState::Waiting => "waiting",
            RepairState::InFlight => "inFlight",
            RepairState::Leaving => "leaving",
        }
        .to_string(),
        since_ms: open.map_or(0, |open| open.since_ms),
        give_up_ms: open.map_or(0, |open| open.give_up_ms),
        begun: job.repairs.begun,
        requests: super::node_requests::node_requests(job),
        unhealthy_nodes: job.repairs.unhealthy.iter().map(unhealthy).collect(),
        past: job.repairs.past.iter().map(past).collect(),
    }
}

fn group_view(cell: &Cell, job: &Job, at: usize, window: TaskWindow) -> Option<GroupView> {
    let (group, spec) = (job.groups.get(at)?, job.declared().groups.get(at)?);
    let ranks = window.first.min(group.tasks.len())..window.first.saturating_add(window.count).min(group.tasks.len());
    let tasks: Vec<TaskView> =
        ranks.filter_map(|rank| Some(task_view(cell, job, rank as u32, group.tasks.get(rank)?))).collect();
    Some(GroupView {
        name: spec.name.clone(),
        min_count: spec.min_count.into(),
        started: group.started,
        domain: domain(cell, job, at),
        requests: amounts(&spec.requests),
        limits: amounts(&spec.limits),
        flavors: ohm_cell::flavors_of(cell, job, at),
        spares: spec.spares,
        spare_nodes: spare_nodes(cell, job, at),
        counts: counts(group, spec),
        tasks_omitted: (group.tasks.len() - tasks.len()) as u64,
        tasks,
    })
}

fn spare_nodes(cell: &Cell, job: &Job, at: usize) -> Vec<String> {
    let held = cell.spares_of(job.id, ohm_model::GroupIndex(at as u16));
    held.flat_map(|(node, count)| std::iter::repeat_n(cell.nodes().name(node).to_string(), count as usize)).collect()
}

/// The required domain a group stands in, as label values from the top.
fn domain(cell: &Cell, job: &Job, at: usize) -> Vec<String> {
    let find = || {
        let (standing, key) = job.partners(at).find_map(|other| Some((other, job.groups[other].domain?)))?;
        let (topology, level) = job.binding_level(standing)?;
        let topology = cell.topologies().get(topology)?;
        let level = topology.level(level)?;
        if level < topology.stored_levels() {
            let path = topology.path(ohm_model::DomainId(key));
            return Some(path.into_iter().map(String::from).collect());
        }
        // At the host level the key is the node itself.
        Some(vec![cell.nodes().name(ohm_model::NodeId(key)).to_string()])
    };
    find().unwrap_or_default()
}

fn task_view(cell: &Cell, job: &Job, rank: u32, task: &Task) -> TaskView {
    let run = cell.runs().get(task.run).filter(|run| run.run.task.job == job.id && task.state == TaskState::Live);
    let health = run.and_then(|run| run.health.as_deref());
    let (exit_code, exit_signal) = match task.exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        _ => (None, None),
    };
    TaskView {
        task: rank,
        state: task_state(task, run).to_string(),
        incarnation: if task.was_placed() { task.incarnation.0 } else { 0 },
        revision: run.map_or(0, |run| run.revision),
        failures: task.failures,
        node: node_of(cell, job, task),
        pid: run.map_or(0, |run| run.pid),
        placed_ms: run.map_or(0, |run| run.placed_ms),
        started_ms: run.map_or(0, |run| run.started_ms),
        ready: health.filter(|_| run.is_some_and(|run| run.started_ms != 0)).map(|health| health.ready),
        unready_reason: health.map_or_else(String::new, |health| health.message.clone()),
        starts_ms: run.and_then(|run| run.starts_ms()).unwrap_or(0),
        exit: task.exit.map_or_else(String::new, |exit| exit.to_string()),
        exit_code,
        exit_signal,
        stop_cause: run.and_then(|run| run.stop).map_or("", stop_cause).to_string(),
    }
}

fn task_state(task: &Task, run: Option<&Run>) -> &'static str {
    match (task.state, run) {
        (TaskState::Live, Some(run)) => run_state(run),
        (TaskState::Live, None) => "placed",
        (TaskState::Pending, _) => "pending",
        (TaskState::BackingOff, _) => "backingOff",
        (TaskState::Held, _) => "held",
        (TaskState::Succeeded, _) => "succeeded",
        (TaskState::Failed, _) => "failed",
        (TaskState::Skipped, _) => "skipped",
        (TaskState::Stopped, _) => "stopped",
        (TaskState::Removed, _) => "removed",
    }
}

/// What a live run does.
pub(super) fn run_state(run: &Run) -> &'static str {
    match run {
        Run { stop: Some(_), .. } => "stopping",
        Run { started_ms: 1.., .. } => "running",
        run if run.starts_ms().is_some() => "backingOff",
        _ => "placed",
    }
}

/// The name of the node of the last attempt; empty when the slot holds another node by now.
fn node_of(cell: &Cell, job: &Job, task: &Task) -> String {
    let record = cell.nodes().get(task.node).filter(|_| task.was_placed());
    let stood_here = |registered| job.finished_ms == 0 || registered <= job.version;
    let record = record.filter(|record| task.state == TaskState::Live || stood_here(record.registered));
    record.map_or_else(String::new, |record| record.spec.name.clone())
}

fn past_run(job: &Job, past: &PastRun) -> PastRunView {
    PastRunView {
        group: job.spec.groups.get(usize::from(past.group)).map_or_else(String::new, |group| group.name.clone()),
        task: past.task,
        incarnation: past.incarnation.0,
        revision: past.revision,
        node: past.node.clone(),
        placed_ms: past.placed_ms,
        ended_ms: past.ended_ms,
        exit: past.exit.to_string(),
        stop_cause: past.cause.map_or("", stop_cause).to_string(),
        message: past.message.clone(),
    }
}
