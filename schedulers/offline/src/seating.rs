//! Seats what runs already: nodes join, and what stands on them is committed like any plan.
//!
//! So that it is judged by the job's own rules and not by what became of its node since, nodes that hold work join
//! twice: first with room for all of it, without taints and with labels that admit it, then as they are. Room below
//! zero counts as zero: a node never joins with less room than its work takes, so nothing is evicted for it.

use crate::devices::Devices;
use crate::flavors::flavors_of;
use crate::question::{AskedJob, Scene, add};
use crate::seats::{self, GroupSeats, Part};
use crate::standing::Standing;
use crate::world::{World, at_least};
use ohm_framework::PlannedJob;
use ohm_manifest::NodeDocument;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::resources::{Amounts, DEVICE_MILLI, PODS, is_extended};
use ohm_model::selector::Labels;
use ohm_model::{
    Command, Grain, GroupIndex, GroupSpec, Guard, JobGuard, JobId, NodeHealth, NodeId, NodeSpec, Operator, Outcome,
    Placement, RunRef, StopCause, TaskIndex,
};
use std::collections::{BTreeMap, BTreeSet};

/// Room enough for whatever is parked.
const PARKING: i64 = 1 << 50;

/// Registers all nodes and commits what runs on them already.
pub(crate) fn seat(world: &mut World, scene: &mut Scene, jobs: &mut [Standing]) {
    let mut all: Vec<Option<Vec<GroupSeats>>> = Vec::with_capacity(jobs.len());
    for (asked, standing) in scene.jobs.iter().zip(jobs.iter_mut()) {
        let (groups, gone) = if asked.stands.is_empty() { (None, 0) } else { seats::of_job(scene, asked) };
        standing.gone = gone;
        all.push(groups.filter(|_| standing.job.is_ok()));
    }
    let mut holding: BTreeSet<usize> = BTreeSet::new();
    for asked in scene.jobs.iter().filter(|asked| !asked.stands.is_empty()) {
        holding.extend(asked.stands.iter().filter_map(|allocation| scene.node_index.get(&allocation.node)));
    }
    register_first(world, scene, &all, &holding);
    let mut whole = Vec::with_capacity(all.len());
    // Those that gather their nodes come first: while nodes are gathered, other work would have left its domain.
    for (at, groups) in all.iter().enumerate().filter_map(|(at, groups)| Some((at, groups.as_ref()?))) {
        let apart = gather(world, scene, &scene.jobs[at], groups);
        if apart.is_empty() {
            whole.push((at, groups));
            continue;
        }
        seat_or_tell(world, scene, at, &mut jobs[at], groups);
        for spec in apart {
            let command = world.registration(spec);
            world.apply(command);
        }
    }
    // What reserved its quota first is placed first, and before what did later.
    let reserved_us = |at: usize| scene.jobs[at].stands.iter().map(|allocation| allocation.reserved_us).min();
    whole.sort_by_key(|(at, _)| reserved_us(*at));
    let mut last = None;
    for (at, groups) in whole {
        if last.replace(reserved_us(at)).is_some_and(|last| last != reserved_us(at)) {
            world.pass_time();
        }
        seat_or_tell(world, scene, at, &mut jobs[at], groups);
    }
    // What could not be committed takes its room all the same.
    for (at, _) in jobs.iter().enumerate().filter(|(_, standing)| standing.job.is_err()) {
        count_as_used(scene, at);
    }
    for driven in register_again(world, scene, &holding) {
        let owner = jobs.iter_mut().find(|standing| standing.job == Ok(driven));
        owner.into_iter().for_each(|standing| standing.lost += 1);
    }
    for (asked, standing) in scene.jobs.iter().zip(jobs.iter()) {
        if let Ok(job) = standing.job {
            begin_to_stop(world, asked, job);
        }
    }
}

/// Stops what is being stopped already, as far as a scheduler does: it takes its room until it has ended.
fn begin_to_stop(world: &mut World, asked: &AskedJob, job: JobId) {
    let mut evict = Vec::new();
    for allocation in asked.stands.iter().filter(|allocation| allocation.evicting) {
        let group = asked.spec.groups.iter().position(|group| group.name == allocation.group);
        let Some(node) = world.cell.nodes().find(&allocation.node) else { continue };
        let here = world.cell.runs().on_node(world.cell.nodes(), node).map(|(_, run)| run.run);
        let is_of = |run: &RunRef| run.task.job == job && Some(usize::from(run.task.group.0)) == group;
        evict.extend(here.filter(is_of).map(|run| (run, StopCause::Preempted)));
    }
    if evict.is_empty() {
        return;
    }
    let version = world.job(job).map(|found| found.version).unwrap_or_default();
    let guard = JobGuard { job, version, reserved: false };
    let planned = PlannedJob { evict, ..PlannedJob::placing(guard, Grain::AllOrNothing, Vec::new()) };
    world.commit(&planned);
}

/// Puts the nodes of a job whose slices are broken already into one domain of their level, so that the parts are
/// accepted as they stand. Returns the nodes as they were.
fn gather(world: &mut World, scene: &Scene, job: &AskedJob, groups: &[GroupSeats]) -> Vec<NodeSpec> {
    const GATHERED: &str = "gathered";
    let mut apart: BTreeMap<usize, NodeSpec> = BTreeMap::new();
    for (group, seats) in job.spec.groups.iter().zip(groups) {
        let levels = seats::broken_levels(scene, group, &seats.parts);
        for part in seats.parts.iter().filter(|_| !levels.is_empty()) {
            let name = &scene.nodes[part.node].spec.name;
            let record = world.cell.nodes().find(name).and_then(|node| world.cell.nodes().get(node));
            let Some(record) = record else { continue };
            let mut spec = (*record.spec).clone();
            apart.entry(part.node).or_insert_with(|| spec.clone());
            for level in levels.iter().filter(|level| *level != HOSTNAME_LABEL) {
                spec.labels.insert(level.clone(), GATHERED.to_string());
            }
            let command = world.registration(spec);
            world.apply(command);
        }
    }
    apart.into_values().collect()
}

fn seat_or_tell(world: &mut World, scene: &Scene, at: usize, standing: &mut Standing, groups: &[GroupSeats]) {
    if let Err(reason) = seat_job(world, scene, (&scene.jobs[at], standing), groups) {
        standing.job = Err(reason);
    }
}

fn task_amounts(group: &GroupSpec) -> Amounts {
    let mut amounts = group.requests.clone();
    amounts.insert(PODS.to_string(), 1);
    amounts
}

fn count_as_used(scene: &mut Scene, at: usize) {
    let job = &scene.jobs[at];
    for allocation in &job.stands {
        let group = job.spec.groups.iter().find(|group| group.name == allocation.group);
        if let (Some(group), Some(&node)) = (group, scene.node_index.get(&allocation.node)) {
            add(&mut scene.nodes[node].used, &task_amounts(group), allocation.count);
        }
    }
}

/// What is left of a node's room once others have taken theirs.
fn room(node: &NodeDocument) -> Amounts {
    let left = |(name, capacity): (&String, &i64)| {
        (name.clone(), (capacity - node.used.get(name).copied().unwrap_or(0)).max(0))
    };
    if node.used.is_empty() { node.spec.capacity.clone() } else { node.spec.capacity.iter().map(left).collect() }
}

/// All nodes join: those without work as they are, the others so that their work fits.
fn register_first(world: &mut World, scene: &mut Scene, all: &[Option<Vec<GroupSeats>>], holding: &BTreeSet<usize>) {
    let mut needs: BTreeMap<usize, (Amounts, Labels)> = BTreeMap::new();
    let seated = scene.jobs.iter().zip(all).filter_map(|(job, groups)| Some((job, groups.as_ref()?)));
    for (job, groups) in seated {
        for (group, seats) in job.spec.groups.iter().zip(groups) {
            let amounts = task_amounts(group);
            for part in seats.parts.iter().filter(|part| !is_scaffolded(group, part)) {
                let labels = || scene.nodes[part.node].spec.labels.clone();
                let (sum, labels) = needs.entry(part.node).or_insert_with(|| (Amounts::new(), labels()));
                add(sum, &amounts, part.count);
                admit(group, &scene.nodes[part.node].spec.name, labels);
            }
        }
    }
    let mut commands = Vec::with_capacity(scene.nodes.len());
    for (at, node) in scene.nodes.iter_mut().enumerate() {
        let mut spec = if holding.contains(&at) {
            let labels = needs.get_mut(&at).map(|(_, labels)| std::mem::take(labels));
            let labels = labels.unwrap_or_else(|| node.spec.labels.clone());
            let (name, address) = (node.spec.name.clone(), node.spec.address.clone());
            NodeSpec { name, labels, taints: Vec::new(), capacity: Amounts::new(), address }
        } else {
            // Nobody reads the rest of it again, and there may be very many.
            let spec = &mut node.spec;
            let (labels, taints) = (std::mem::take(&mut spec.labels), std::mem::take(&mut spec.taints));
            let (name, address) = (spec.name.clone(), std::mem::take(&mut spec.address));
            NodeSpec { name, labels, taints, capacity: Amounts::new(), address }
        };
        spec.capacity = room(node);
        if let Some((floor, _)) = needs.get(&at) {
            at_least(&mut spec.capacity, floor);
        }
        commands.push(world.registration(spec));
    }
    world.apply_all(commands);
}

/// Nodes that hold work are from here on what the documents say. What a taint drives away ends at once; returns the job
/// of each such run.
fn register_again(world: &mut World, scene: &Scene, holding: &BTreeSet<usize>) -> Vec<JobId> {
    let mut driven = Vec::new();
    for &at in holding {
        let node = &scene.nodes[at];
        let Some(id) = world.cell.nodes().find(&node.spec.name) else { continue };
        let spec = NodeSpec { capacity: room(node), ..node.spec.clone() };
        let mut capacity = spec.capacity.clone();
        at_least(&mut capacity, &world.taken(id));
        if capacity != spec.capacity {
            world.tight.push(spec.clone());
        }
        let command = world.registration(NodeSpec { capacity, ..spec });
        world.apply(command);
        driven.extend(world.end_stopping(|_| true));
    }
    driven
}

/// Lets `labels` admit `group`, as they did when its tasks were placed.
fn admit(group: &GroupSpec, name: &str, labels: &mut Labels) {
    for (key, value) in group.node_selector.iter().filter(|(key, _)| *key != HOSTNAME_LABEL) {
        labels.insert(key.clone(), value.clone());
    }
    if group.affinity.is_empty() || group.affinity.iter().any(|term| term.matches(name, labels)) {
        return;
    }
    for requirement in group.affinity.first().into_iter().flat_map(|term| &term.requirements) {
        let number = || requirement.values.first().and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
        let value = match requirement.operator {
            _ if requirement.matches(labels) => continue,
            Operator::In => requirement.values.first().cloned(),
            Operator::Exists => Some(String::new()),
            // No label is a negative number.
            Operator::Gt => Some(number().saturating_add(1).max(0).to_string()),
            Operator::Lt => (number() > 0).then(|| (number() - 1).to_string()),
            Operator::NotIn | Operator::DoesNotExist => None,
        };
        match value {
            Some(value) => labels.insert(requirement.key.clone(), value),
            None => labels.remove(&requirement.key),
        };
    }
}

/// Whether a parked part needs a node of its own: where devices, ports or a limit would not let it stand on the node
/// beside which it is parked.
fn is_scaffolded(group: &GroupSpec, part: &Part) -> bool {
    let crowds = group.most_on_node() < u32::MAX
        || !group.ports.is_empty()
        || group.requests.keys().any(|name| is_extended(name));
    part.parked && crowds
}

/// Commits what stands of one job, and ends what is only parked.
fn seat_job(
    world: &mut World,
    scene: &Scene,
    (asked, standing): (&AskedJob, &Standing),
    groups: &[GroupSeats],
) -> Result<(), String> {
    let Ok(job) = standing.job else { return Ok(()) };
    let flavors = flavors_of(world, scene, (job, asked), groups)?;
    let (mut rows, mut parked, mut scaffolds) = (Vec::new(), Vec::new(), Vec::new());
    let mut devices = Devices::default();
    for (at, (group, seats)) in standing.spec.groups.iter().zip(groups).enumerate() {
        let group_index = GroupIndex(at as u16);
        let mut first = 0;
        for part in &seats.parts {
            let hosts: Vec<(NodeId, u32)> = if is_scaffolded(group, part) {
                let hosts = scaffold(world, scene, group, part, scaffolds.len());
                scaffolds.extend(hosts.iter().map(|(node, _)| *node));
                hosts
            } else {
                let name = &scene.nodes[part.node].spec.name;
                world.cell.nodes().find(name).map(|node| (node, part.count)).into_iter().collect()
            };
            for (node, count) in hosts {
                let class = world.cell.nodes().class(node);
                let masks = devices.take(world, job, at, node, count);
                let (first_task, group) = (TaskIndex(first), group_index);
                rows.push(Placement { job, group, first: first_task, count, node, class, devices: masks });
                if part.parked {
                    parked.push((at, first, count));
                }
                first += count;
            }
        }
    }
    let version = world.job(job).map(|found| found.version).unwrap_or_default();
    let guard = JobGuard { job, version, reserved: false };
    let planned = PlannedJob { guard: Guard::Fits, flavors, ..PlannedJob::placing(guard, Grain::AllOrNothing, rows) };
    let verdict = world.commit(&planned);
    let conflict = verdict.as_ref().and_then(|verdict| verdict.conflicts.first().copied());
    if conflict.is_none() {
        end_parked(world, job, &parked);
    }
    for node in scaffolds {
        let name = world.cell.nodes().name(node).to_string();
        world.conclude(&name, NodeHealth::Lost);
        world.apply(Command::RemoveNode { name });
    }
    match conflict {
        None => Ok(()),
        Some(conflict) => {
            let place = conflict.node.map(|node| format!(" on node {}", world.cell.nodes().name(node)));
            let reason = conflict.reason.name();
            let place = place.unwrap_or_default();
            Err(format!("its Allocations break its own rules: {reason}{place}; what they take stays taken"))
        }
    }
}

fn end_parked(world: &mut World, job: JobId, parked: &[(usize, u32, u32)]) {
    let Some(found) = world.job(job) else { return };
    let mut runs = Vec::new();
    for &(group, first, count) in parked {
        let tasks = (first..first + count).filter_map(|task| found.groups.get(group)?.tasks.get(task as usize));
        let live = tasks.filter_map(|task| world.cell.runs().get(task.run));
        runs.extend(live.map(|run| (run.node, run.run)));
    }
    world.end(runs);
}

/// Nodes in the same domains as the one beside which a part is parked, with room for it.
fn scaffold(world: &mut World, scene: &Scene, group: &GroupSpec, part: &Part, number: usize) -> Vec<(NodeId, u32)> {
    let shares = group.requests.iter().filter(|(name, amount)| is_extended(name) && **amount % DEVICE_MILLI != 0);
    let share = shares.map(|(_, amount)| *amount).max();
    const DEVICES: i64 = 64;
    let by_devices = share.map_or(u32::MAX, |share| (DEVICES * (DEVICE_MILLI / share.max(1))).max(1) as u32);
    let by_ports = if group.ports.is_empty() { u32::MAX } else { 1 };
    let by_limit = group.most_on_node();
    let each = by_devices.min(by_ports).min(by_limit);
    let mut capacity: Amounts = group.requests.keys().map(|name| (name.clone(), PARKING)).collect();
    capacity.insert(PODS.to_string(), PARKING);
    if share.is_some() {
        let devices = group.requests.keys().filter(|name| is_extended(name));
        capacity.extend(devices.map(|name| (name.clone(), DEVICES * DEVICE_MILLI)));
    }
    let mut hosts = Vec::new();
    let mut left = part.count;
    while left > 0 {
        let mut names = (number + hosts.len()..).map(|number| format!("parked-{number}"));
        let Some(name) = names.find(|name| world.cell.nodes().find(name).is_none()) else { break };
        let mut labels = scene.nodes[part.node].spec.labels.clone();
        labels.remove(HOSTNAME_LABEL);
        admit(group, &name, &mut labels);
        let spec = NodeSpec { name, labels, taints: Vec::new(), capacity: capacity.clone(), address: String::new() };
        let command = world.registration(spec);
        let Outcome::Node { node, .. } = world.apply(command) else { break };
        let count = left.min(each);
        hosts.push((node, count));
        left -= count;
    }
    hosts
}
