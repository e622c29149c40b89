//! P10, the part that a state alone can show: once everything is quiet, no pending job fits. An independent, plain
//! scan: it looks at each node and each hard constraint by itself and shares nothing with the planners.

use crate::history::Broken;
use crate::p10_witness::fits_whole;
use ohm_cell::{Cell, Job, JobState, Shape, Standing, TaskState};
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{GroupIndex, JobId, NodeId, ResourceId, TopologyMode};
use std::collections::BTreeMap;

/// What live runs ask for, by node and resource: counted from the runs, never read from a sum that the cell keeps.
pub(crate) type Used = BTreeMap<(NodeId, ResourceId), i64>;

/// A job that waits although it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The job.
    pub job: JobId,
    /// What it waits for, and after how many attempts: unchanged between two looks, it has waited all the while.
    pub attempts: u64,
    /// In words.
    pub broken: Broken,
}

/// Every job that waits although it fits by itself and its queue has room for it. Whether a job of several groups or
/// with slices fits is not a question about single nodes: for those a witness is looked for.
pub fn stuck_jobs(cell: &Cell) -> Vec<Stuck> {
    let waits = |job: &&std::sync::Arc<Job>| job.state == JobState::Active && job.pending() > 0;
    let mut stuck: Vec<Stuck> = cell.jobs().iter().flat_map(|job| back_offs(job)).collect();
    stuck.extend(cell.jobs().iter().filter_map(|job| unreserved(cell, job)));
    stuck.extend(cell.jobs().iter().filter_map(|job| unmoved(cell, job)));
    if !cell.jobs().iter().any(|job| waits(&job)) {
        return stuck;
    }
    let used = used_by_runs(cell);
    // What waits for its checks is not to be placed yet.
    let may_stand = |job: &&std::sync::Arc<Job>| cell.standing(job).may_place();
    for job in cell.jobs().iter().filter(waits).filter(may_stand) {
        if job.groups.len() > 1 || !job.spec.groups[0].slices().is_empty() {
            if fits_whole(cell, job, &used) {
                let what = format!("{} job {} waits; all its groups fit", job.spec.class.name(), job.spec.name);
                stuck.push(Stuck { job: job.id, attempts: attempts_of(job), broken: Broken::new("P10", what) });
            }
            continue;
        }
        let (group, spec) = (&job.groups[0], &job.spec.groups[0]);
        let pending = group.pending.len();
        // A gang below its minimum gets back what it misses all at once, whatever took it.
        let needed = match group.started {
            true if job.is_below_minimum() => group.needed(spec).saturating_sub(group.live_within_count()).min(pending),
            true => 1,
            false => group.needed(spec),
        };
        // Those in back-off are not to be placed yet, and the others wait for them.
        let room = best_room(cell, job, &used).min(queue_room(cell, job)).min(pending);
        if room >= needed.max(1) {
            let attempts = attempts_of(job);
            let what = format!(
                "{} job {} (queue \"{}\") waits with {pending} pending tasks; {needed} are needed and {room} fit: {:?}",
                job.spec.class.name(),
                job.spec.name,
                job.spec.queue,
                spec.requests,
            );
            stuck.push(Stuck { job: job.id, attempts, broken: Broken::new("P10", what) });
        }
    }
    stuck
}

/// A job of one group that has to leave nodes, that nothing else keeps busy, and for which there is room elsewhere.
fn unmoved(cell: &Cell, job: &Job) -> Option<Stuck> {
    let leaving = cell.runs_to_move(job).len() as u32;
    let plain = job.groups.len() == 1 && job.spec.groups[0].slices().is_empty();
    let settled = job.pending() == 0 && job.groups[0].stopping == 0;
    if leaving == 0 || !plain || !settled || !cell.standing(job).may_place() {
        return None;
    }
    let room = best_room(cell, job, &used_by_runs(cell));
    let what = format!(
        "{} job {} has {leaving} tasks to move, and there is room for {room}",
        job.spec.class.name(),
        job.spec.name
    );
    let attempts = 1 << 62 | attempts_of(job);
    (room >= leaving).then(|| Stuck { job: job.id, attempts, broken: Broken::new("P10", what) })
}

fn attempts_of(job: &Job) -> u64 {
    job.groups.iter().flat_map(|group| group.tasks.iter()).map(|task| u64::from(task.incarnation.0)).sum()
}

/// A job whose queue has checks waits for its quota although all of it is there, or reserved already.
fn unreserved(cell: &Cell, job: &Job) -> Option<Stuck> {
    let stands = job.live() > 0 || job.pending() == 0;
    if job.state != JobState::Active || stands || cell.standing(job) != Standing::Unreserved {
        return None;
    }
    let mut asked: BTreeMap<&str, i64> = BTreeMap::new();
    for group in &job.spec.groups {
        for (name, amount) in group.requests.iter().map(|(name, amount)| (name.as_str(), *amount)).chain([("pods", 1)])
        {
            *asked.entry(name).or_insert(0) += amount * i64::from(group.count);
        }
    }
    let fits = |(name, amount): (&&str, &i64)| {
        let column = cell.resources().find(name);
        let available = column.and_then(|column| cell.quota().available(&job.spec.queue, column));
        available.is_none_or(|available| available >= *amount)
    };
    let what = format!("job {} (queue \"{}\") waits for quota that is there", job.spec.name, job.spec.queue);
    let attempts = u64::from(job.admission.rounds) << 32;
    let is_reserved = !job.reserved.is_empty();
    (is_reserved || asked.iter().all(fits)).then(|| Stuck { job: job.id, attempts, broken: Broken::new("P10", what) })
}

/// Tasks in back-off that failed, or that a node would not start, at most three times wait no longer than four seconds:
/// one that is seen twice, further apart than that and after no further attempt, has been forgotten.
fn back_offs(job: &Job) -> Vec<Stuck> {
    let mut stuck = Vec::new();
    if job.state != JobState::Active {
        return stuck;
    }
    for (group, found) in job.groups.iter().enumerate() {
        let short =
            |task: &ohm_cell::Task| task.state == TaskState::BackingOff && task.failures.max(task.refusals) <= 3;
        for (at, task) in found.tasks.iter().enumerate().filter(|(_, task)| short(task)) {
            let what = format!("the back-off of task {group}/{at} of {} does not end", job.spec.name);
            // The top bit keeps this apart from the sums of attempts by which whole jobs are told apart.
            let attempts = 1 << 63 | (group as u64) << 48 | (at as u64) << 24 | u64::from(task.incarnation.0);
            stuck.push(Stuck { job: job.id, attempts, broken: Broken::new("P10", what) });
        }
    }
    stuck
}

/// How many tasks of the job's one group fit now; for a required topology, in the best domain.
fn best_room(cell: &Cell, job: &Job, used: &Used) -> u32 {
    let Some(shape) = cell.shape_of(job, 0) else { return 0 };
    let (group, request) = (&job.groups[0], &job.spec.groups[0].topology);
    let topology = cell.topologies().get(&request.topology);
    // A group that leaves with everything may go anywhere, but that is not looked for.
    // A group that stands is bound to its domain, or to the one around it where a repair may go that far.
    let bound = job.binding_level(0).and_then(|(_, level)| topology?.level(level));
    let wider = job.widening_level(0).and_then(|level| topology?.level(level));
    let mut by_domain: BTreeMap<u32, u32> = BTreeMap::new();
    for (node, _) in cell.nodes().iter() {
        let key = match (request.mode, topology) {
            (TopologyMode::Required, Some(topology)) => bound.and_then(|level| topology.key_of(node, level)),
            (TopologyMode::Required, None) => None,
            (TopologyMode::None, _) => Some(0),
            // Nodes outside the topology do not count.
            (_, Some(topology)) => topology.key_of(node, topology.spec.levels.len() - 1).map(|_| 0),
            (_, None) => None,
        };
        let Some(mut key) = key else { continue };
        if let (TopologyMode::Required, Some(fixed)) = (request.mode, group.domain)
            && fixed != key
        {
            let around = |domain| topology?.key_above(bound?, domain, wider?);
            if around(fixed).is_none() || around(fixed) != around(key) {
                continue;
            }
            key = fixed;
        }
        *by_domain.entry(key).or_insert(0) += room_on(cell, job, shape, node, used);
    }
    by_domain.into_values().max().unwrap_or(0)
}

/// What live runs use, and those that came back with their nodes and live on.
pub(crate) fn used_by_runs(cell: &Cell) -> Used {
    let mut used = Used::new();
    for (node, _) in cell.nodes().iter() {
        let live = cell.runs().on_node(cell.nodes(), node).map(|(_, run)| run.shape);
        let back = cell.kept().back_on(node).filter_map(|run| cell.kept().get(run)).map(|kept| kept.shape);
        for shape in live.chain(back).filter_map(|shape| cell.shapes().get(shape)) {
            for &(resource, request) in &shape.requests {
                *used.entry((node, resource)).or_insert(0) += request;
            }
        }
    }
    used
}

/// How many tasks of the job's one group its queue lets in.
fn queue_room(cell: &Cell, job: &Job) -> u32 {
    let (queue, Some(shape)) = (job.spec.queue.as_str(), cell.shape_of(job, 0)) else { return 0 };
    if queue.is_empty() || !job.reserved.is_empty() {
        return u32::MAX;
    }
    let room = |&(resource, request): &(ResourceId, i64)| {
        let available = cell.quota().available(queue, resource)?;
        Some((available / request.max(1)).clamp(0, i64::from(u32::MAX)) as u32)
    };
    shape.requests.iter().filter_map(room).min().unwrap_or(u32::MAX)
}

fn room_on(cell: &Cell, job: &Job, shape: &Shape, node: NodeId, used: &Used) -> u32 {
    if !cell.nodes().is_schedulable(node) || !cell.admits(job.groups[0].shape, node) {
        return 0;
    }
    let free = |resource: ResourceId| {
        let used = used.get(&(node, resource)).copied().unwrap_or(0);
        cell.nodes().capacity(node, resource) - used - cell.held_from(job, GroupIndex(0), node, resource)
    };
    // What is reserved for tasks of its own that move is not for the others.
    let own = if job.groups[0].started { cell.room_for_moving(job.id, GroupIndex(0), node) } else { 0 };
    let room = shape.requests.iter().map(|&(resource, request)| free(resource) / request).min().unwrap_or(0).max(0);
    let mut room = (room - i64::from(own)).max(0);
    if let Some(record) = cell.nodes().get(node) {
        if !shape.ports.is_empty() {
            let is_held = |port: &u16| cell.is_port_held(job.id, GroupIndex(0), node, *port);
            let taken = shape.ports.iter().any(|port| record.ports.contains(port) || is_held(port));
            room = room.min(i64::from(!taken));
        }
        for &(resource, request) in &shape.devices {
            if let Some(bank) = record.bank(resource) {
                // Which devices what is held would take is not known.
                if cell.held_from(job, GroupIndex(0), node, resource) > 0 {
                    return 0;
                }
                let present = bank.free_milli.iter().take(bank.present as usize).map(|free| i64::from(*free));
                room = room.min(match request < DEVICE_MILLI {
                    true => present.map(|free| free / request).sum(),
                    false => present.filter(|free| *free == DEVICE_MILLI).count() as i64 / (request / DEVICE_MILLI),
                });
            }
        }
    }
    if shape.max_per_node > 0 {
        let standing = cell.standing_on(job.id, GroupIndex(0), node);
        room = room.min(i64::from(shape.max_per_node.saturating_sub(standing)));
    }
    room as u32
}
