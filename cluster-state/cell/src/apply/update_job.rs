//! Changing a job that is in the cell: what may change when, and how its groups take it.
//!
//! ```text
//!                      nothing of it runs or stops          something does
//!   name, class        never                                never
//!   size of a group    yes                                  where tasks come and go singly: elastic groups, services
//!   spares, labels and yes                                  yes
//!     budget of a group
//!   rest of a group    yes: what has not succeeded of it    a service: by a rollout; others: no
//!                      begins anew
//!   repair, where one has left its domain for a wider one   no
//!   queue, onDisconnect                                     no
//!   everything else    yes                                  yes
//! ```
//!
//! Kept runs of groups that begin anew, and of tasks that go, are forgotten: what is newer beats them.
//! A group that grows gets tasks at its end. One that shrinks loses those with the highest numbers: what waits is gone
//! at once, what runs is told to stop and is gone when it has ended. Whatever comes later under the same number is
//! counted on from the attempts before, so that no two runs ever have one name.

mod fields;
mod resize;
pub use fields::changed_fields;

use crate::apply::Tx;
use crate::apply::steps::aims::stop_beyond;
use crate::apply::steps::change::{before_change, settle_repair_of_change};
use crate::apply::steps::job_spec::{check_job, completed};
use crate::apply::steps::jobs::{
    arm_deadline, clear_nominations, finish_if_done, refuse_finished, release_reservation, restart_times, set_state,
    tell_state,
};
use crate::apply::steps::kept::{forget_kept_of, forget_kept_where};
use crate::apply::steps::names::check_names;
use crate::apply::steps::offers::{base_shape, offer};
use crate::apply::steps::repairs::arm_give_up;
use crate::apply::steps::revisions::{begin_rollout, end_rollout, next_revision, note_made_anew};
use crate::apply::steps::run_end::restart_if_down;
use crate::policy::heads::end_heads_outstayed;
use crate::policy::moves::settle_rooms;
use crate::policy::start_deadlines::rearm_start_deadline;
use crate::policy::waiting::check_crowd;
use crate::state::jobs::{Group, Job, JobState, Task, TaskState};
use crate::state::rollouts::{RevisionState, with_content};
use crate::state::shapes::Shape;
use ohm_model::{
    ClassKind, EventKind, GroupSpec, Incarnation, Index, JobId, JobOutcome, JobSpec, OnDisconnect, Outcome, Refusal,
    RepairSpec, ShapeId, StopCause,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a group of the new spec comes out of the old job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It stays as it is, but for its size.
    Sized,
    /// It begins anew, but for its tasks that have succeeded.
    Anew,
}

/// Changes the job of this name, if it still has the `version` that the sender knows.
pub(crate) fn update_job(tx: &mut Tx<'_>, owner: &str, spec: &JobSpec, version: Option<Index>) -> Outcome {
    let outcome = try_update(tx, owner, spec, version).unwrap_or_else(JobOutcome::Refused);
    Outcome::Jobs(vec![outcome])
}

fn try_update(tx: &mut Tx<'_>, owner: &str, spec: &JobSpec, version: Option<Index>) -> Result<JobOutcome, Refusal> {
    check_names(spec)?;
    let missing = || Refusal::NotFound { kind: "job".into(), name: spec.name.clone() };
    let known = Arc::clone(tx.jobs.find(&spec.name).ok_or_else(missing)?);
    if version.is_some_and(|version| version != known.version) {
        return Err(Refusal::Changed { kind: "job".into(), name: spec.name.clone(), version: known.version });
    }
    update_known(tx, owner, &known, spec)
}

/// What `owner` asks for of a job that the cell holds is `spec` from now on.
pub(crate) fn update_known(
    tx: &mut Tx<'_>,
    owner: &str,
    known: &Arc<Job>,
    spec: &JobSpec,
) -> Result<JobOutcome, Refusal> {
    let declared = completed(tx, spec, Some(known.declared()))?.into_owned();
    if declared == **known.declared() {
        return Ok(JobOutcome::Unchanged(known.id));
    }
    refuse_finished(&declared.name, known.state)?;
    check_job(tx, &declared, Some(known.declared()))?;
    let rolled = rolled(known, &declared);
    let spec = wanted_now(known, &declared, &rolled);
    check_update(known, &spec)?;
    check_rollout(tx, known, &declared, &rolled)?;
    if spec.queue != known.spec.queue {
        check_crowd(tx, &spec.queue)?;
    }
    let shapes = new_shapes(tx, known, &spec)?;
    let fields = changed_fields(known.declared(), &declared);
    let (is_anew, id) = (!shapes.is_empty() || spec.groups.len() != known.groups.len(), known.id);
    if is_anew {
        end_rollout(tx, id, RevisionState::Left);
    }
    tx.tell(EventKind::JobUpdated { job: id, name: spec.name.clone(), owner: owner.into(), fields });
    let known = Arc::clone(tx.job(id));
    // What was wanted for the moment is not any more.
    let spec = if is_anew { wanted_now(&known, &declared, &rolled) } else { spec };
    let known = before_change(tx, known, &spec, is_anew);
    change_job(tx, &known, spec, shapes);
    match (rolled.is_empty(), is_anew) {
        (false, _) => begin_rollout(tx, id, declared, owner, false),
        (true, false) => declare(tx, id, declared),
        (true, true) => note_made_anew(tx, &known, owner),
    }
    Ok(JobOutcome::Updated(id))
}

/// The groups that are made of something else by now, and get there by a rollout: of a service of which something
/// stands, or that is being rolled out.
fn rolled(known: &Job, declared: &JobSpec) -> Vec<usize> {
    let former = known.declared();
    let names = |spec: &JobSpec| spec.groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    let may = known.kind.rolls() && (known.live() > 0 || known.rollout().is_some()) && names(former) == names(declared);
    let is_rolled = |at: &usize| {
        let (old, new) = (&former.groups[*at], &declared.groups[*at]);
        !(*old == as_before(old, new) || is_equal_but_size(old, new) || is_elsewhere(old, new))
    };
    if may { (0..former.groups.len()).filter(is_rolled).collect() } else { Vec::new() }
}

/// What is wanted of the job until its rollout has gone on: groups that are rolled out, or are being, stay as they are
/// but for their sizes.
fn wanted_now(known: &Job, declared: &JobSpec, rolled: &[usize]) -> JobSpec {
    let former = known.declared();
    let mut spec = declared.clone();
    for (at, asked) in spec.groups.iter_mut().enumerate() {
        let Some((old, now)) = former.groups.get(at).zip(known.spec.groups.get(at)) else { continue };
        let stays = *old == as_before(old, asked) || is_equal_but_size(old, asked);
        if old.name == asked.name && (stays || rolled.contains(&at)) {
            // Those beyond the former count are among those of a higher one.
            let beyond = now.count.saturating_sub(old.count);
            let count = if asked.count < old.count { asked.count.saturating_add(beyond) } else { now.count };
            *asked = with_content(asked, now, count.max(asked.count));
        }
    }
    spec
}

fn check_rollout(tx: &mut Tx<'_>, known: &Job, declared: &JobSpec, rolled: &[usize]) -> Result<(), Refusal> {
    if !rolled.is_empty() && known.admission.round.is_some() {
        let problem = "nodes were provisioned for what runs; suspend it first, or submit under another name";
        return Err(Refusal::Invalid { field: "spec.groups".into(), problem: problem.into() });
    }
    rolled.iter().try_for_each(|at| base_shape(tx.cell, &declared.name, &declared.groups[*at]).map(drop))
}

/// A rollout under way goes on by what is asked for by now.
fn declare(tx: &mut Tx<'_>, id: JobId, declared: JobSpec) {
    let (declared, now_ms) = (Arc::new(declared), tx.now_ms);
    let Some(rollouts) = tx.job_mut(id).rollouts.as_mut() else { return };
    if let Some(last) = rollouts.history.last_mut() {
        last.spec = Arc::clone(&declared);
    }
    if let Some(open) = rollouts.open.as_mut() {
        (open.declared, open.progress_ms) = (declared, now_ms);
    }
}

/// The shapes of the groups that begin anew, by their place.
fn new_shapes(tx: &mut Tx<'_>, known: &Job, spec: &JobSpec) -> Result<BTreeMap<usize, Shape>, Refusal> {
    let mut shapes = BTreeMap::new();
    for (at, group) in spec.groups.iter().enumerate().filter(|(at, _)| change_of(known, spec, *at) == Change::Anew) {
        shapes.insert(at, base_shape(tx.cell, &spec.name, group)?);
    }
    Ok(shapes)
}

fn change_job(tx: &mut Tx<'_>, known: &Job, spec: JobSpec, shapes: BTreeMap<usize, Shape>) {
    let (id, version) = (known.id, tx.index());
    let left: Vec<ShapeId> = known
        .groups
        .iter()
        .enumerate()
        .filter(|(at, _)| *at >= spec.groups.len() || shapes.contains_key(at))
        .map(|(_, group)| group.shape)
        .collect();
    let joined: BTreeMap<usize, ShapeId> = shapes.into_iter().map(|(at, shape)| (at, tx.shapes.join(shape))).collect();
    left.into_iter().for_each(|shape| drop(tx.shapes.leave(shape)));
    let spec = Arc::new(spec);
    let job = tx.job_mut(id);
    let floor = highest_attempt_gone(known, &spec);
    job.floor = job.floor.max(floor);
    job.groups = new_groups(known, &spec, &joined, job.floor);
    job.past.retain_mut(|past| {
        let name = known.spec.groups.get(usize::from(past.group)).map(|group| &group.name);
        let now = spec.groups.iter().position(|group| Some(&group.name) == name);
        now.map(|at| past.group = at as u16).is_some()
    });
    (job.spec, job.version) = (Arc::clone(&spec), version);
    let job = Arc::clone(tx.job(id));
    tx.budgets.note_job(&job);
    tx.touch_job(id);
    offer(tx, id);
    settle_rooms(tx, id);
    stop_beyond(tx, id, StopCause::ScaledDown);
    let stays = |run: &ohm_model::RunRef| {
        let (at, keeps) = (usize::from(run.task.group.0), spec.on_disconnect == OnDisconnect::Keep);
        let counts = spec.groups.get(at).is_some_and(|group| run.task.task.0 < group.count);
        keeps && counts && change_of(known, &spec, at) == Change::Sized
    };
    forget_kept_where(tx, id, |run, _| !stays(run));
    settle_update(tx, known, &spec);
}

/// What follows from the new content: state, deadline, repair, and the end of a job whose last tasks were removed.
fn settle_update(tx: &mut Tx<'_>, known: &Job, spec: &JobSpec) {
    let id = known.id;
    match (known.state, known.spec.suspended, spec.suspended) {
        (JobState::Active, false, true) => {
            set_state(tx, id, JobState::Suspended, String::new());
            forget_kept_of(tx, id);
            release_reservation(tx, id);
            clear_nominations(tx, id);
            tell_state(tx, id, "");
        }
        (JobState::Suspended, true, false) => {
            set_state(tx, id, JobState::Active, String::new());
            restart_times(tx, id);
            tell_state(tx, id, "");
        }
        _ => {}
    }
    if spec.active_deadline_seconds != known.spec.active_deadline_seconds && known.started_ms > 0 {
        arm_deadline(tx, id);
    }
    end_heads_outstayed(tx, known);
    if spec.pending_timeout_seconds != known.spec.pending_timeout_seconds {
        rearm_start_deadline(tx, id);
    }
    if spec.repair != known.spec.repair {
        rearm_give_up(tx, known);
    }
    settle_repair_of_change(tx, id);
    restart_if_down(tx.job_mut(id));
    finish_if_done(tx, id);
}

/// A repair that waits goes by the new policy from here on. What it has waited already counts.
fn rearm_give_up(tx: &mut Tx<'_>, known: &Job) {
    let timeout_ms = |repair: &RepairSpec| repair.timeout_seconds.saturating_mul(1000);
    let (now_ms, former_ms) = (tx.now_ms, timeout_ms(&known.spec.repair));
    let Some(open) = tx.job_mut(known.id).repairs.open.as_mut() else { return };
    let waited_ms = match open.give_up_ms {
        0 => 0,
        give_up_ms => now_ms.saturating_sub(give_up_ms.saturating_sub(former_ms)),
    };
    open.give_up_ms = 0;
    arm_give_up(tx, known.id, waited_ms);
}

/// Whether tasks of the group come and go one by one, so that their number may change while some of them run.
fn is_scalable(kind: ClassKind, group: &GroupSpec) -> bool {
    group.elastic || kind == ClassKind::Service
}

/// The new group with what may always change as it was: spares, and by which labels its tasks are meant.
fn as_before(old: &GroupSpec, new: &GroupSpec) -> GroupSpec {
    let (labels, disruption_budget) = (old.labels.clone(), old.disruption_budget.clone());
    GroupSpec { spares: old.spares, labels, disruption_budget, ..new.clone() }
}

fn is_equal_but_size(old: &GroupSpec, new: &GroupSpec) -> bool {
    let sized = GroupSpec { count: old.count, min_count: old.min_count, ..as_before(old, new) };
    // What is placed beside slices is not in any: a lone task that gets company would have to be in them from now on.
    sized == *old && old.slices() == new.slices()
}

fn change_of(known: &Job, spec: &JobSpec, at: usize) -> Change {
    let (Some(old), Some(new)) = (known.spec.groups.get(at), spec.groups.get(at)) else { return Change::Anew };
    let stays = *old == as_before(old, new) || (is_scalable(known.kind, old) && is_equal_but_size(old, new));
    if stays { Change::Sized } else { Change::Anew }
}

/// Whether what is placed under the old words may be out of place under the new ones.
fn is_elsewhere(old: &GroupSpec, new: &GroupSpec) -> bool {
    old.topology != new.topology || old.place_with != new.place_with || old.slices() != new.slices()
}

/// What may not change now, in the words of the job's file.
fn check_update(known: &Job, spec: &JobSpec) -> Result<(), Refusal> {
    let refuse = |field: &str, problem: &str| Err(Refusal::Invalid { field: field.into(), problem: problem.into() });
    let old = &*known.spec;
    if spec.class != old.class {
        return refuse("spec.class", "a job keeps its class; submit it under another name");
    }
    for (was, group) in known.groups.iter().enumerate().filter(|(_, group)| group.succeeded > 0) {
        let Some(at) = spec.groups.iter().position(|heir| heir.name == old.groups[was].name) else { continue };
        let done = group.succeeded;
        if at != was {
            // Runs are named by the place of their group.
            let problem = format!("{done} of its tasks succeeded; it keeps its place among the groups then");
            return refuse(&format!("spec.groups[{at}].name"), &problem);
        }
        if is_elsewhere(&old.groups[at], &spec.groups[at]) {
            let problem = format!("{done} of its tasks succeeded under the one before; submit under another name");
            return refuse(&format!("spec.groups[{at}].topology"), &problem);
        }
    }
    if known.live() == 0 {
        return Ok(());
    }
    let first = "suspend it first, or submit under another name";
    if spec.queue != old.queue {
        return refuse("spec.queue", &format!("what runs is charged to the queue it is in; {first}"));
    }
    if spec.on_disconnect != old.on_disconnect {
        return refuse("spec.onDisconnect", &format!("what runs was started under the other one; {first}"));
    }
    let is_wide = known.groups.iter().any(|group| group.widened);
    if is_wide && (spec.repair.policy, &spec.repair.widen_to) != (old.repair.policy, &old.repair.widen_to) {
        return refuse(
            "spec.repair",
            "a repair has left its domain by `widenTo`; both stay until the job is suspended",
        );
    }
    let may_be = known.state == JobState::Suspended;
    if spec.suspended != old.suspended && spec.suspended != may_be {
        return refuse("spec.suspend", "something of it runs; use `ohm suspend` and `ohm resume`");
    }
    if spec.groups != old.groups && known.admission.round.is_some() {
        return refuse("spec.groups", &format!("nodes were provisioned for what runs; {first}"));
    }
    if spec.groups.len() != old.groups.len() {
        return refuse("spec.groups", &format!("groups come and go only while nothing runs; {first}"));
    }
    let changed = (0..old.groups.len()).find(|at| change_of(known, spec, *at) == Change::Anew);
    let Some(at) = changed else { return check_minimums(known, spec) };
    let is_size = |name: &&str| matches!(*name, "count" | "minCount");
    let is_scalable = is_scalable(known.kind, &old.groups[at]);
    let changed = fields::changed_in_group(&old.groups[at], &spec.groups[at]);
    let (name, why) = match changed.into_iter().find(|name| !(is_scalable && is_size(name))) {
        Some(name) if is_size(&name) => (name, "a gang that is not elastic keeps its size while it runs"),
        Some(name) => (name, "it stays as it is while something runs"),
        None => ("count", "a lone task is beside the slices of those it is placed with, several are in slices"),
    };
    refuse(&format!("spec.groups[{at}].{name}"), &format!("{why}; {first}"))
}

/// A minimum may not be raised above what is there: the next loss would take down a gang that never had it.
fn check_minimums(known: &Job, spec: &JobSpec) -> Result<(), Refusal> {
    for (at, (group, wanted)) in known.groups.iter().zip(&spec.groups).enumerate() {
        let was = &known.spec.groups[at];
        if !group.started || !known.starts_whole() || wanted.min_count <= was.min_count {
            continue;
        }
        let refuse = |problem| Err(Refusal::Invalid { field: format!("spec.groups[{at}].minCount"), problem });
        let there = group.live - group.stopping + group.succeeded + group.failed;
        if wanted.min_count > there {
            return refuse(format!("{there} tasks are there; let it grow first, then raise its minimum"));
        }
        if wanted.count < was.count {
            return refuse("lower the count first, then raise the minimum".into());
        }
    }
    Ok(())
}

/// The highest attempt made at any task that the update takes away, or makes anew.
fn highest_attempt_gone(known: &Job, spec: &JobSpec) -> Incarnation {
    let groups = known.groups.iter().enumerate();
    let gone = groups.flat_map(|(at, group)| {
        let change = change_of(known, spec, at);
        let name = &known.spec.groups[at].name;
        let count = spec.groups.iter().find(|heir| heir.name == *name).map_or(0, |heir| heir.count as usize);
        let is_kept = move |index: usize, task: &Task| {
            index < count && (change == Change::Sized || task.state == TaskState::Succeeded)
        };
        group.tasks.iter().enumerate().filter(move |(index, task)| !is_kept(*index, task)).map(|(_, task)| task)
    });
    gone.map(|task| task.attempts).max().unwrap_or_default()
}

/// The groups as `spec` wants them; those that begin anew take along what has succeeded, and all failures, where a
/// group had their name.
fn new_groups(known: &Job, spec: &JobSpec, joined: &BTreeMap<usize, ShapeId>, floor: Incarnation) -> Vec<Group> {
    let group_of = |(at, wanted): (usize, &GroupSpec)| {
        let Some(&shape) = joined.get(&at) else {
            let mut group = known.groups[at].clone();
            group.resize(known.spec.groups[at].count, wanted.count, floor);
            return group;
        };
        let former = known.spec.groups.iter().position(|former| former.name == wanted.name);
        let revision = former.map_or(1, |former| {
            let is_other = !known.spec.groups[former].is_made_as(wanted);
            match (is_other, &known.rollouts) {
                (false, _) => known.groups[former].revision,
                (true, None) => known.groups[former].revision + 1,
                (true, Some(rollouts)) => next_revision(known, rollouts),
            }
        });
        let mut group = Group::new(shape, revision, wanted.count, floor);
        let tasks = former.into_iter().flat_map(|former| known.groups[former].tasks.iter());
        for (index, task) in tasks.take(wanted.count as usize).enumerate() {
            if task.state == TaskState::Succeeded {
                group.tasks[index] = task.clone();
                group.pending.remove(index as u32, 1);
                group.succeeded += 1;
            } else if task.failures > 0 {
                group.tasks[index].failures = task.failures;
            }
        }
        group
    };
    spec.groups.iter().enumerate().map(group_of).collect()
}
