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

mod look;
mod replace;

use self::look::{Look, change, open};
use self::replace::{give_up_late, replace_old};
use crate::apply::Tx;
use crate::apply::steps::aims::{Aim, aim_groups, hold_tasks, tell_rollout};
use crate::apply::steps::budgets::settle_budgets;
use crate::apply::steps::revisions::{begin_rollout, end_rollout};
use crate::cell::Cell;
use crate::state::job_rollouts::ready_since_ms;
use crate::state::jobs::{JobState, TaskState};
use crate::state::rollouts::{RevisionState, with_content};
use crate::state::timers::Timer;
use ohm_model::{JobId, JobSpec, RolloutStep};
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
        give_up_late(tx, id, at);
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
