//! Rollouts: which tasks of a former revision stop next, how many there are meanwhile, and which revision is placed.
//!
//! ```text
//!              surge          stop, while enough are available                all are of the target
//! update ──▶ tasks beyond ──▶ unready ones first, then those that have to ──▶ and available: tasks beyond
//!            the count        leave their nodes, then the highest numbers     the count stop, it is complete
//! ```
//!
//! Of `count` tasks all but `maxUnavailable` are available before and after every stop (Kubernetes' Deployment). A task
//! is available when it is ready, is not told to stop, and has been ready for `minReadySeconds`. Budgets hold besides.
//! Tasks that were lost are placed again as what they were, before any of the target; where nothing is to be replaced,
//! be it that it is paused or waits to be promoted, everything that is moved or placed is of the former revision.

use crate::apply::Tx;
use crate::apply::steps::aims::{Aim, aim_groups, forget_failures, hold_tasks, tell_rollout};
use crate::apply::steps::budgets::settle_budgets;
use crate::apply::steps::revisions::{begin_rollout, end_rollout};
use crate::apply::steps::runs::stop_run;
use crate::cell::Cell;
use crate::rules::disruption::Disruptions;
use crate::state::job_rollouts::{RolloutCounts, available_before_ms, is_recreated, ready_since_ms, rollout_counts};
use crate::state::jobs::{Job, JobState, TaskState};
use crate::state::rollouts::{Former, GroupRollout, RevisionState, Rollout, with_content};
use crate::state::runs::Run;
use crate::state::timers::Timer;
use ohm_model::{JobId, JobSpec, RolloutStep, RolloutStrategy, StopCause};
use ohm_stdx::bug::{self, Bug};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How soon a budget that keeps tasks of a rollout is asked again.
const BUDGET_AGAIN_MS: u64 = 5_000;

/// Lets the rollouts of the jobs that the command has touched go on.
pub(crate) fn settle_rollouts(tx: &mut Tx<'_>) {
    let touched = tx.touched_jobs().iter().copied();
    let jobs: BTreeSet<JobId> = touched.filter(|id| open(tx, *id).is_some()).collect();
    if !jobs.is_empty() {
        // The command may have changed who has to be healthy.
        settle_budgets(tx);
    }
    for id in jobs {
        settle_rollout(tx, id);
        if reverts(tx, id) {
            settle_rollout(tx, id);
        }
    }
}

/// The time at which a rollout might go on, or have stalled, has come.
pub(crate) fn rollout_due(tx: &mut Tx<'_>, id: JobId) {
    let is_due = open(tx, id).is_some_and(|rollout| rollout.due_ms != 0 && rollout.due_ms <= tx.now_ms);
    if is_due {
        change(tx, id, |rollout| rollout.due_ms = 0);
        tx.touch_job(id);
    }
}

fn open(cell: &Cell, id: JobId) -> Option<&Rollout> {
    cell.jobs.get(id).and_then(|job| job.rollout())
}

fn change(tx: &mut Tx<'_>, id: JobId, how: impl FnOnce(&mut Rollout)) {
    if let Some(rollout) = tx.job_mut(id).rollouts.as_mut().and_then(|rollouts| rollouts.open.as_mut()) {
        how(rollout);
    }
}

fn settle_rollout(tx: &mut Tx<'_>, id: JobId) {
    restore_only_what_waits(tx, id);
    match tx.job(id).state {
        JobState::Active => {}
        JobState::Suspended => return,
        // What was asked for of it stays known.
        JobState::Finished(_) => return set_state(tx, id, RevisionState::Left),
    }
    for at in 0..tx.job(id).groups.len() {
        start_together(tx, id, at);
        replace_old(tx, id, at);
    }
    let groups = 0..tx.job(id).groups.len();
    let aims: Vec<(Aim, bool)> = groups.map(|at| Look::of(tx, id, at).aim()).collect();
    aim_groups(tx, id, &aims.iter().map(|(aim, _)| *aim).collect::<Vec<_>>());
    restore_only_what_waits(tx, id);
    for (at, (aim, holds_all)) in aims.into_iter().enumerate() {
        let Some(group) = open(tx, id).map(|rollout| rollout.groups[at].clone()) else { return };
        let of = |task: u32| group.restore.get(&task).map_or(group.target, |former| former.revision);
        hold_tasks(tx, (id, at), |task| of(task) != aim.revision || (holds_all && of(task) == group.target));
    }
    if (0..tx.job(id).groups.len()).all(|at| Look::of(tx, id, at).is_done()) {
        end_rollout(tx, id, RevisionState::Complete);
        return tell_rollout(tx, id, RolloutStep::Finished);
    }
    note_progress(tx, id);
    watch(tx, id);
}

/// Tasks that are placed, or gone, are no longer to be restored.
fn restore_only_what_waits(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    let Some(rollout) = job.rollout() else { return };
    let is_over = |at: usize, task: u32| {
        let state = job.groups[at].tasks.get(task as usize).map(|task| task.state);
        !matches!(state, Some(TaskState::Pending | TaskState::BackingOff | TaskState::Held))
    };
    let mut groups = rollout.groups.iter().enumerate();
    if groups.any(|(at, group)| group.restore.keys().any(|task| is_over(at, *task))) {
        change(tx, id, |rollout| {
            for (at, group) in rollout.groups.iter_mut().enumerate() {
                group.restore.retain(|task, _| !is_over(at, *task));
            }
        });
    }
}

/// A live run of another revision that is not told to stop.
#[derive(Clone, Copy)]
struct OldRun {
    slot: u32,
    task: u32,
    revision: u32,
    is_available: bool,
}

/// A group of which nothing stands starts with its minimum, of one revision: of the target, where too few were lost of
/// what it was.
fn start_together(tx: &mut Tx<'_>, id: JobId, at: usize) {
    let job = tx.job(id);
    let (group, spec) = (&job.groups[at], &job.spec.groups[at]);
    let restored = job.rollout().map_or(0, |rollout| rollout.groups[at].restore.len());
    if !group.started && restored > 0 && (restored as u32) < group.needed(spec) {
        change(tx, id, |rollout| rollout.groups[at].restore.clear());
    }
}

/// What is seen of one group.
struct Look {
    job: Arc<Job>,
    at: usize,
    rollout: Rollout,
    strategy: RolloutStrategy,
    now_ms: u64,
    counts: RolloutCounts,
    /// The live runs of another revision that are not told to stop.
    old: Vec<OldRun>,
    /// How many of the tasks within the count that are not over are of the target, and available.
    settled: u32,
    /// How far beyond the count tasks stand.
    beyond: u32,
}

impl Look {
    fn of(cell: &Cell, id: JobId, at: usize) -> Self {
        let job = cell.jobs.get(id).cloned().expect("a job whose rollout is open");
        let rollout = job.rollout().cloned().expect("an open rollout");
        let strategy = rollout.declared.strategy();
        let before_ms = available_before_ms(cell.now_ms, &strategy);
        let (group, target) = (&job.groups[at], rollout.groups[at].target);
        let counts = rollout_counts(group, target, before_ms, |slot| cell.runs.get(slot));
        let (mut old, mut settled, mut beyond) = (Vec::new(), 0, 0);
        let count = rollout.declared.groups[at].count;
        for (index, task) in group.tasks.iter().enumerate() {
            let Some(run) = cell.runs.get(task.run).filter(|run| run.stop.is_none()) else { continue };
            let available = is_available(run, before_ms);
            beyond = (index as u32 + 1).saturating_sub(count);
            if run.revision != target {
                let (slot, task, revision) = (task.run, index as u32, run.revision);
                old.push(OldRun { slot, task, revision, is_available: available });
            } else if available && (index as u32) < count {
                settled += 1;
            }
        }
        Look { at, rollout, strategy, now_ms: cell.now_ms, counts, old, settled, beyond, job }
    }

    fn group(&self) -> &GroupRollout {
        &self.rollout.groups[self.at]
    }

    fn declared_count(&self) -> u32 {
        self.rollout.declared.groups[self.at].count
    }

    /// How many tasks of the count are not over.
    fn wanted(&self) -> u32 {
        let group = &self.job.groups[self.at];
        self.declared_count().saturating_sub(group.succeeded + group.failed + group.skipped)
    }

    fn is_recreated(&self) -> bool {
        let (now, then) = (&self.job.spec.groups[self.at], &self.rollout.declared.groups[self.at]);
        is_recreated(&self.strategy, now) || is_recreated(&self.strategy, then)
    }

    /// Whether something of another revision stands, stops, or is to be placed again.
    fn has_old(&self) -> bool {
        !self.old.is_empty() || !self.group().restore.is_empty()
    }

    fn available(&self) -> u32 {
        self.counts.old_available + self.counts.updated_available
    }

    /// How many must be available.
    fn available_min(&self) -> u32 {
        self.wanted().saturating_sub(self.strategy.bounds(self.declared_count()).1)
    }

    /// How many tasks there are to be.
    fn count(&self) -> u32 {
        let (count, beyond) = (self.declared_count(), self.beyond);
        let more = if self.is_recreated() {
            0
        } else if !self.rollout.promoted {
            if self.has_old() { beyond.max(self.canaries()) } else { beyond }
        } else if self.settled >= self.wanted() {
            0
        } else if self.strategy.pause {
            beyond
        } else {
            let left = self.old.iter().filter(|old| old.task < count).count() as u32;
            let left = left + self.group().restore.keys().filter(|task| **task < count).count() as u32;
            beyond.max(self.strategy.bounds(count).0.min(left))
        };
        count.saturating_add(more)
    }

    /// Which revision is placed, and how many tasks there are to be. Also whether nothing of the target is placed yet.
    fn aim(&self) -> (Aim, bool) {
        let (group, target, count) = (&self.job.groups[self.at], self.group().target, self.count());
        let state = |task: &u32| group.tasks.get(*task as usize).map(|task| task.state);
        let waits = |task: &u32| matches!(state(task), Some(TaskState::Pending | TaskState::Held));
        let may_find_room = |former: &Former| self.rollout.restored_until_ms(former) > self.now_ms;
        let restored = self.group().restore.iter().filter(|(task, former)| waits(task) && may_find_room(former));
        let restored = restored.map(|(_, former)| former.revision).next();
        let standing = group.revision;
        if self.is_recreated() && group.live > 0 && self.counts.updated == 0 {
            let former = if standing == target { None } else { Some(standing) };
            return (Aim { revision: restored.or(former).unwrap_or(target), count }, former.is_some());
        }
        let is_of_target = |task: u32| !self.group().restore.contains_key(&task);
        let more = count > self.job.spec.groups[self.at].count;
        let target_waits = more || (0..group.tasks.len() as u32).any(|task| waits(&task) && is_of_target(task));
        let waiting = self.group().restore.values().map(|former| former.revision).next();
        let former = self.old.first().map(|old| old.revision).or(waiting);
        let idle = || former.filter(|_| !self.rollout.is_moving(&self.strategy));
        let revision = match restored {
            Some(revision) => revision,
            None if target_waits => target,
            None => idle().unwrap_or(target),
        };
        (Aim { revision, count }, false)
    }

    /// Whether all of the group is of the target, and available where that is new.
    fn is_done(&self) -> bool {
        let is_sized = self.job.spec.groups[self.at].count == self.declared_count();
        !self.has_old() && is_sized && (self.settled >= self.wanted() || self.is_untouched())
    }

    /// Whether the group was made of the same before, and complete.
    fn is_untouched(&self) -> bool {
        let history = self.job.rollouts.iter().flat_map(|rollouts| rollouts.history.iter().rev().skip(1));
        let former = history.map(|revision| Some((*revision.groups.get(self.at)?, revision.state))).next().flatten();
        former == Some((self.group().target, RevisionState::Complete))
    }

    /// No more than there are others, and none where nothing of two revisions stands side by side.
    fn canaries(&self) -> u32 {
        if self.is_recreated() { 0 } else { self.strategy.canary.min(self.declared_count()) }
    }

    /// Whether more might be replaced, and budgets keep it.
    fn is_held_by_budget(&self) -> bool {
        let is_moving = self.rollout.is_moving(&self.strategy) && !self.is_recreated();
        is_moving && self.counts.old_available > 0 && self.available() > self.available_min()
    }

    fn canaries_stand(&self) -> bool {
        !self.has_old() || self.counts.updated_available >= self.canaries()
    }
}

fn is_available(run: &Run, before_ms: u64) -> bool {
    ready_since_ms(run).is_some_and(|since_ms| since_ms <= before_ms)
}

/// Stops old tasks of a group, as many as may be. Before it is promoted those beyond the count make room for canaries.
fn replace_old(tx: &mut Tx<'_>, id: JobId, at: usize) {
    let look = Look::of(tx, id, at);
    if look.strategy.pause || !look.has_old() {
        return;
    }
    if look.is_recreated() && look.rollout.promoted {
        change(tx, id, |rollout| rollout.groups[at].restore.clear());
        forget_failures(tx, (id, at), |task| look.group().restore.contains_key(&task));
        return look.old.iter().for_each(|old| stop_run(tx, old.slot, StopCause::RolledOut));
    }
    let planted = u32::from(bug::is_planted(Bug::RolloutBelow));
    let (available, least) = (look.available(), look.available_min().saturating_sub(planted));
    let first = if look.rollout.promoted { 0 } else { look.declared_count() };
    let old: Vec<OldRun> = look.old.iter().copied().filter(|old| old.task >= first).collect();
    let mut unready: Vec<OldRun> = old.iter().copied().filter(|old| !old.is_available).collect();
    unready.sort_by_key(|old| Reverse(old.task));
    let there = available as usize + unready.len() + look.group().restore.len();
    let may_go = there.saturating_sub(least as usize);
    let may_go = if look.rollout.promoted { may_go - give_up(tx, &look, may_go) } else { unready.len() };
    for old in unready.into_iter().take(may_go) {
        stop_if_allowed(tx, old.slot);
    }
    let mut ready: Vec<(bool, Reverse<u32>, u32)> = old
        .iter()
        .filter(|old| old.is_available)
        .filter_map(|old| {
            let run = tx.runs.get(old.slot)?;
            Some((tx.leave_cause(run.shape, run.node).is_none(), Reverse(old.task), old.slot))
        })
        .collect();
    ready.sort();
    let mut left = available.saturating_sub(least);
    for (.., slot) in ready {
        if left == 0 {
            break;
        }
        left -= u32::from(stop_if_allowed(tx, slot));
    }
}

/// Tasks that wait to be what they were become what is asked for: those that were not lost, as many as unready ones
/// might go; and all that have found no room for long. Returns how many of the former.
fn give_up(tx: &mut Tx<'_>, look: &Look, may_go: usize) -> usize {
    let (id, at) = (look.job.id, look.at);
    let is_late = |former: &Former| look.rollout.restored_until_ms(former) <= look.now_ms;
    let restore = &look.group().restore;
    let ended = restore.iter().filter(|(_, former)| !former.lost && !is_late(former)).map(|(task, _)| *task);
    let ended: Vec<u32> = ended.collect::<Vec<_>>().into_iter().rev().take(may_go).collect();
    let given_up = |task: u32| ended.contains(&task) || restore.get(&task).is_some_and(is_late);
    if restore.keys().any(|task| given_up(*task)) {
        change(tx, id, |rollout| rollout.groups[at].restore.retain(|task, _| !given_up(*task)));
        forget_failures(tx, (id, at), given_up);
    }
    ended.len()
}

/// Stops a run unless its budgets keep it. Of one that is not ready they lose nothing: who could not replace it could
/// never mend what nobody of is healthy.
fn stop_if_allowed(tx: &mut Tx<'_>, slot: u32) -> bool {
    let run = tx.run(slot);
    let may = !run.is_ready() || Disruptions::default().stop(tx, run).is_ok();
    if may {
        stop_run(tx, slot, StopCause::RolledOut);
    }
    may
}

/// Takes note of how far the rollout has come. One that waits for somebody is not late.
fn note_progress(tx: &mut Tx<'_>, id: JobId) {
    let looks: Vec<Look> = (0..tx.job(id).groups.len()).map(|at| Look::of(tx, id, at)).collect();
    let Some(first) = looks.first() else { return };
    let (strategy, now_ms) = (first.strategy, tx.now_ms);
    let waits = !first.rollout.promoted && looks.iter().all(Look::canaries_stand);
    let began_to_wait = waits && !first.rollout.waits;
    let best: Vec<(u32, u32, u32)> = looks
        .iter()
        .map(|look| {
            let (known, counts) = (look.group().best, look.counts);
            let old = look.old.len() as u32 + look.group().restore.len() as u32;
            (known.0.max(counts.updated), known.1.max(counts.updated_available), known.2.min(old))
        })
        .collect();
    let is_further = looks.iter().zip(&best).any(|(look, best)| look.group().best != *best);
    if is_further || waits || waits != first.rollout.waits || strategy.pause {
        change(tx, id, |rollout| {
            for (group, best) in rollout.groups.iter_mut().zip(best) {
                group.best = best;
            }
            (rollout.waits, rollout.progress_ms) = (waits, now_ms);
            rollout.stalled &= !is_further;
        });
    }
    if is_further {
        set_state(tx, id, RevisionState::Rolling);
    }
    if began_to_wait {
        tell_rollout(tx, id, RolloutStep::Waits);
    }
}

fn set_state(tx: &mut Tx<'_>, id: JobId, state: RevisionState) {
    let history = tx.job(id).rollouts.as_ref().map(|rollouts| &rollouts.history);
    if history.and_then(|history| history.last()).is_some_and(|last| last.state != state)
        && let Some(last) = tx.job_mut(id).rollouts.as_mut().and_then(|rollouts| rollouts.history.last_mut())
    {
        last.state = state;
    }
}

/// Says that the rollout has stalled, where it has; else sees to it that it is looked at again in time.
fn watch(tx: &mut Tx<'_>, id: JobId) {
    let job = Arc::clone(tx.job(id));
    let Some(rollout) = job.rollout() else { return };
    let strategy = rollout.declared.strategy();
    let stalls_ms = rollout.stalls_ms();
    if stalls_ms.is_some_and(|stalls_ms| stalls_ms <= tx.now_ms) {
        change(tx, id, |rollout| rollout.stalled = true);
        set_state(tx, id, RevisionState::Stalled);
        tell_rollout(tx, id, RolloutStep::Stalled { reason: what_lacks(tx, id) });
        tx.touch_job(id);
    }
    let ready_ms = strategy.min_ready_seconds.saturating_mul(1000);
    let tasks = job.groups.iter().flat_map(|group| group.tasks.iter());
    let ready = tasks.filter_map(|task| tx.runs.get(task.run)).filter_map(ready_since_ms);
    let becomes_available =
        ready.map(|since_ms| since_ms.saturating_add(ready_ms)).filter(|due_ms| *due_ms > tx.now_ms);
    let restore = rollout.groups.iter().flat_map(|group| group.restore.values());
    let given_up = restore.map(|former| rollout.restored_until_ms(former)).filter(|due_ms| *due_ms > tx.now_ms);
    let is_held = (0..job.groups.len()).any(|at| Look::of(tx, id, at).is_held_by_budget());
    let asks_again = is_held.then(|| tx.now_ms.saturating_add(BUDGET_AGAIN_MS));
    let stalls_ms = stalls_ms.filter(|stalls_ms| *stalls_ms > tx.now_ms);
    let due_ms = becomes_available.chain(stalls_ms).chain(given_up).chain(asks_again).min();
    let Some(due_ms) = due_ms else { return };
    if rollout.due_ms == 0 || due_ms < rollout.due_ms {
        change(tx, id, |rollout| rollout.due_ms = due_ms);
        tx.arm(due_ms, Timer::Rollout(id));
    }
}

fn what_lacks(cell: &Cell, id: JobId) -> String {
    let groups = cell.jobs.get(id).map_or(0, |job| job.groups.len());
    let lacks = (0..groups).map(|at| Look::of(cell, id, at)).filter(|look| !look.is_done()).map(|look| {
        let (group, available) = (&look.rollout.declared.groups[look.at], look.counts.updated_available);
        format!("{available} of {} tasks of group {} are of the revision and available", look.wanted(), group.name)
    });
    lacks.collect::<Vec<_>>().join("; ")
}

/// Takes a rollout back that has stalled, where its job wants it. Says whether it did.
fn reverts(tx: &mut Tx<'_>, id: JobId) -> bool {
    let job = Arc::clone(tx.job(id));
    let Some((rollouts, rollout)) = job.rollouts.as_ref().zip(job.rollout()) else { return false };
    if !rollout.stalled || rollout.reverts || !rollout.declared.strategy().auto_revert {
        return false;
    }
    let Some(stable) = rollouts.stable() else { return false };
    let (from, declared) = (rollout.number, made_as(&rollout.declared, &stable.spec));
    begin_rollout(tx, id, declared, "ohm", true);
    tell_rollout(tx, id, RolloutStep::Reverted { from });
    true
}

/// What is declared, with groups made of what they were made of in `former`.
pub(crate) fn made_as(declared: &JobSpec, former: &JobSpec) -> JobSpec {
    let mut spec = declared.clone();
    for (group, former) in spec.groups.iter_mut().zip(&former.groups) {
        *group = with_content(group, former, group.count);
    }
    spec
}
