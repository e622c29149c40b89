//! Groups get the shapes that their queue offers: see `state/offers.rs`.

use crate::apply::Tx;
use crate::apply::steps::job_spec::too_many_resources;
use crate::cell::Cell;
use crate::state::flavors::NO_FLAVOR;
use crate::state::jobs::{Group, Job, JobState};
use crate::state::offers::offers;
use crate::state::shapes::Shape;
use ohm_model::{GroupSpec, JobId, Refusal, ShapeId, split_job_name};
use std::sync::Arc;

/// The shape of `group` of the job called `job` without a flavor.
pub(crate) fn base_shape(cell: &mut Cell, job: &str, group: &GroupSpec) -> Result<Shape, Refusal> {
    let namespace = split_job_name(job).0;
    let shape = Shape::of(group, namespace, &mut cell.resources, &mut cell.quota.columns);
    shape.ok_or_else(|| too_many_resources("what it asks for"))
}

/// Offers the groups of `job` what its queue has now. What stands or is reserved keeps the shapes that it has; so do
/// others while they are offered.
pub(crate) fn offer(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    let is_flavored = tx.quota.get(&job.spec.queue).is_some_and(|queue| !queue.spec.resource_groups.is_empty());
    if !is_flavored && job.groups.iter().all(|group| group.offers.is_empty() && is_plain(tx, group)) {
        return;
    }
    leave_line(tx, id);
    for at in 0..job.groups.len() {
        let (shapes, is_offered) = shapes_of(tx, (id, at));
        let joined: Vec<ShapeId> = shapes.into_iter().map(|shape| tx.shapes.join(shape)).collect();
        let Some(&first) = joined.first() else { tx.stop("a shape of a group") };
        let keeps = !job.may_choose_flavors() || (is_offered && joined.contains(&job.groups[at].shape));
        let shape = if keeps { job.groups[at].shape } else { first };
        tx.shapes.join_again(shape, 1);
        let left = job.groups[at].offers.iter().copied().chain([job.groups[at].shape]);
        // What is not an offer is counted for the group alone.
        let left: Vec<ShapeId> = left.chain(joined.iter().copied().filter(|_| !is_offered)).collect();
        left.into_iter().for_each(|shape| drop(tx.shapes.leave(shape)));
        let group = &mut tx.job_mut(id).groups[at];
        (group.shape, group.offers) = (shape, if is_offered { joined } else { Vec::new() });
    }
    tx.touch_job(id);
}

/// Whether the group has no flavors and needs none.
fn is_plain(cell: &Cell, group: &Group) -> bool {
    let Some(shape) = cell.shapes.get(group.shape) else { return true };
    !shape.unsuited && shape.charges.iter().all(|(column, _)| cell.quota.columns.flavor(*column) == NO_FLAVOR)
}

/// Whether a group that waits has another shape than its queue offers by now: it kept that while it stood.
pub(crate) fn has_other_flavors(cell: &Cell, job: &Job) -> bool {
    let by_flavor = || cell.quota.get(&job.spec.queue).is_some_and(|queue| !queue.spec.resource_groups.is_empty());
    let unsuited = |group: &Group| cell.shapes.get(group.shape).is_some_and(|shape| shape.unsuited);
    let is_other = |group: &Group| !group.offers.contains(&group.shape) && !unsuited(group);
    job.groups.iter().any(is_other) && (by_flavor() || job.groups.iter().any(|group| !is_plain(cell, group)))
}

/// Takes `job` out of the line of its queue, and from those who have its quota, while what it asks for changes; it
/// comes back when the command is over.
pub(crate) fn leave_line(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    if tx.cell.turns.contains(&job) {
        // Those behind it may be first by the time it comes back.
        tx.free_quota(&job.spec.queue);
    }
    tx.cell.turns.leave(&job, &tx.cell.shapes);
    tx.cell.turns.let_go(&job);
}

/// Nothing is offered to the groups of `job` any more.
pub(crate) fn clear_offers(tx: &mut Tx<'_>, id: JobId) {
    if tx.job(id).groups.iter().all(|group| group.offers.is_empty()) {
        return;
    }
    let offers: Vec<ShapeId> =
        tx.job_mut(id).groups.iter_mut().flat_map(|group| std::mem::take(&mut group.offers)).collect();
    offers.into_iter().for_each(|shape| drop(tx.shapes.leave(shape)));
}

/// The shapes that the queue offers to a group, and true; where it names no flavors, or none suits, the one that the
/// group has then.
pub(crate) fn shapes_of(tx: &mut Tx<'_>, (id, at): (JobId, usize)) -> (Vec<Shape>, bool) {
    let job = Arc::clone(tx.job(id));
    let Ok(base) = base_shape(tx.cell, &job.spec.name, &job.spec.groups[at]) else {
        tx.stop("the resources of a group")
    };
    let queue =
        tx.quota.get(&job.spec.queue).map(|queue| &queue.spec).filter(|queue| !queue.resource_groups.is_empty());
    let Some(queue) = queue else { return (vec![base], false) };
    match offers(tx, queue, (&job, at), &base) {
        Ok(shapes) => (shapes, true),
        Err(_) => (vec![Shape { charges: Vec::new(), unsuited: true, ..base }], false),
    }
}

/// Offers all jobs of a queue what it has now.
pub(crate) fn offer_all(tx: &mut Tx<'_>, of: impl Fn(&str) -> bool) {
    let goes_on = |job: &Job| !matches!(job.state, JobState::Finished(_));
    let jobs = tx.jobs.iter().filter(|job| of(&job.spec.queue) && goes_on(job));
    let jobs: Vec<JobId> = jobs.map(|job| job.id).collect();
    jobs.into_iter().for_each(|job| offer(tx, job));
}
