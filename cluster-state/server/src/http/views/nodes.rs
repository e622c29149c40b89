//! Nodes.

use super::super::explain::explain;
use super::jobs::run_state;
use super::owed::held_on;
use super::words::{amounts, health};
use ohm_cell::{CORDONED, Cell, DeviceBank, NodeRecord, Release, Run, StandingCondition, idle_until_ms, requester};
use ohm_model::brought::{CLASS_LABEL, REQUEST_LABEL};
use ohm_model::resources::display;
use ohm_model::{JobId, NodeHealth, NodeId, RunRef, ShapeId, Taint};
use ohm_wire::api::{
    BroughtView, DrainView, LeavingView, NodeConditionView, NodeDetail, NodeRunView, NodeSummary, PutTaintView,
};
use std::collections::BTreeMap;

/// So many jobs are told of that stand on a node which is being drained.
const LEAVING_TOLD: usize = 20;

/// One line about `node`; nothing for an empty slot.
pub(crate) fn node_summary(cell: &Cell, node: NodeId) -> Option<NodeSummary> {
    let nodes = cell.nodes();
    let record = nodes.get(node)?;
    let free = |name: &String| {
        let free = cell.resources().find(name).map_or(0, |resource| nodes.free(node, resource));
        (name.clone(), display(name, free))
    };
    Some(NodeSummary {
        name: record.spec.name.clone(),
        health: health(record.health).to_string(),
        cordoned: nodes.flags(node) & CORDONED != 0,
        schedulable: nodes.is_schedulable(node),
        drain: record.drain.map(|drain| DrainView {
            since_ms: drain.since_ms,
            deadline_ms: drain.deadline_ms,
            at_once: drain.at_once,
        }),
        runs: cell.runs_on(node).into(),
        incarnation: record.incarnation.0,
        address: record.spec.address.clone(),
        labels: record.spec.labels.clone(),
        taints: record.taints.iter().map(ToString::to_string).collect(),
        put_taints: record.put_taints.iter().map(|taint| put_taint(record, taint)).collect(),
        capacity: amounts(&record.spec.capacity),
        free: record.spec.capacity.keys().map(free).collect(),
        devices: devices(cell, record),
        conditions: record.conditions.iter().map(condition).collect(),
        held_until_ms: if record.flaps.is_held { record.flaps.held_until_ms } else { 0 },
        flaps: record.flaps.returns_ms.len() as u32,
        brought: brought(cell, record),
    })
}

fn brought(cell: &Cell, record: &NodeRecord) -> Option<BroughtView> {
    let request = record.spec.labels.get(REQUEST_LABEL)?.clone();
    let class = record.spec.labels.get(CLASS_LABEL).cloned().unwrap_or_default();
    let state = match record.release {
        Release::InUse => "in use",
        Release::Idle { .. } => "idle",
        Release::Releasing { .. } => "releasing",
        Release::Released => "released",
    };
    let idle_until_ms = idle_until_ms(cell, record).unwrap_or(0);
    let job = requester(cell, &record.spec.labels).map_or_else(String::new, |job| job.spec.name.clone());
    let kept = record.is_kept_for_request;
    Some(BroughtView { request, class, job, kept, state: state.to_string(), idle_until_ms })
}

fn put_taint(record: &NodeRecord, taint: &Taint) -> PutTaintView {
    PutTaintView { taint: taint.to_string(), since_ms: record.tainted_since(taint).unwrap_or(0) }
}

fn condition(condition: &StandingCondition) -> NodeConditionView {
    NodeConditionView {
        kind: condition.kind.name().to_string(),
        action: condition.action.name().to_string(),
        since_ms: condition.since_ms,
        message: condition.message.clone(),
    }
}

/// What is free of each device that is tracked singly, by resource. A bank keeps the slots of devices that went away;
/// they are nobody's room and are left out.
fn devices(cell: &Cell, record: &NodeRecord) -> BTreeMap<String, Vec<u16>> {
    let present = |bank: &DeviceBank| bank.free_milli.iter().take(bank.present as usize).copied().collect();
    let named = |bank: &DeviceBank| (cell.resources().name(bank.resource).to_string(), present(bank));
    record.devices.iter().map(named).collect()
}

/// Everything about `node`, with at most `runs` of its runs; nothing for an empty slot.
pub(crate) fn node_detail(cell: &Cell, node: NodeId, runs: usize) -> Option<NodeDetail> {
    let record = cell.nodes().get(node)?;
    let live = cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run_view(cell, run));
    let kept = cell.kept().on_node(node).filter_map(|run| kept_view(cell, run));
    let run_list: Vec<NodeRunView> = live.chain(kept).take(runs).collect();
    Some(NodeDetail {
        summary: node_summary(cell, node)?,
        registered: record.registered.0,
        ports: record.ports.iter().map(ToString::to_string).collect(),
        runs_omitted: u64::from(cell.runs_on(node)).saturating_sub(run_list.len() as u64),
        run_list,
        leaving: leaving(cell, node),
        held: held_on(cell, node),
    })
}

/// The runs of a job that have to leave a node.
#[derive(Default)]
struct Leaving {
    staying: u64,
    stopping: u64,
    /// Those that no task counts at the moment.
    kept: u64,
}

/// The jobs that have to leave a node, because it is being drained or has a condition, and what they wait for.
fn leaving(cell: &Cell, node: NodeId) -> Vec<LeavingView> {
    let mut counts: BTreeMap<JobId, Leaving> = BTreeMap::new();
    let leaves = |shape: ShapeId| cell.leave_cause(shape, node).is_some();
    for (_, run) in cell.runs().on_node(cell.nodes(), node).filter(|(_, run)| leaves(run.shape)) {
        let counted = counts.entry(run.run.task.job).or_default();
        *(if run.stop.is_some() { &mut counted.stopping } else { &mut counted.staying }) += 1;
    }
    let kept = cell.kept().on_node(node);
    for run in kept.filter(|run| cell.kept().get(*run).is_some_and(|kept| leaves(kept.shape))) {
        counts.entry(run.task.job).or_default().kept += 1;
    }
    let is_lost = cell.nodes().get(node).is_some_and(|record| record.health == NodeHealth::Lost);
    let view = |(job, Leaving { staying, stopping, kept }): (JobId, Leaving)| {
        let job = cell.jobs().get(job)?;
        let reason = match () {
            () if staying > 0 => explain(cell, job).summary,
            () if kept > 0 && is_lost => "They live on while the node is lost.".to_string(),
            () if kept > 0 => "They came back with the node; what runs in their place ends first.".to_string(),
            () => String::new(),
        };
        Some(LeavingView { job: job.spec.name.clone(), staying: staying + kept, stopping, reason })
    };
    counts.into_iter().filter_map(view).take(LEAVING_TOLD).collect()
}

fn run_view(cell: &Cell, run: &Run) -> NodeRunView {
    let times = (run.placed_ms, run.started_ms);
    named_run_view(cell, run.run, run_state(run), run.pid, times)
}

/// A run that lives on while its node is lost, or came back with it and waits until what stands in its place is over.
fn kept_view(cell: &Cell, run: RunRef) -> Option<NodeRunView> {
    let kept = cell.kept().get(run)?;
    let state = if kept.back.is_some() { "returned" } else { "kept" };
    Some(named_run_view(cell, run, state, kept.pid, (kept.placed_ms, kept.started_ms)))
}

fn named_run_view(cell: &Cell, run: RunRef, state: &str, pid: u32, (placed_ms, started_ms): (u64, u64)) -> NodeRunView {
    let job = cell.jobs().get(run.task.job);
    let group = job.and_then(|job| job.spec.groups.get(usize::from(run.task.group.0)));
    NodeRunView {
        job: job.map_or_else(String::new, |job| job.spec.name.clone()),
        group: group.map_or_else(String::new, |group| group.name.clone()),
        task: run.task.task.0,
        incarnation: run.incarnation.0,
        state: state.to_string(),
        pid,
        placed_ms,
        started_ms,
    }
}
