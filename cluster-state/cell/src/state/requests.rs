//! What jobs are charged for and hold, summed by column. A run holds what the shape asks for that it was placed with,
//! whatever its group has become since.

use crate::cell::Cell;
use crate::state::flavors::Charges;
use crate::state::jobs::{Group, Job};
use crate::state::shapes::Shape;
use crate::state::subqueues::Charged;
use ohm_model::{GroupIndex, JobId, ResourceId, ShapeId};
use std::collections::BTreeMap;

/// What all tasks of `job` together ask for.
pub(crate) fn whole_request(cell: &Cell, job: &Job) -> Charges {
    let groups = job.groups.iter().zip(&job.spec.groups);
    summed(cell, groups.map(|(group, spec)| (group.shape, i64::from(spec.count))))
}

/// What the tasks of `job` that wait, be it for their back-off, ask for together.
pub(crate) fn waiting_request(cell: &Cell, job: &Job) -> Charges {
    let waiting = |group: &Group| i64::from(group.pending.len() + group.backing_off + group.held);
    summed(cell, job.groups.iter().map(|group| (group.shape, waiting(group))))
}

/// The same of so many tasks of each group, which wait and do not back off; of all that wait where nothing is said.
pub(crate) fn wanted_request(cell: &Cell, job: &Job, wanted: &[u32]) -> Charges {
    if wanted.is_empty() {
        return waiting_request(cell, job);
    }
    let groups = job.groups.iter().zip(wanted);
    summed(cell, groups.map(|(group, wanted)| (group.shape, i64::from(group.pending.len().min(*wanted)))))
}

/// For how many tasks of each group of `job` these rooms are; nothing where there are none.
pub(crate) fn tasks_of(job: &Job, rooms: impl Iterator<Item = (GroupIndex, u32)>) -> Vec<u32> {
    let mut tasks = Vec::new();
    for (group, count) in rooms {
        tasks.resize(job.groups.len(), 0u32);
        if let Some(tasks) = tasks.get_mut(usize::from(group.0)) {
            *tasks = tasks.saturating_add(count);
        }
    }
    tasks
}

/// What the live runs of `job` together hold.
pub(crate) fn live_request(cell: &Cell, job: &Job) -> Charges {
    summed(cell, job.groups.iter().flat_map(|group| live_shapes(cell, group)))
}

/// The shapes that the live runs of `group` have, each with how many runs. Nothing is looked through while all of
/// them have the shape of the group.
pub(crate) fn live_shapes(cell: &Cell, group: &Group) -> Vec<(ShapeId, i64)> {
    if group.reshaped == 0 {
        return vec![(group.shape, i64::from(group.live))];
    }
    let mut shapes: BTreeMap<ShapeId, i64> = BTreeMap::new();
    let live = group.tasks.iter().filter_map(|task| cell.runs.get(task.run));
    live.for_each(|run| *shapes.entry(run.shape).or_insert(0) += 1);
    shapes.into_iter().collect()
}

pub(crate) fn summed(cell: &Cell, shapes: impl Iterator<Item = (ShapeId, i64)>) -> Charges {
    let mut sums = Charges::new();
    for (shape, count) in shapes {
        if let Some(shape) = cell.shapes.get(shape) {
            add_charges(&mut sums, shape, count);
        }
    }
    sums
}

/// Adds what `count` tasks of `shape` are charged.
pub(crate) fn add_charges(sums: &mut Charges, shape: &Shape, count: i64) {
    for &(column, request) in &shape.charges {
        let sum: &mut i64 = sums.entry(column).or_insert(0);
        *sum = sum.saturating_add(request.saturating_mul(count));
    }
}

/// What each queue's own jobs are charged, from the jobs themselves.
pub(crate) fn direct_usage(cell: &Cell) -> BTreeMap<String, Charges> {
    let mut usage: BTreeMap<String, Charges> = BTreeMap::new();
    for job in cell.jobs.iter().filter(|job| !job.spec.queue.is_empty()) {
        let sums = usage.entry(job.spec.queue.clone()).or_default();
        for (column, amount) in charged(cell, job) {
            *sums.entry(column).or_insert(0) += amount;
        }
    }
    usage
}

/// What `job` holds of its queue: its reservation, or else what its live runs ask for; and its spares.
pub fn charged(cell: &Cell, job: &Job) -> Charges {
    let mut charged = match (job.reserved.is_empty(), job.live()) {
        (false, _) => job.reserved.clone(),
        (true, 0) => Charges::new(),
        (true, _) => live_request(cell, job),
    };
    if job.groups.iter().any(|group| group.spares > 0) {
        for (column, amount) in cell.spares_charged(job) {
            *charged.entry(column).or_insert(0) += amount;
        }
    }
    charged
}

/// What `job` holds of its queue, summed by resource.
pub(crate) fn resources_charged(cell: &Cell, job: &Job) -> Charged {
    by_resource(cell, &charged(cell, job))
}

/// Amounts of flavors, summed by resource.
pub(crate) fn by_resource(cell: &Cell, amounts: &Charges) -> Charged {
    let mut sums: BTreeMap<ResourceId, i64> = BTreeMap::new();
    for (column, amount) in amounts {
        let sum = sums.entry(cell.quota.columns.resource(*column)).or_insert(0);
        *sum = sum.saturating_add(*amount);
    }
    sums.into_iter().filter(|(_, amount)| *amount != 0).collect()
}

/// What each job holds of its queue, with the queue and the part of it.
pub(crate) fn charged_by_resource(cell: &Cell) -> Vec<(JobId, String, String, Charged)> {
    let of_queues = cell.jobs.iter().filter(|job| !job.spec.queue.is_empty());
    of_queues
        .map(|job| (job.id, job.spec.queue.clone(), job.spec.subqueue.clone(), resources_charged(cell, job)))
        .collect()
}
