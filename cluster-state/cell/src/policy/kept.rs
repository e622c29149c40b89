//! What becomes of kept runs: remembered with their node, judged when it returns, placed again or forgotten.

use crate::apply::Tx;
use crate::apply::commit::perform;
use crate::apply::steps::kept::{forget_kept, forget_kept_where, give_room_of, set_back, tell_forgotten};
use crate::apply::steps::leaving::{settle_leaving, tell_drained};
use crate::apply::steps::runs::{run_started, stop_run};
use crate::cell::Cell;
use crate::judge::judge_adoption;
use crate::policy::evictions::{end_drain, evict_repelled, repels};
use crate::policy::tolerations::watch_tolerations;
use crate::rooms::overlay::Overlay;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::kept::KeptRun;
use crate::state::offers::flavors_of_shape;
use ohm_model::transaction::Row;
use ohm_model::{
    Conflict, ConflictReason, EventKind, FlavorChoice, Grain, GroupIndex, Incarnation, JobGuard, JobId, NodeId,
    Placement, Reconcile, RunRef, SessionId, ShapeId, StopCause, Transaction,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What its job's rule says of a kept run whose node is back.
enum Fate {
    /// It lives on, once the attempt of this number is over, if one runs.
    Lives(Option<Incarnation>),
    /// It is stopped.
    Ends(&'static str),
}

/// A node is back, and these runs live there: each kept one lives on or is stopped, by its job's rule.
pub(crate) fn reconcile(tx: &mut Tx<'_>, node: NodeId, alive: &BTreeSet<RunRef>) {
    let mut returned: Vec<RunRef> = tx.kept.on_node(node).collect();
    // They take room in this order: those without a replacement, then the most important.
    returned.sort_by_key(|run| (is_replaced(tx, *run), Reverse(priority_of_run(tx, *run)), *run));
    let mut unopposed = Vec::new();
    for run in returned {
        match fate(tx, run, alive) {
            Fate::Ends(reason) => {
                tell_reconciled(tx, run, node, false, reason);
                forget_kept(tx, run);
            }
            Fate::Lives(replacement) => {
                set_back(tx, run, Some(replacement));
                if replacement.is_some() {
                    tell_reconciled(tx, run, node, true, "once its replacement is over");
                    clear_the_way(tx, run);
                } else {
                    unopposed.push(run);
                }
            }
        }
    }
    unopposed.retain(|run| waits_for_gang(tx, *run));
    for run in unopposed {
        tell_reconciled(tx, run, node, true, "once the replacements of its gang are over");
    }
}

fn is_replaced(cell: &Cell, run: RunRef) -> bool {
    let group = cell.jobs.get(run.task.job).and_then(|job| job.groups.get(usize::from(run.task.group.0)));
    let task = group.and_then(|group| group.tasks.get(run.task.task.0 as usize));
    task.is_some_and(|task| task.state == TaskState::Live)
}

fn priority_of_run(cell: &Cell, run: RunRef) -> i32 {
    cell.jobs.get(run.task.job).map_or(i32::MIN, |job| job.spec.priority)
}

/// Whether others of the run's gang live on once their replacements are over: it comes back with them.
fn waits_for_gang(cell: &Cell, run: RunRef) -> bool {
    let whole = cell.jobs.get(run.task.job).is_some_and(|job| job.starts_whole());
    whole && cell.kept.of_job(run.task.job).any(|(_, kept)| matches!(kept.back, Some(Some(_))))
}

/// Stops the replacement of a run that lives on, and forgets other kept runs of its task.
fn clear_the_way(tx: &mut Tx<'_>, run: RunRef) {
    let (task, own) = (run.task, run.incarnation);
    forget_kept_where(tx, task.job, |other, kept| {
        other.task == task && other.incarnation != own && kept.back.is_some()
    });
    let job = tx.job(task.job);
    let slot = job.groups[usize::from(task.group.0)].tasks[task.task.0 as usize].run;
    stop_run(tx, slot, StopCause::Reconciled);
}

fn fate(cell: &Cell, run: RunRef, alive: &BTreeSet<RunRef>) -> Fate {
    let Some(kept) = cell.kept.get(run) else { return Fate::Ends("it is not known") };
    if !alive.contains(&run) {
        return Fate::Ends("it ended while its node was away");
    }
    let (task, group) = (run.task, usize::from(run.task.group.0));
    let Some(job) = cell.jobs.get(task.job).filter(|job| job.state == JobState::Active) else {
        return Fate::Ends("its job is closed");
    };
    let found = job.groups.get(group).and_then(|group| group.tasks.get(task.task.0 as usize));
    let Some(found) = found.filter(|_| task.task.0 < job.spec.groups[group].count) else {
        return Fate::Ends("its task was taken away");
    };
    match found.state {
        TaskState::Pending | TaskState::BackingOff | TaskState::Held
            if offer_of(cell, job, group, kept.shape).is_none() =>
        {
            Fate::Ends("its group has other flavors by now")
        }
        TaskState::Pending | TaskState::BackingOff | TaskState::Held if has_room_for(cell, job, run, kept) => {
            Fate::Lives(None)
        }
        TaskState::Pending | TaskState::BackingOff | TaskState::Held => Fate::Ends("its node has no room left for it"),
        TaskState::Live => {
            let Some(standing) = cell.runs.get(found.run) else { return Fate::Lives(None) };
            if !has_room_for(cell, job, run, kept) || !is_good_for(cell, job, run, kept) {
                return Fate::Ends("its place is no longer good for it, and its replacement stays");
            }
            let waiting = cell.kept.of_job(task.job).filter(|(other, kept)| {
                other.task == task && other.incarnation != run.incarnation && kept.back.is_some()
            });
            let rival = waiting.map(|(other, kept)| (other.incarnation, kept.started_ms)).next();
            let rival = rival.unwrap_or((standing.run.incarnation, standing.started_ms));
            match outlives(job.spec.reconcile, (run.incarnation, kept.started_ms), rival) {
                true => Fate::Lives(Some(standing.run.incarnation)),
                false => Fate::Ends("its replacement stays, by the job's rule"),
            }
        }
        _ => Fate::Ends("its task is over"),
    }
}

/// Whether there is room for the run beside what runs on its node and lives on there.
fn has_room_for(cell: &Cell, job: &Job, run: RunRef, kept: &KeptRun) -> bool {
    let wish = Wish::Return { devices: kept.masks() };
    let asker = Asker::with_shape(cell, job, (run.task.group, kept.shape), wish);
    let over = Overlay::default();
    asker.is_some_and(|asker| Room::beside(&asker, WhatIf { cell, over: &over }, kept.node, 1).count == 1)
}

/// The shape that group `group` of `job` has with the flavors of this one; nothing where it can't have them: something
/// of the job stands or is reserved with others, or its queue offers them no more.
fn offer_of(cell: &Cell, job: &Job, group: usize, kept: ShapeId) -> Option<ShapeId> {
    let state = job.groups.get(group)?;
    let flavors = flavors_of_shape(cell, kept);
    let is_alike = |shape: &ShapeId| {
        flavors_of_shape(cell, *shape)
            .iter()
            .all(|(resource, flavor)| flavors.get(resource).is_none_or(|other| other == flavor))
    };
    if is_alike(&state.shape) {
        return Some(state.shape);
    }
    state.offers().iter().copied().filter(|_| job.may_choose_flavors()).find(is_alike)
}

/// Whether nothing would drive the run away again, and its group still belongs there: nobody is to be stopped in
/// vain.
fn is_good_for(cell: &Cell, job: &Job, run: RunRef, kept: &KeptRun) -> bool {
    let (group, node) = (usize::from(run.task.group.0), kept.node);
    let driven = cell.leave_cause(kept.shape, node).is_some()
        || cell.shapes.get(kept.shape).is_some_and(|shape| repels(cell, node, shape, kept.placed_ms));
    let domain = job.shared_domain(group);
    let has_its_flavors = offer_of(cell, job, group, kept.shape).is_some();
    !driven && has_its_flavors && domain.is_none_or(|domain| cell.domain_key(job, group, node) == Some(domain))
}

/// Gives those that live on their task and their room again, once nothing is in their way. Called after every
/// command: what is in the way of a kept run changes only with its job.
pub(crate) fn settle_kept(tx: &mut Tx<'_>) {
    let touched = tx.touched_jobs().iter().chain(&tx.returned).copied();
    let jobs: BTreeSet<JobId> = touched.filter(|job| tx.kept.lets_live(*job)).collect();
    for id in jobs {
        let (mut free, mut outrun, mut waits) = (Vec::new(), Vec::new(), false);
        let job = tx.job(id);
        let whole = job.starts_whole();
        for (run, kept) in tx.kept.of_job(id) {
            let Some(after) = kept.back else { continue };
            let group = job.groups.get(usize::from(run.task.group.0));
            let task = group.and_then(|group| group.tasks.get(run.task.task.0 as usize));
            let Some(task) = task else { tx.stop("the task of a kept run") };
            let standing = tx.runs.get(task.run).map(|standing| standing.run.incarnation);
            match task.state {
                TaskState::Pending | TaskState::BackingOff | TaskState::Held => free.push(*run),
                TaskState::Live if standing == after => waits = true,
                _ => outrun.push((*run, kept.node)),
            }
        }
        for (run, node) in outrun {
            tell_reconciled(tx, run, node, false, "its task went on without it");
            forget_kept(tx, run);
        }
        // A gang comes back together: one by one they would fall short of its minimum.
        let together = whole && waits;
        if !free.is_empty() && !together {
            adopt(tx, id, &free);
        }
    }
}

/// Judges whether these runs may stay where they are, as if they were placed there, and lets those live that may.
fn adopt(tx: &mut Tx<'_>, id: JobId, runs: &[RunRef]) {
    runs.iter().for_each(|run| end_waiting_of(tx, *run));
    // From here on they are placements like any others: they take their room anew.
    let kept: BTreeMap<RunRef, KeptRun> = runs.iter().filter_map(|run| Some((*run, tx.kept.remove(*run)?))).collect();
    kept.iter().for_each(|(run, found)| give_room_of(tx, *run, found));
    let (kept, apart) = with_one_flavor(tx, id, kept);
    for (run, found) in apart {
        tell_reconciled(tx, run, found.node, false, "its group has other flavors by now");
        tell_forgotten(tx, run, &found);
        tx.shapes.leave(found.shape);
    }
    let job = tx.job(id);
    let transaction = adoption(tx, job, &kept);
    let mut scratch = std::mem::take(&mut tx.scratch);
    let made: Vec<(ShapeId, u32)> = kept.values().map(|found| (found.shape, found.revision)).collect();
    let verdict = judge_adoption(tx, &transaction, &made, &mut scratch);
    tx.scratch = scratch;
    let accepted: BTreeSet<RunRef> = kept
        .keys()
        .enumerate()
        .filter(|(row, _)| verdict.accepted_of(&transaction, *row) > 0)
        .map(|(_, run)| *run)
        .collect();
    for (row, (run, found)) in kept.iter().enumerate() {
        let lives = accepted.contains(run);
        let of_row = |conflict: &&Conflict| conflict.row == Row::Place(row as u32);
        // What a gang falls short of is told once.
        let told = || verdict.conflicts.iter().find(of_row).or(verdict.conflicts.first());
        let refused = || told().map(|conflict| conflict.reason);
        let reason = match (lives, found.back) {
            (true, Some(Some(_))) => "by the job's rule, in place of its replacement".to_string(),
            (true, _) => "nothing runs in its place".to_string(),
            (false, _) if refused() == Some(ConflictReason::GangShort) => {
                "what is back of its gang is less than its minimum".to_string()
            }
            (false, _) => {
                format!("it may not run there any more: {}", refused().map_or("", |reason| reason.name()))
            }
        };
        tell_reconciled(tx, *run, found.node, lives, &reason);
        if !lives {
            tell_forgotten(tx, *run, found);
        }
    }
    let attempts: Vec<Incarnation> = accepted.iter().map(|run| attempts_at(tx, *run)).collect();
    perform(tx, SessionId(0), &transaction, &verdict, &made);
    made.into_iter().for_each(|(shape, _)| drop(tx.shapes.leave(shape)));
    let nodes: BTreeSet<NodeId> = kept.values().map(|found| found.node).collect();
    for (run, attempts) in accepted.into_iter().zip(attempts) {
        resume_run(tx, run, attempts, &kept[&run]);
    }
    // What drives away from there while nobody saw them drives them away now, each by its own number.
    for node in nodes {
        evict_repelled(tx, node);
        watch_tolerations(tx, node);
        end_drain(tx, node);
        settle_leaving(tx, node);
        tell_drained(tx, node);
    }
}

type KeptRuns = BTreeMap<RunRef, KeptRun>;

/// The kept runs, and apart from them those whose flavors are other ones than those of the first of their group.
fn with_one_flavor(cell: &Cell, id: JobId, kept: KeptRuns) -> (KeptRuns, KeptRuns) {
    let job = cell.jobs.get(id);
    let mut shapes: BTreeMap<GroupIndex, Option<ShapeId>> = BTreeMap::new();
    kept.into_iter().partition(|(run, found)| {
        let group = run.task.group;
        let shape = job.and_then(|job| offer_of(cell, job, usize::from(group.0), found.shape));
        shape.is_some() && *shapes.entry(group).or_insert(shape) == shape
    })
}

fn attempts_at(cell: &Cell, run: RunRef) -> Incarnation {
    let group = cell.jobs.get(run.task.job).and_then(|job| job.groups.get(usize::from(run.task.group.0)));
    group.and_then(|group| group.tasks.get(run.task.task.0 as usize)).map_or(run.incarnation, |task| task.attempts)
}

/// What failed and waits to be tried again waits no more: an earlier attempt lives.
fn end_waiting_of(tx: &mut Tx<'_>, run: RunRef) {
    let job = tx.job_mut(run.task.job);
    let group = &mut job.groups[usize::from(run.task.group.0)];
    let task = &mut group.tasks[run.task.task.0 as usize];
    if matches!(task.state, TaskState::BackingOff | TaskState::Held) {
        match task.state {
            TaskState::Held => group.held -= 1,
            _ => group.backing_off -= 1,
        }
        task.state = TaskState::Pending;
        group.pending.insert(run.task.task.0, 1);
    }
}

/// The placement that was just performed is no new attempt: it is the old one, which runs.
fn resume_run(tx: &mut Tx<'_>, run: RunRef, attempts: Incarnation, kept: &KeptRun) {
    let (group, index) = (usize::from(run.task.group.0), run.task.task.0 as usize);
    let job = tx.job_mut(run.task.job);
    let task = &mut job.groups[group].tasks[index];
    (task.incarnation, task.attempts) = (run.incarnation, attempts);
    let slot = task.run;
    let is_it = |past: &crate::state::jobs::PastRun| {
        (past.group, past.task, past.incarnation) == (run.task.group.0, run.task.task.0, run.incarnation)
    };
    job.past.retain(|past| !is_it(past));
    let found = tx.run_mut(slot);
    (found.run, found.placed_ms) = (run, kept.placed_ms);
    run_started(tx, slot, kept.pid);
    if kept.started_ms > 0 {
        // Whether it is ready its node tells anew.
        tx.run_mut(slot).started_ms = kept.started_ms;
    }
}

fn tell_reconciled(tx: &mut Tx<'_>, run: RunRef, node: NodeId, lives: bool, reason: &str) {
    let name = tx.jobs.get(run.task.job).map_or_else(String::new, |job| job.spec.name.clone());
    let (job, group, task) = (run.task.job, run.task.group.0, run.task.task.0);
    let (incarnation, reason) = (run.incarnation, reason.to_string());
    tx.tell(EventKind::Reconciled { job, name, group, task, incarnation, node, lives, reason });
}

/// Whether the first of two runs of a task lives on; each by its number and the stamped time of its start, 0 before.
fn outlives(rule: Reconcile, kept: (Incarnation, u64), rival: (Incarnation, u64)) -> bool {
    match rule {
        Reconcile::Newer => kept.0 > rival.0,
        Reconcile::Original => kept.0 < rival.0,
        Reconcile::LongestRunning => rival.1 == 0 || (kept.1 != 0 && kept.1 <= rival.1),
    }
}

/// The kept runs as rows of a transaction, each where it is. Where nothing of their job stands, their groups have the
/// flavors that they have.
fn adoption(cell: &Cell, job: &Job, kept: &BTreeMap<RunRef, KeptRun>) -> Transaction {
    let row = |(run, kept): (&RunRef, &KeptRun)| Placement {
        job: run.task.job,
        group: run.task.group,
        first: run.task.task,
        count: 1,
        node: kept.node,
        class: Default::default(),
        devices: kept.devices.iter().flat_map(|masks| masks.iter().copied()).collect(),
    };
    let guard = kept.keys().next().map(|run| JobGuard { job: run.task.job, version: job.version, reserved: false });
    let choice = |(run, kept): (&RunRef, &KeptRun)| {
        let group = run.task.group;
        let shape = offer_of(cell, job, usize::from(group.0), kept.shape)?;
        Some(FlavorChoice { job: job.id, group, shape })
    };
    let flavors: BTreeSet<FlavorChoice> = kept.iter().filter_map(choice).collect();
    Transaction {
        jobs: guard.into_iter().collect(),
        flavors: flavors.into_iter().collect(),
        place: kept.iter().map(row).collect(),
        ..Transaction::empty(job.shard, Default::default(), cell.applied, Grain::PerTask)
    }
}
