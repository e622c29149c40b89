//! What jobs ask for and hold, summed by resource. A run holds what the shape asks for that it was placed with,
//! whatever its group has become since.

use crate::cell::Cell;
use crate::state::jobs::{Group, Job};
use crate::state::shapes::Shape;
use ohm_model::{Amounts, ResourceId, ShapeId};
use std::collections::BTreeMap;

impl Cell {
    /// What all tasks of `job` together ask for, by resource.
    pub(crate) fn whole_request(&self, job: &Job) -> Amounts {
        let groups = job.groups.iter().zip(&job.spec.groups);
        self.named(self.summed(groups.map(|(group, spec)| (group.shape, i64::from(spec.count)))))
    }

    /// What the live runs of `job` together hold, by resource.
    pub(crate) fn live_request(&self, job: &Job) -> Amounts {
        self.named(self.summed(job.groups.iter().flat_map(|group| self.live_shapes(group))))
    }

    /// What the spares of `job` are charged to its queue, by resource.
    pub fn spares_charged(&self, job: &Job) -> Amounts {
        self.named(self.summed(job.groups.iter().map(|group| (group.shape, i64::from(group.spares)))))
    }

    /// What `job` as a whole asks for beyond what its live runs hold. Below zero where they hold more: tasks beyond the
    /// count that still stop, and runs of former revisions.
    pub fn missing_request(&self, job: &Job) -> BTreeMap<ResourceId, i64> {
        let asked = job.groups.iter().zip(&job.spec.groups).map(|(group, spec)| (group.shape, i64::from(spec.count)));
        let live = job.groups.iter().flat_map(|group| self.live_shapes(group)).map(|(shape, count)| (shape, -count));
        self.summed(asked.chain(live))
    }

    /// The shapes that the live runs of `group` have, each with how many runs. Nothing is looked through while all of
    /// them have the shape of the group.
    fn live_shapes(&self, group: &Group) -> Vec<(ShapeId, i64)> {
        if group.reshaped == 0 {
            return vec![(group.shape, i64::from(group.live))];
        }
        let mut shapes: BTreeMap<ShapeId, i64> = BTreeMap::new();
        let live = group.tasks.iter().filter_map(|task| self.runs.get(task.run));
        live.for_each(|run| *shapes.entry(run.shape).or_insert(0) += 1);
        shapes.into_iter().collect()
    }

    fn summed(&self, shapes: impl Iterator<Item = (ShapeId, i64)>) -> BTreeMap<ResourceId, i64> {
        let mut sums = BTreeMap::new();
        for (shape, count) in shapes {
            if let Some(shape) = self.shapes.get(shape) {
                add_requests(&mut sums, shape, count);
            }
        }
        sums
    }

    fn named(&self, sums: BTreeMap<ResourceId, i64>) -> Amounts {
        sums.into_iter().map(|(resource, amount)| (self.resources.name(resource).to_string(), amount)).collect()
    }
}

/// Adds what `count` tasks of `shape` ask for.
pub(crate) fn add_requests(sums: &mut BTreeMap<ResourceId, i64>, shape: &Shape, count: i64) {
    for &(resource, request) in &shape.requests {
        let sum: &mut i64 = sums.entry(resource).or_insert(0);
        *sum = sum.saturating_add(request.saturating_mul(count));
    }
}
