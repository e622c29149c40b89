//! What the groups of a job are made of now, and how many tasks they have, while runs of them go on: a rollout turns
//! them from one revision to another and back.

use crate::apply::Tx;
use crate::apply::steps::change::{before_change, settle_repair_of_change};
use crate::apply::steps::kept::forget_kept_where;
use crate::apply::steps::offers::{offer, shapes_of};
use crate::apply::steps::rounds::count_reshaped;
use crate::apply::steps::run_end::restart_if_down;
use crate::apply::steps::runs::stop_run;
use crate::policy::moves::settle_rooms;
use crate::state::jobs::{Job, TaskState};
use crate::state::offers::flavors_of_shape;
use crate::state::rollouts::with_content;
use crate::state::runs::NO_RUN;
use ohm_model::{EventKind, GroupSpec, Incarnation, JobId, JobSpec, RolloutEvent, RolloutStep, ShapeId, StopCause};
use std::sync::Arc;

/// What is wanted of a group from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    /// The revision of what is placed.
    pub(crate) revision: u32,
    /// How many tasks.
    pub(crate) count: u32,
}

/// Aims all groups of `job` anew. What runs stays as it is, but for tasks beyond the new counts.
pub(crate) fn aim_groups(tx: &mut Tx<'_>, id: JobId, aims: &[Aim]) {
    let known = Arc::clone(tx.job(id));
    let spec = aimed(&known, aims);
    let is_other = |at: &usize| {
        let (old, new) = (&known.spec.groups[*at], &spec.groups[*at]);
        known.groups[*at].revision != aims[*at].revision || GroupSpec { count: old.count, ..new.clone() } != *old
    };
    let others: Vec<usize> = (0..aims.len()).filter(is_other).collect();
    if spec == *known.spec && others.is_empty() {
        return;
    }
    before_change(tx, Arc::clone(&known), &spec, !others.is_empty());
    let (spec, version) = (Arc::new(spec), tx.index());
    let job = tx.job_mut(id);
    job.floor = job.floor.max(highest_attempt_beyond(&known, &spec));
    let floor = job.floor;
    for (at, group) in job.groups.iter_mut().enumerate() {
        group.resize(known.spec.groups[at].count, spec.groups[at].count, floor);
    }
    (job.spec, job.version) = (Arc::clone(&spec), version);
    for at in others {
        tx.job_mut(id).groups[at].revision = aims[at].revision;
        reshape(tx, (id, at));
        tx.job_mut(id).groups[at].moving = Default::default();
    }
    let job = Arc::clone(tx.job(id));
    tx.budgets.note_job(&job);
    tx.touch_job(id);
    offer(tx, id);
    settle_rooms(tx, id);
    stop_beyond(tx, id, StopCause::RolledOut);
    forget_kept_where(tx, id, |run, _| run.task.task.0 >= spec.groups[usize::from(run.task.group.0)].count);
    settle_repair_of_change(tx, id);
    restart_if_down(tx.job_mut(id));
    tell_aims(tx, &known);
}

/// Tells the runs of `job` beyond the counts of their groups to stop.
pub(crate) fn stop_beyond(tx: &mut Tx<'_>, id: JobId, cause: StopCause) {
    let job = tx.job(id);
    let groups = job.groups.iter().zip(&job.spec.groups).filter(|(group, _)| group.leaving > 0);
    let removed = groups.flat_map(|(group, spec)| group.tasks.iter().skip(spec.count as usize));
    let slots: Vec<u32> = removed.map(|task| task.run).filter(|run| *run != NO_RUN).collect();
    slots.into_iter().for_each(|slot| stop_run(tx, slot, cause));
}

/// The spec of `job` with its groups as they are aimed at. How many must stand, how they are meant and what is held for
/// them is what its owner asks for now, whichever revision is placed.
fn aimed(job: &Job, aims: &[Aim]) -> JobSpec {
    let declared = job.declared();
    let mut spec = (**declared).clone();
    for (at, aim) in aims.iter().enumerate() {
        let content = match job.rollout() {
            Some(rollout) if rollout.groups[at].target == aim.revision => &declared.groups[at],
            _ => job.content(at, aim.revision),
        };
        spec.groups[at] = with_content(&declared.groups[at], content, aim.count);
    }
    spec
}

fn highest_attempt_beyond(known: &Job, spec: &JobSpec) -> Incarnation {
    let beyond = known.groups.iter().zip(&spec.groups);
    let beyond = beyond.flat_map(|(group, spec)| group.tasks.iter().skip(spec.count as usize));
    beyond.map(|task| task.attempts).max().unwrap_or_default()
}

/// Gives a group the shape that its spec has by now, with the flavors that it has, where its queue offers them.
fn reshape(tx: &mut Tx<'_>, (id, at): (JobId, usize)) {
    let former = tx.job(id).groups[at].shape;
    let (shapes, _) = shapes_of(tx, (id, at));
    let joined: Vec<ShapeId> = shapes.into_iter().map(|shape| tx.shapes.join(shape)).collect();
    let flavors = flavors_of_shape(tx, former);
    let same = joined.iter().copied().find(|shape| flavors_of_shape(tx, *shape) == flavors);
    let Some(shape) = same.or(joined.first().copied()) else { tx.stop("a shape of a group") };
    tx.shapes.join_again(shape, 1);
    joined.into_iter().chain([former]).for_each(|shape| drop(tx.shapes.leave(shape)));
    tx.job_mut(id).groups[at].shape = shape;
    count_reshaped(tx, id, at);
}

fn tell_aims(tx: &mut Tx<'_>, known: &Job) {
    let job = Arc::clone(tx.job(known.id));
    for (at, (group, spec)) in job.groups.iter().zip(&job.spec.groups).enumerate() {
        let (revision, count) = (group.revision, spec.count);
        if (revision, count) != (known.groups[at].revision, known.spec.groups[at].count) {
            tell_rollout(tx, job.id, RolloutStep::Aimed { group: at as u16, revision, count });
        }
    }
}

/// Says what became of the rollout of `job`.
pub(crate) fn tell_rollout(tx: &mut Tx<'_>, id: JobId, step: RolloutStep) {
    let job = tx.job(id);
    let (name, revision) = (job.spec.name.clone(), job.revision());
    tx.tell(EventKind::Rollout(RolloutEvent { job: id, name, revision, step }));
}

/// Keeps the tasks of group `at` that `holds` from being placed, and lets the others be.
pub(crate) fn hold_tasks(tx: &mut Tx<'_>, (id, at): (JobId, usize), holds: impl Fn(u32) -> bool) {
    let group = &tx.job(id).groups[at];
    let is_wrong = |index: usize| match group.tasks[index].state {
        TaskState::Pending => holds(index as u32),
        TaskState::Held => !holds(index as u32),
        _ => false,
    };
    let wrong: Vec<usize> = (0..group.tasks.len()).filter(|index| is_wrong(*index)).collect();
    if wrong.is_empty() {
        return;
    }
    let group = &mut tx.job_mut(id).groups[at];
    for index in wrong {
        let task = index as u32;
        if group.tasks[index].state == TaskState::Held {
            group.tasks[index].state = TaskState::Pending;
            group.held -= 1;
            group.pending.insert(task, 1);
        } else {
            // It waits for the rollout from now on, and is repaired no more.
            group.tasks[index].state = TaskState::Held;
            group.held += 1;
            for tasks in [&mut group.pending, &mut group.lost, &mut group.moving] {
                tasks.remove(task, 1);
            }
        }
    }
    tx.touch_job(id);
    settle_rooms(tx, id);
    settle_repair_of_change(tx, id);
}

/// Tasks of group `at` that wait and are meant become something else: what failed before says nothing of that.
pub(crate) fn forget_failures(tx: &mut Tx<'_>, (id, at): (JobId, usize), is_meant: impl Fn(u32) -> bool) {
    let group = &mut tx.job_mut(id).groups[at];
    for index in 0..group.tasks.len() {
        let state = group.tasks[index].state;
        let waits = matches!(state, TaskState::Pending | TaskState::Held | TaskState::BackingOff);
        if !waits || !is_meant(index as u32) {
            continue;
        }
        let task = &mut group.tasks[index];
        (task.failures, task.refusals) = (0, 0);
        if state == TaskState::BackingOff {
            task.state = TaskState::Pending;
            group.backing_off -= 1;
            group.pending.insert(index as u32, 1);
        }
    }
}
