//! The sweep: every promise the state alone can show, checked from first principles. For tests, the simulator, `ohm log
//! verify` and the oracle. [`Cell::invariants`] costs a pass over everything; a [`Sweep`] follows the log and looks at
//! what each entry touched.

mod admission;
mod shapes;
mod spares;
mod sweep;

pub use sweep::Sweep;

use crate::cell::Cell;
use crate::check::admission::check_admission;
use crate::check::shapes::check_shapes;
use crate::check::spares::check_spares;
use crate::check::spares::check_spares_on;
use crate::state::classes::NodeClass;
use crate::state::jobs::{Job, JobState, Task, TaskState, required_level};
use crate::state::kept::KeptRun;
use crate::state::nodes::{DRAINING, NOMINATED, NodeRecord, PRESENT, READY, SHRUNK};
use crate::state::quota::QuotaNode;
use crate::state::repairs::{RepairState, UnhealthyCause};
use crate::state::requests::direct_usage;
use crate::state::runs::{NO_RUN, Run};
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{Amounts, GroupIndex, NodeHealth, NodeId, ResourceId, RunRef, ShapeId};
use std::collections::{BTreeMap, BTreeSet};

/// What has room on a node, by its shape and devices: a live run, or one that came back and lives on.
type Standing<'a> = (ShapeId, &'a [u64]);

impl Cell {
    /// Every broken invariant, in words; empty when all hold.
    pub fn invariants(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let listed = self.nodes.iter().map(|(node, record)| sweep_node(self, node, record, &mut broken)).sum();
        check_listed(self, listed, &mut broken);
        self.runs.iter().for_each(|(slot, run)| sweep_run(self, slot, run, &mut broken));
        for job in self.jobs.iter() {
            check_job_sums(self, job, &mut broken);
            check_job_promises(self, job, &mut broken);
        }
        check_quota(self, &direct_usage(self), &mut broken);
        check_kept(self, &mut broken);
        check_shapes(self, &mut broken);
        if !self.nominations.is_consistent() {
            broken.push("the nodes on which room is kept for jobs are not those that keep it".into());
        }
        broken
    }
}

pub(crate) fn check_listed(cell: &Cell, listed: usize, broken: &mut Vec<String>) {
    if listed != cell.runs.len() {
        broken.push(format!("P2: {} runs are live, {listed} stand on nodes", cell.runs.len()));
    }
}

/// P1: what runs hold and what is free add up to the capacity, and nothing is below zero but on a shrunk node.
/// Returns how many runs stand there.
pub(crate) fn sweep_node(cell: &Cell, node: NodeId, record: &NodeRecord, broken: &mut Vec<String>) -> usize {
    let name = &record.spec.name;
    let runs: Vec<(u32, &Run)> = cell.runs.on_node(&cell.nodes, node).collect();
    if runs.len() != cell.nodes.run_count(node) as usize || runs.iter().any(|(_, run)| run.node != node) {
        broken.push(format!("P2: the run list of node {name} does not match its count"));
    }
    let shrunk = cell.nodes.flags(node) & SHRUNK != 0;
    let back = cell.kept.back_on(node).filter_map(|run| cell.kept.get(run).map(|kept| (kept.shape, kept.masks())));
    let standing = runs.iter().map(|(_, run)| (run.shape, run.devices.as_deref().unwrap_or(&[])));
    let standing: Vec<Standing<'_>> = standing.chain(back).collect();
    let held = held_by(cell, &standing);
    for column in (0..cell.resources.len() as u16).map(ResourceId) {
        let capacity = record.spec.capacity.get(cell.resources.name(column)).copied().unwrap_or(0);
        let used = held.get(&column).copied().unwrap_or(0);
        let free = cell.nodes.free(node, column);
        if capacity - used != free || capacity != cell.nodes.capacity(node, column) {
            let resource = cell.resources.name(column);
            broken.push(format!("P1: node {name} {resource}: capacity {capacity}, used {used}, free {free}"));
        }
        if free < 0 && !shrunk {
            let resource = cell.resources.name(column);
            broken.push(format!("P1: node {name} is over its capacity in {resource} by {}", -free));
        }
    }
    check_node_details(cell, node, record, &standing, broken);
    if record.health == NodeHealth::Lost && !standing.is_empty() {
        broken.push(format!("P2: lost node {name} still holds runs"));
    }
    runs.len()
}

fn held_by(cell: &Cell, standing: &[Standing<'_>]) -> BTreeMap<ResourceId, i64> {
    let mut held = BTreeMap::new();
    for (shape, _) in standing {
        for &(resource, request) in cell.shapes.get(*shape).iter().flat_map(|shape| &shape.requests) {
            *held.entry(resource).or_insert(0) += request;
        }
    }
    held
}

fn check_node_details(
    cell: &Cell,
    node: NodeId,
    record: &NodeRecord,
    standing: &[Standing<'_>],
    broken: &mut Vec<String>,
) {
    let name = &record.spec.name;
    let mut ports: Vec<u16> = Vec::new();
    let mut devices: BTreeMap<(ResourceId, u32), i64> = BTreeMap::new();
    for (shape, masks) in standing {
        let Some(shape) = cell.shapes.get(*shape) else { continue };
        ports.extend(&shape.ports);
        for (&(resource, request), mask) in shape.devices.iter().zip(*masks) {
            let taken = (0..64).filter(|device| mask >> device & 1 == 1);
            taken.for_each(|device| *devices.entry((resource, device)).or_insert(0) += request.min(DEVICE_MILLI));
        }
    }
    ports.sort_unstable();
    if ports != record.ports || ports.windows(2).any(|pair| pair[0] == pair[1]) {
        broken.push(format!("P1: node {name}: ports {:?} are marked, {ports:?} are held", record.ports));
    }
    for bank in &record.devices {
        for (device, free) in bank.free_milli.iter().enumerate() {
            let used = devices.remove(&(bank.resource, device as u32)).unwrap_or(0);
            if used + i64::from(*free) != DEVICE_MILLI {
                broken.push(format!("P1: node {name} device {device}: {used} held, {free} free of {DEVICE_MILLI}"));
            }
        }
    }
    let unknown = devices.keys().filter(|(resource, _)| record.bank(*resource).is_some()).count();
    if unknown > 0 {
        broken.push(format!("P1: node {name}: {unknown} held devices do not exist"));
    }
    let flags = cell.nodes.flags(node);
    if flags & PRESENT == 0 || (flags & READY != 0) != (record.health == NodeHealth::Ready) {
        broken.push(format!("node {name}: flags {flags:#b} do not match its health {:?}", record.health));
    }
    if (flags & DRAINING != 0) != record.drain.is_some() {
        broken.push(format!("node {name}: the mark of a drain without one, or the reverse"));
    }
    if (flags & NOMINATED != 0) == cell.nominations.on_node(node).is_empty() {
        broken.push(format!("node {name}: nomination flag without nomination, or the reverse"));
    }
    check_spares_on(cell, node, broken);
    let is_classed =
        cell.classes.get(cell.nodes.class(node)) == Some(&NodeClass::of(&record.spec.labels, &record.taints));
    if record.taints != record.all_taints() || !is_classed {
        broken.push(format!("node {name}: its taints and class do not match its conditions"));
    }
}

/// P2: a live run is the one its task names, and so the only one of its task.
pub(crate) fn sweep_run(cell: &Cell, slot: u32, run: &Run, broken: &mut Vec<String>) {
    let task = cell
        .jobs
        .get(run.run.task.job)
        .and_then(|job| job.groups.get(usize::from(run.run.task.group.0))?.tasks.get(run.run.task.task.0 as usize));
    if !task.is_some_and(|task| task.run == slot && task.incarnation == run.run.incarnation) {
        broken.push(format!("P2: run {} is not the one run of its task", run.run));
    }
    if cell.shapes.get(run.shape).is_none() {
        broken.push(format!("P1: run {} has a shape that is gone", run.run));
    }
    if cell.nodes.get(run.node).is_none() {
        broken.push(format!("P2: run {} stands on a node that is gone", run.run));
    }
}

/// P2, P6: what is kept is of a job that may go on and says so; it is away with its node, or back and about to
/// stand.
pub(crate) fn check_kept(cell: &Cell, broken: &mut Vec<String>) {
    for (run, kept) in cell.kept.iter() {
        let Some(job) = cell.jobs.get(run.task.job).filter(|job| job.state == JobState::Active) else {
            broken.push(format!("P6: run {run} is kept although its job is over"));
            continue;
        };
        let group = job.groups.get(usize::from(run.task.group.0));
        let Some(task) = group.and_then(|group| group.tasks.get(run.task.task.0 as usize)) else {
            broken.push(format!("P2: run {run} of job {} is kept without a task", job.spec.name));
            continue;
        };
        let standing = cell.runs.get(task.run).map(|standing| standing.run);
        if standing == Some(*run) || task.attempts < run.incarnation {
            broken.push(format!("P2: run {run} of job {} is kept and live", job.spec.name));
        }
        let in_the_way = |run: RunRef, kept: &KeptRun| {
            let task = &job.groups[usize::from(run.task.group.0)].tasks[run.task.task.0 as usize];
            let standing = cell.runs.get(task.run).map(|standing| standing.run.incarnation);
            task.state == TaskState::Live && kept.back == Some(standing)
        };
        let others = || job.starts_whole() && cell.kept.of_job(job.id).any(|(other, kept)| in_the_way(*other, kept));
        if kept.back.is_some() && !in_the_way(*run, kept) && !others() {
            broken.push(format!("P10: run {run} of job {} lives on, and waits for nothing", job.spec.name));
        }
        let health = cell.nodes.get(kept.node).map(|record| record.health);
        let away = health == Some(NodeHealth::Lost);
        if health.is_none() || away != kept.back.is_none() {
            broken.push(format!("P2: kept run {run} of job {}: {:?} on a node {health:?}", job.spec.name, kept.back));
        }
    }
}

pub(crate) fn check_job_sums(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    for (group, spec) in job.groups.iter().zip(&job.spec.groups) {
        let mut counts = [0; TaskState::Removed as usize + 1];
        group.tasks.iter().for_each(|task| counts[task.state as usize] += 1);
        let count = |state: TaskState| counts[state as usize];
        let label = || format!("job {} group {}", job.spec.name, spec.name);
        let removed = || group.tasks.iter().skip(spec.count as usize);
        let stops = |task: &&Task| cell.runs.get(task.run).is_some_and(|run| run.stop.is_some());
        let leaving = removed().filter(|task| task.state == TaskState::Live).filter(stops).count() as u32;
        // What is beyond the count has left, or is about to; the last of them always is about to.
        let beyond = leaving + count(TaskState::Removed);
        if removed().last().is_some_and(|task| task.state == TaskState::Removed) {
            broken.push(format!("{}: removed tasks are kept although no run of them is left", label()));
        }
        let sums = [
            ("live", group.live, count(TaskState::Live)),
            ("pending", group.pending.len(), count(TaskState::Pending)),
            ("backing off", group.backing_off, count(TaskState::BackingOff)),
            ("succeeded", group.succeeded, count(TaskState::Succeeded)),
            ("failed", group.failed, count(TaskState::Failed)),
            ("skipped", group.skipped, count(TaskState::Skipped)),
            ("tasks", spec.count, group.tasks.iter().take(spec.count as usize).count() as u32),
            ("removed", group.tasks.len() as u32 - spec.count.min(group.tasks.len() as u32), beyond),
            ("leaving", group.leaving, leaving),
        ];
        let stopping = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)?.stop).count() as u32;
        let running = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)).filter(|run| run.started_ms > 0);
        let live = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
        let reshaped = live.filter(|run| run.shape != group.shape).count() as u32;
        let sums = sums.into_iter().chain([
            ("stopping", group.stopping, stopping),
            ("running", group.running, running.count() as u32),
            ("reshaped", group.reshaped, reshaped),
        ]);
        for (what, kept, counted) in sums {
            if kept != counted {
                broken.push(format!("{}: {kept} {what} kept, {counted} counted", label()));
            }
        }
        for (index, task) in group.tasks.iter().enumerate() {
            let live = cell.runs.get(task.run).is_some();
            if (task.state == TaskState::Live) != live || (task.run != NO_RUN) != live {
                broken.push(format!("P2: {} task {index} is {:?} with run slot {}", label(), task.state, task.run));
            }
            if (task.state == TaskState::Pending) != group.pending.contains(index as u32, 1) {
                broken.push(format!("{} task {index} is {:?} against the pending set", label(), task.state));
            }
        }
    }
}

/// What is lost waits to be placed, what was placed again has not started, and a repair is under way exactly then.
fn check_repair(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    for group in &job.groups {
        let waiting = |task: u32| {
            let state = group.tasks.get(task as usize).map(|task| task.state);
            matches!(state, Some(TaskState::Pending | TaskState::BackingOff))
        };
        let lost = group.lost.iter().flat_map(|(first, count)| first..first + count);
        for task in lost.filter(|task| !waiting(*task)) {
            broken.push(format!("P7: job {name}: task {task} counts as lost and does not wait"));
        }
        let waits = |task: u32| {
            let run = group.tasks.get(task as usize).and_then(|task| cell.runs.get(task.run));
            run.is_some_and(|run| run.started_ms == 0)
        };
        let replaced = group.replaced.iter().flat_map(|(first, count)| first..first + count);
        for task in replaced.filter(|task| !waits(*task)) {
            broken.push(format!("P7: job {name}: task {task} counts as placed again and does not wait to run"));
        }
    }
    if job.repairs.open.is_some() != (job.repair_state() != RepairState::Whole) {
        broken.push(format!("P7: job {name}: repair {:?} while {:?}", job.repairs.open, job.repair_state()));
    }
    let closed = job.state != JobState::Active || job.live() == 0;
    if closed && !(job.repairs.unhealthy.is_empty() && job.repairs.open.is_none()) {
        broken.push(format!("P6: job {name} is {} and still to be repaired", job.phase()));
    }
    for entry in &job.repairs.unhealthy {
        let Some(node) = entry.node else { continue };
        let listed = cell.jobs.with_unhealthy(node).any(|other| other == job.id);
        let health = cell.nodes.get(node).map(|record| record.health);
        if !listed || (entry.cause == UnhealthyCause::Lost && health != Some(NodeHealth::Lost)) {
            broken.push(format!("P7: job {name}: node {} is unhealthy for it and {health:?}", entry.name));
        }
    }
    check_moves(cell, job, broken);
}

/// Nodes that have to be left are unhealthy for exactly the jobs that something stands of there, and each task on
/// the move has room for one.
fn check_moves(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let name = &job.spec.name;
    let mut to_leave: BTreeSet<NodeId> = BTreeSet::new();
    for (at, group) in job.groups.iter().enumerate() {
        let live = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
        let staying = live.filter(|run| run.stop.is_none()).map(|run| (run.shape, run.node));
        let leaving = staying.filter(|(shape, node)| cell.leave_cause(*shape, *node).is_some());
        to_leave.extend(leaving.map(|(_, node)| node));
        let held: u32 = cell.rooms_for_moving(job.id, GroupIndex(at as u16)).map(|(_, count)| count).sum();
        if held != group.moving.len() {
            broken.push(format!("P7: job {name}: {} tasks on the move with room for {held}", group.moving.len()));
        }
        for task in group.moving.iter().flat_map(|(first, count)| first..first + count) {
            let found = group.tasks.get(task as usize);
            let stops = found.and_then(|task| cell.runs.get(task.run)).is_some_and(|run| run.stop.is_some());
            if !stops && found.is_none_or(|task| task.state != TaskState::Pending) {
                broken.push(format!("P7: job {name}: task {task} is on the move, and neither stops nor waits"));
            }
        }
    }
    let listed = job.repairs.unhealthy.iter().filter(|entry| entry.cause != UnhealthyCause::Lost);
    let listed: BTreeSet<NodeId> = listed.filter_map(|entry| entry.node).collect();
    if listed != to_leave {
        broken.push(format!("P7: job {name} has to leave {to_leave:?}, and {listed:?} are on its list"));
    }
}

/// P4, P5, P6 for one job.
pub(crate) fn check_job_promises(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    check_repair(cell, job, broken);
    check_admission(cell, job, broken);
    check_spares(cell, job, broken);
    let closed = job.state != JobState::Active;
    if !matches!(job.state, JobState::Finished(_)) && cell.profiles.kind(job.spec.class) != Some(job.kind) {
        let (name, class) = (&job.spec.name, job.spec.class);
        broken.push(format!("job {name} is like {:?}, which class {class} is not", job.kind));
    }
    for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let label = format!("job {} group {}", job.spec.name, spec.name);
        if group.live > 0 && !group.started {
            broken.push(format!("P4: {label} holds {} tasks without having started", group.live));
        }
        let runs: Vec<&Run> = group.tasks.iter().filter_map(|task| cell.runs.get(task.run)).collect();
        if closed && runs.iter().any(|run| run.placed > job.version || run.stop.is_none()) {
            broken.push(format!("P6: {label} is {} and has a run that is not stopping", job.phase()));
        }
        if required_level(spec).is_some() {
            check_domain(cell, job, at, &runs, broken);
        }
    }
}

/// P5: every run that is not to stop stands in its group's domain, and groups placed together share one.
fn check_domain(cell: &Cell, job: &Job, at: usize, runs: &[&Run], broken: &mut Vec<String>) {
    let (group, spec) = (&job.groups[at], &job.spec.groups[at]);
    let label = format!("job {} group {}", job.spec.name, spec.name);
    if group.widened && (job.spec.repair.policy != ohm_model::RepairPolicy::Widen || group.domain.is_none()) {
        broken.push(format!("P5: {label} left its domain, and may not"));
    }
    let staying = runs.iter().filter(|run| run.stop.is_none());
    let outside = staying.filter(|run| cell.domain_key(job, at, run.node) != group.domain).count();
    if outside > 0 {
        broken.push(format!("P5: {outside} tasks of {label} stand outside its domain {:?}", group.domain));
    }
    if (group.live > 0) != group.domain.is_some() {
        broken.push(format!("P5: {label}: domain {:?} with {} live", group.domain, group.live));
    }
    let domains: BTreeSet<u32> = job.partners(at).filter_map(|other| job.groups[other].domain).collect();
    if domains.len() > 1 {
        broken.push(format!("P5: {label} and those placed with it stand in domains {domains:?}"));
    }
}

/// P8: what queues are charged is what their jobs hold; `direct` is what each queue's own jobs hold.
pub(crate) fn check_quota(cell: &Cell, direct: &BTreeMap<String, Amounts>, broken: &mut Vec<String>) {
    let mut again = cell.quota.clone();
    again.rebuild(&cell.resources, direct);
    for (kept, counted) in cell.quota.iter().zip(again.iter()) {
        if !kept.sums().eq(counted.sums()) {
            let name = &kept.spec.name;
            let used = |node: &QuotaNode| -> BTreeMap<&str, i64> {
                node.sums().map(|(column, usage, _)| (cell.resources.name(column), usage)).collect()
            };
            broken.push(format!("P8: queue {name}: {:?} charged, {:?} held", used(kept), used(counted)));
        }
    }
}
