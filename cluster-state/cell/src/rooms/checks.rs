//! Which checks of its queue a job has to pass, and where its admission stands by them.
//!
//! A check may be for some flavors only: then it is asked for jobs that have one of them. The flavors of a job are
//! those of the shapes of its groups. A job of which nothing stands or is reserved may still choose: it stands as well
//! as the best of its offers lets it, and the judge looks at what a transaction chooses for it. Nothing else reads the
//! checks of a queue to tell what a job waits for.

use crate::cell::Cell;
use crate::rooms::stops::held_back;
use crate::state::admission::Standing;
use crate::state::jobs::{Group, Job};
use crate::state::quota::QueueId;
use ohm_model::{AdmissionCheck, QueueSpec, ShapeId};
use ohm_stdx::bug::{self, Bug};

/// Shapes of a group that count.
type ShapesOf = fn(&Group) -> &[ShapeId];

/// The checks of its queue that `job` has to pass with the flavors that it has, in the order of the queue.
pub fn checks_of<'c>(cell: &'c Cell, job: &'c Job, queue: &'c QueueSpec) -> impl Iterator<Item = &'c AdmissionCheck> {
    queue.admission_checks.iter().filter(|check| is_asked(cell, job, check, own))
}

/// Whether some check of `queue` is for what has this shape.
pub(crate) fn is_checked(cell: &Cell, queue: &QueueSpec, shape: ShapeId) -> bool {
    queue.admission_checks.iter().any(|check| is_for(cell, check, shape))
}

/// Whether some check of `queue` is for what has this shape, and its class is not known: nobody can be asked.
pub fn asks_unknown(cell: &Cell, queue: &QueueSpec, shape: ShapeId) -> bool {
    queue.admission_checks.iter().any(|check| is_unknown(cell, check) && is_for(cell, check, shape))
}

/// Whether a reservation changes anything for `job`: its quota is not reserved, or it is and its checks were not asked,
/// because its queue had none for it by then, or the job ran.
pub(crate) fn reserves(cell: &Cell, job: &Job) -> bool {
    job.reserved.is_empty() || standing_as_is(cell, job) == Standing::Unreserved
}

/// Whether a reservation may be made for `job` now, with the flavors that it has.
pub(crate) fn may_reserve(cell: &Cell, job: &Job) -> bool {
    matches!(standing_as_is(cell, job), Standing::Free | Standing::Unreserved)
}

/// As [`Cell::standing`], with the flavors that the job has, be it that it could choose others.
pub fn standing_as_is(cell: &Cell, job: &Job) -> Standing {
    standing_in(cell, job, cell.quota.find(&job.spec.queue))
}

/// The same, where the queue of the job has been looked up.
pub(crate) fn standing_in(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Standing {
    kept_back(cell, job, queue).unwrap_or_else(|| admission_in(cell, job, queue))
}

/// What keeps `job` back, whatever its checks say: the stop policy of its queue, or that it was not ready in time.
fn kept_back(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Option<Standing> {
    let held = held_back(cell, job, queue).map(Standing::Held);
    held.or_else(|| job.readiness.backs_off_until().map(Standing::TimedOut))
}

/// The same, whatever keeps it back.
pub(crate) fn admission_in(cell: &Cell, job: &Job, queue: Option<QueueId>) -> Standing {
    admission_by(cell, job, queue, own)
}

impl Cell {
    /// Where the admission of `job` stands; while it may choose its flavors, with those that let it go on best. What
    /// runs already is not asked again because its queue has got checks.
    pub fn standing(&self, job: &Job) -> Standing {
        let queue = self.quota.find(&job.spec.queue);
        kept_back(self, job, queue).unwrap_or_else(|| admission_by(self, job, queue, to_choose(job)))
    }
}

/// Where the admission stands when each group has the best of these shapes.
fn admission_by(cell: &Cell, job: &Job, queue: Option<QueueId>, shapes: ShapesOf) -> Standing {
    if let Some(round) = &job.admission.round {
        return if round.is_ready() { Standing::Ready } else { Standing::Checking };
    }
    if job.spec.queue.is_empty() {
        return Standing::Free;
    }
    let Some(queue) = queue.map(|queue| &cell.quota.at(queue).spec) else {
        return Standing::Invalid(format!("queue \"{}\" is not known", job.spec.queue));
    };
    let may_be_asked = |check: &AdmissionCheck| is_asked(cell, job, check, to_choose(job));
    let checks = &queue.admission_checks;
    if checks.is_empty() || job.stands() || !checks.iter().any(may_be_asked) {
        return Standing::Free;
    }
    if !avoids(cell, (job, queue), shapes, |check| is_unknown(cell, check)) {
        let mut checks = queue.admission_checks.iter();
        let unknown = checks.find(|check| is_unknown(cell, check) && is_asked(cell, job, check, shapes));
        let (queue, class) = (&job.spec.queue, unknown.map_or("", |check| &check.name));
        return Standing::Invalid(format!("queue \"{queue}\" asks provisioning class \"{class}\", which is not known"));
    }
    match job.admission.back_off_ms {
        0 if avoids(cell, (job, queue), shapes, |_| true) => Standing::Free,
        0 => Standing::Unreserved,
        // Nor is it placed with a flavor that nobody is asked about: what was said of it is waited out.
        due_ms => Standing::BackOff(due_ms),
    }
}

/// Whether nobody can be asked for `check`.
fn is_unknown(cell: &Cell, check: &AdmissionCheck) -> bool {
    cell.provisioning_classes.get(&check.name).is_none()
}

/// The shape that a group has.
fn own(group: &Group) -> &[ShapeId] {
    std::slice::from_ref(&group.shape)
}

/// The shapes that groups of `job` may have by the time it goes on.
fn to_choose(job: &Job) -> ShapesOf {
    if job.may_choose_flavors() { Group::offers } else { own }
}

/// Whether `check` is asked for `job` with some of these shapes.
fn is_asked(cell: &Cell, job: &Job, check: &AdmissionCheck, shapes: ShapesOf) -> bool {
    job.groups.iter().flat_map(shapes).any(|shape| is_for(cell, check, *shape))
}

/// Whether every group has one of these shapes with which none of the checks that are `meant` is asked.
fn avoids(
    cell: &Cell,
    (job, queue): (&Job, &QueueSpec),
    shapes: ShapesOf,
    meant: impl Fn(&AdmissionCheck) -> bool,
) -> bool {
    let is_without =
        |shape: &ShapeId| !queue.admission_checks.iter().any(|check| meant(check) && is_for(cell, check, *shape));
    job.groups.iter().all(|group| shapes(group).iter().any(is_without))
}

/// Whether `check` is asked for what has this shape.
fn is_for(cell: &Cell, check: &AdmissionCheck, shape: ShapeId) -> bool {
    if check.on_flavors.is_empty() {
        return true;
    }
    let charges = cell.shapes.get(shape).into_iter().flat_map(|shape| &shape.charges);
    let mut flavors = charges.map(|(column, _)| cell.quota.columns.flavor(*column));
    flavors.any(|flavor| check.is_on(flavor)) && !bug::is_planted(Bug::ForgetFlavorChecks)
}
