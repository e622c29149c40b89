//! Makes a cell stand as the documents say, by commands alone.
//!
//! What runs already is committed like any plan. So that it is judged by the job's own rules and not by what became of
//! its node since, nodes that hold work join twice: first with room for all of it, without taints and with labels that
//! admit it, then as they are. Room below zero counts as zero: a node never joins with less room than its work takes,
//! so nothing is evicted for it.

use crate::answer::Totals;
use crate::question::{PlanError, Scene, add};
use crate::seats::{self, GroupSeats, Part};
use crate::world::World;
use ohm_framework::PlannedJob;
use ohm_manifest::NodeDocument;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::resources::{Amounts, DEVICE_MILLI, PODS, is_extended};
use ohm_model::selector::Labels;
use ohm_model::{
    Command, Grain, GroupIndex, GroupSpec, Guard, JobGuard, JobId, JobSpec, NodeHealth, NodeId, NodeSpec, Operator,
    Outcome, Placement, QueueSpec, TaskIndex,
};
use std::collections::{BTreeMap, BTreeSet};

/// Room enough for whatever is parked.
const PARKING: i64 = 1 << 50;

/// A job as it stands before anything is planned.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) spec: JobSpec,
    pub(crate) asked: bool,
    /// Its key, or why the cell does not take it.
    pub(crate) job: Result<JobId, String>,
    /// How many tasks stood according to the files.
    pub(crate) stood: u32,
    /// How many of them lost their node.
    pub(crate) lost: u32,
    /// How many of them leave a node that is drained.
    pub(crate) drained: u32,
}

/// What documents say about rooms, for sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    /// Capacity and what others take, by node.
    by_node: BTreeMap<String, (Amounts, Amounts)>,
}

impl Rooms {
    /// What the nodes of the cell have, and what is taken of it.
    pub(crate) fn totals(&self, world: &World) -> Totals {
        let (nodes, names) = (world.cell.nodes(), world.cell.resources());
        let mut totals = Totals::default();
        let columns: Vec<_> = (0..names.len() as u16).map(ohm_model::ResourceId).collect();
        let mut sums = vec![(0i64, 0i64); columns.len()];
        for (node, record) in nodes.iter() {
            let Some((capacity, used)) = self.by_node.get(&record.spec.name) else { continue };
            let mut is_used = nodes.run_count(node) > 0;
            for (column, sum) in columns.iter().zip(&mut sums) {
                let name = names.name(*column);
                let others = used.get(name).copied().unwrap_or(0);
                is_used |= others > 0;
                let taken = others.saturating_add(nodes.capacity(node, *column) - nodes.free(node, *column));
                sum.0 = sum.0.saturating_add(capacity.get(name).copied().unwrap_or(0));
                sum.1 = sum.1.saturating_add(taken);
            }
            totals.nodes += 1;
            totals.nodes_used += u32::from(is_used);
        }
        for (column, (capacity, taken)) in columns.into_iter().zip(sums) {
            totals.add(names.name(column), taken, capacity);
        }
        totals
    }
}

/// The cell as the documents describe it.
pub(crate) struct Setting {
    pub(crate) world: World,
    pub(crate) jobs: Vec<Standing>,
    pub(crate) rooms: Rooms,
    pub(crate) before: Totals,
}

/// Makes the cell of `scene`; nodes have failed and are drained afterwards as it says.
pub(crate) fn of(mut scene: Scene) -> Result<Setting, PlanError> {
    let mut world = World::new();
    put_topologies(&mut world, &scene)?;
    put_queues(&mut world, &scene, true)?;
    let mut jobs = submit(&mut world, &scene);
    seat(&mut world, &mut scene, &mut jobs);
    put_queues(&mut world, &scene, false)?;
    let states = scene.nodes.iter().filter(|node| !node.ready).map(|node| node.spec.name.clone()).collect::<Vec<_>>();
    states.iter().for_each(|name| world.conclude(name, NodeHealth::Suspect));
    let cordoned = scene.nodes.iter().filter(|node| node.unschedulable);
    let cordon = |node: &NodeDocument| Command::CordonNode { name: node.spec.name.clone(), cordoned: true };
    world.apply_all(cordoned.map(cordon).collect());
    let mut rooms = Rooms::default();
    for node in &mut scene.nodes {
        let amounts = (std::mem::take(&mut node.spec.capacity), std::mem::take(&mut node.used));
        rooms.by_node.insert(std::mem::take(&mut node.spec.name), amounts);
    }
    let before = rooms.totals(&world);
    lose(&mut world, &scene, &mut jobs);
    Ok(Setting { world, jobs, rooms, before })
}

fn put_topologies(world: &mut World, scene: &Scene) -> Result<(), PlanError> {
    for (origin, topology) in &scene.topologies {
        world.try_apply(Command::PutTopology(topology.clone())).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: "spec",
            problem: refusal.to_string(),
        })?;
    }
    Ok(())
}

/// Puts the queues; `open` leaves their limits away, so that what runs already is not judged by them.
fn put_queues(world: &mut World, scene: &Scene, open: bool) -> Result<(), PlanError> {
    for (origin, queue) in &scene.queues {
        let (nominal, borrowing_limit) = match open {
            true => (Amounts::new(), Amounts::new()),
            false => (queue.nominal.clone(), queue.borrowing_limit.clone()),
        };
        let spec = QueueSpec { nominal, borrowing_limit, ..queue.clone() };
        world.try_apply(Command::PutQueue(spec)).map_err(|refusal| PlanError::Document {
            origin: origin.clone(),
            field: if queue.is_cohort { "spec.parent" } else { "spec.cohort" },
            problem: refusal.to_string(),
        })?;
    }
    Ok(())
}

fn submit(world: &mut World, scene: &Scene) -> Vec<Standing> {
    let standing = |job: &crate::question::AskedJob| {
        let mut spec = job.spec.clone();
        // What runs is not suspended, whatever the file says.
        spec.suspended &= job.stands.is_empty();
        let accepted = world.submit(spec).map_err(|refusal| refusal.to_string());
        let stood = job.stands.iter().map(|allocation| allocation.count).fold(0u32, u32::saturating_add);
        Standing { spec: job.spec.clone(), asked: job.asked, job: accepted, stood, lost: 0, drained: 0 }
    };
    scene.jobs.iter().map(standing).collect()
}

/// Registers all nodes and commits what runs on them already.
fn seat(world: &mut World, scene: &mut Scene, jobs: &mut [Standing]) {
    let mut all: Vec<Option<Vec<GroupSeats>>> = Vec::with_capacity(jobs.len());
    for (asked, standing) in scene.jobs.iter().zip(jobs.iter_mut()) {
        let (groups, gone) = if asked.stands.is_empty() { (None, 0) } else { seats::of_job(scene, asked) };
        standing.lost = gone;
        all.push(groups.filter(|_| standing.job.is_ok()));
    }
    let mut holding: BTreeSet<usize> = BTreeSet::new();
    for asked in scene.jobs.iter().filter(|asked| !asked.stands.is_empty()) {
        holding.extend(asked.stands.iter().filter_map(|allocation| scene.node_index.get(&allocation.node)));
    }
    register_first(world, scene, &all, &holding);
    for (at, groups) in all.iter().enumerate() {
        let Some(groups) = groups else { continue };
        if let Err(reason) = seat_job(world, scene, &jobs[at], groups) {
            jobs[at].job = Err(reason);
        }
    }
    // What could not be committed takes its room all the same.
    for at in 0..jobs.len() {
        if jobs[at].job.is_err() {
            count_as_used(scene, at);
        }
    }
    register_again(world, scene, &holding);
    world.end_stopping();
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

fn at_least(room: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        let entry = room.entry(name.clone()).or_insert(0);
        *entry = (*entry).max(*amount);
    }
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
                admit(group, labels);
            }
        }
    }
    let mut commands = Vec::with_capacity(scene.nodes.len());
    for (at, node) in scene.nodes.iter().enumerate() {
        let mut spec = NodeSpec { capacity: room(node), ..without_capacity(&node.spec) };
        if holding.contains(&at) {
            spec.taints.clear();
            if let Some((floor, labels)) = needs.remove(&at) {
                at_least(&mut spec.capacity, &floor);
                spec.labels = labels;
            }
        }
        commands.push(world.registration(spec));
    }
    world.apply_all(commands);
}

fn without_capacity(spec: &NodeSpec) -> NodeSpec {
    NodeSpec {
        name: spec.name.clone(),
        labels: spec.labels.clone(),
        taints: spec.taints.clone(),
        capacity: Amounts::new(),
        address: spec.address.clone(),
    }
}

/// Nodes that hold work are from here on what the documents say.
fn register_again(world: &mut World, scene: &Scene, holding: &BTreeSet<usize>) {
    for &at in holding {
        let node = &scene.nodes[at];
        let Some(id) = world.cell.nodes().find(&node.spec.name) else { continue };
        let mut spec = NodeSpec { capacity: room(node), ..without_capacity(&node.spec) };
        at_least(&mut spec.capacity, &taken(world, id));
        let command = world.registration(spec);
        world.apply(command);
    }
}

/// What runs take on a node, by resource.
pub(crate) fn taken(world: &World, node: NodeId) -> Amounts {
    let (nodes, names) = (world.cell.nodes(), world.cell.resources());
    let columns = (0..names.len() as u16).map(ohm_model::ResourceId);
    let amounts =
        columns.map(|column| (names.name(column).to_string(), nodes.capacity(node, column) - nodes.free(node, column)));
    amounts.filter(|(_, amount)| *amount > 0).collect()
}

/// Lets `labels` admit `group`, as they did when its tasks were placed.
fn admit(group: &GroupSpec, labels: &mut Labels) {
    for (key, value) in group.node_selector.iter().filter(|(key, _)| *key != HOSTNAME_LABEL) {
        labels.insert(key.clone(), value.clone());
    }
    if group.affinity.is_empty() || group.affinity.iter().any(|term| term.matches(labels)) {
        return;
    }
    for requirement in group.affinity.first().into_iter().flat_map(|term| &term.requirements) {
        let number = || requirement.values.first().and_then(|value| value.parse::<i64>().ok()).unwrap_or(0);
        let value = match requirement.operator {
            _ if requirement.matches(labels) => continue,
            Operator::In => requirement.values.first().cloned(),
            Operator::Exists => Some(String::new()),
            Operator::Gt => Some(number().saturating_add(1).to_string()),
            Operator::Lt => Some(number().saturating_sub(1).to_string()),
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
    let crowds =
        group.max_per_node > 0 || !group.ports.is_empty() || group.requests.keys().any(|name| is_extended(name));
    part.parked && crowds
}

/// Commits what stands of one job, and ends what is only parked.
fn seat_job(world: &mut World, scene: &Scene, standing: &Standing, groups: &[GroupSeats]) -> Result<(), String> {
    let Ok(job) = standing.job else { return Ok(()) };
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
    let planned = PlannedJob { guard: Guard::Fits, ..PlannedJob::placing(guard, Grain::AllOrNothing, rows) };
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
    let by_limit = if group.max_per_node == 0 { u32::MAX } else { group.max_per_node };
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
        // No document may hold this name: it begins with a space.
        let name = format!(" parked {} {}", number + hosts.len(), group.name);
        let mut labels = scene.nodes[part.node].spec.labels.clone();
        labels.remove(HOSTNAME_LABEL);
        admit(group, &mut labels);
        let spec = NodeSpec { name, labels, taints: Vec::new(), capacity: capacity.clone(), address: String::new() };
        let command = world.registration(spec);
        let Outcome::Node { node, .. } = world.apply(command) else { break };
        let count = left.min(each);
        hosts.push((node, count));
        left -= count;
    }
    hosts
}

/// Devices given out within one job, node by node.
#[derive(Default)]
struct Devices {
    free: BTreeMap<(NodeId, ohm_model::ResourceId), Vec<i64>>,
}

impl Devices {
    /// Masks for `count` tasks of a group: for each task one per device resource. Which devices they really hold is in
    /// no document; as few devices as possible are broken.
    fn take(&mut self, world: &World, job: JobId, group: usize, node: NodeId, count: u32) -> Vec<u64> {
        let shape = world.job(job).and_then(|found| world.cell.shape_of(found, group));
        let Some(shape) = shape.filter(|shape| !shape.devices.is_empty()) else { return Vec::new() };
        let mut masks = Vec::with_capacity(count as usize * shape.devices.len());
        for _ in 0..count {
            for &(resource, request) in &shape.devices {
                let free = self.free.entry((node, resource)).or_insert_with(|| {
                    let bank = world.cell.nodes().get(node).and_then(|record| record.bank(resource));
                    let free = bank.map(|bank| &bank.free_milli[..bank.present as usize]);
                    free.unwrap_or(&[]).iter().map(|milli| i64::from(*milli)).collect()
                });
                masks.push(take_devices(free, request));
            }
        }
        masks
    }
}

/// Takes one task's devices; too few are noticed at commit.
fn take_devices(free: &mut [i64], request: i64) -> u64 {
    let (number, each) = if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) };
    let mut mask = 0;
    for _ in 0..number {
        let fits = free.iter().enumerate().filter(|(at, rest)| mask >> at & 1 == 0 && **rest >= each);
        let Some((at, _)) = fits.min_by_key(|(at, rest)| (**rest, *at)) else { break };
        free[at] -= each;
        mask |= 1u64 << at;
    }
    mask
}

/// Takes away the nodes that fail, and empties those that are drained.
fn lose(world: &mut World, scene: &Scene, jobs: &mut [Standing]) {
    let mut counts: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
    let count = |world: &World, node: NodeId| {
        let runs = world.cell.runs().on_node(world.cell.nodes(), node);
        runs.map(|(_, run)| run.run.task.job).collect::<Vec<_>>()
    };
    for name in &scene.fail {
        let Some(node) = world.cell.nodes().find(name) else { continue };
        count(world, node).into_iter().for_each(|job| counts.entry(job).or_default().0 += 1);
        world.conclude(name, NodeHealth::Lost);
        world.apply(Command::RemoveNode { name: name.clone() });
    }
    let drained: Vec<NodeId> = scene.drain.iter().filter_map(|name| world.cell.nodes().find(name)).collect();
    let cordon = |name: &String| Command::CordonNode { name: name.clone(), cordoned: true };
    world.apply_all(scene.drain.iter().map(cordon).collect());
    for node in drained {
        count(world, node).into_iter().for_each(|job| counts.entry(job).or_default().1 += 1);
        world.end_all_on(node);
    }
    for standing in jobs {
        let (lost, drained) = standing.job.as_ref().ok().and_then(|job| counts.get(job)).copied().unwrap_or_default();
        standing.lost += lost;
        standing.drained += drained;
    }
}
