//! A run is over: its room is free, its task goes where its end sends it, or it starts again where it was.

use crate::apply::Tx;
use crate::apply::steps::budgets::{note_gone, note_healthy};
use crate::apply::steps::health::counts;
use crate::apply::steps::holds::arm_room;
use crate::apply::steps::jobs::{finish_if_done, finish_job, tell_state};
use crate::apply::steps::leaving::{settle_left, tell_drained};
use crate::apply::steps::repairs::{drop_repair, end_repair_of};
use crate::apply::steps::room::give_room;
use crate::apply::steps::runs::{past_run, tell_ended};
use crate::apply::steps::task_counts::count_ended;
use crate::state::budgets::health::is_healthy;
use crate::state::health::RunHealth;
use crate::state::jobs::{Finish, Job, JobState, TaskState};
use crate::state::repairs::{Losses, RepairState};
use crate::state::rollouts::Former;
use crate::state::runs::{NO_RUN, Run};
use crate::state::timers::Timer;
use ohm_model::{
    ClassKind, EventKind, Exit, Incarnation, MESSAGE_CHARS_MAX, NodeHealth, NodeId, StopCause, UnhealthyEvent,
};
use ohm_stdx::bug::{self, Bug};
use std::sync::Arc;

/// The first back-off of a task that failed by itself; doubles with each failure.
const BACK_OFF_MS: u64 = 1_000;

/// No back-off is longer.
const BACK_OFF_MAX_MS: u64 = 300_000;

/// What ran so long was well: its back-off begins anew (Kubernetes: ten minutes, too).
const HEALTHY_MS: u64 = 600_000;

/// The run in `slot` is over: its room is free, and its task goes where its end sends it.
pub(crate) fn end_run(tx: &mut Tx<'_>, slot: u32, exit: Exit, message: &str, losses: &mut Losses) {
    if restart_in_place(tx, slot, exit, message) || restart_unhealthy(tx, slot, exit, message) {
        return;
    }
    let Some(run) = tx.cell.runs.remove(&mut tx.cell.nodes, slot) else { tx.stop("a run that ends") };
    let (job_id, node) = (run.run.task.job, run.node);
    free_room(tx, &run);
    tx.touch_node(node);
    tx.touch_job(job_id);
    tell_ended(tx, &run, exit);
    let worth_keeping = exit != Exit::Code(0) || run.stop.is_some();
    let past = worth_keeping.then(|| past_run(tx, &run, exit, message));
    let now_ms = tx.now_ms;
    let (group, task) = (run.run.task.group.0, run.run.task.task.0);
    end_repair_of(tx, job_id, group, task, false);
    let job = tx.job_mut(job_id);
    let leaves = task >= job.spec.groups[usize::from(group)].count;
    let lost = job.state == JobState::Active && !leaves && is_loss(&run, exit);
    if lost {
        let loss = losses.by_job.entry(job_id).or_default();
        loss.tasks.push((group, task));
        loss.nodes.insert(node);
        loss.moving += job.groups[usize::from(group)].moving.overlap(task, 1);
    }
    let moves = job.groups[usize::from(group)].moving.contains(task, 1);
    let end = settle_task(job, &run, exit, now_ms);
    note_former(job, &run, exit, now_ms);
    if let Some(past) = past {
        job.remember(past);
    }
    restart_if_down(job);
    let nothing_open = !lost && job.repairs.open.is_some() && job.repair_state() == RepairState::Whole;
    if job.live() == 0 || nothing_open {
        drop_repair(tx, job_id);
    }
    if moves {
        arm_room(tx, run.run.task, run.run.incarnation);
    }
    settle_left(tx, job_id, node);
    tell_drained(tx, node);
    let job = tx.job(job_id);
    let (live, state, done) = (job.live(), job.state, job.is_done());
    match end {
        TaskEnd::BackOff(due_ms) => {
            let task = run.run.task;
            tx.arm(due_ms, Timer::BackOff(task, run.run.incarnation));
        }
        TaskEnd::Fatal if state == JobState::Active => {
            let reason = format!(
                "task {}/{} failed for good: {exit}{}{message}",
                job.spec.groups[usize::from(group)].name,
                run.run.task.task,
                if message.is_empty() { "" } else { ": " },
            );
            finish_job(tx, job_id, Finish::Failed, reason, StopCause::JobFailed);
            return;
        }
        _ => {}
    }
    if done {
        finish_if_done(tx, job_id);
    } else if state == JobState::Active && live == 0 {
        tell_state(tx, job_id, "");
    }
}

/// A task that waits because its rollout did not wish it is placed again as the revision that it was of. What its
/// rollout stopped becomes something else, and begins without failures.
fn note_former(job: &mut Job, run: &Run, exit: Exit, now_ms: u64) {
    let (at, index) = (usize::from(run.run.task.group.0), run.run.task.task.0);
    let Some(rollout) = job.rollouts.as_mut().and_then(|rollouts| rollouts.open.as_mut()) else { return };
    let Some(task) = job.groups[at].tasks.get_mut(index as usize) else { return };
    let group = &mut rollout.groups[at];
    if run.stop == Some(StopCause::RolledOut) {
        (task.failures, task.refusals) = (0, 0);
        return;
    }
    let waits = matches!(task.state, TaskState::Pending | TaskState::BackingOff);
    if waits && run.revision != group.target && !bug::is_planted(Bug::RestoreAsTarget) {
        group.restore.insert(index, Former { revision: run.revision, lost: is_loss(run, exit), since_ms: now_ms });
    }
}

pub(crate) fn end_runs_on(tx: &mut Tx<'_>, node: NodeId, exit: Exit, losses: &mut Losses) {
    let mut slots: Vec<u32> = tx.runs.on_node(&tx.nodes, node).map(|(slot, _)| slot).collect();
    slots.reverse();
    slots.into_iter().for_each(|slot| end_run(tx, slot, exit, "", losses));
}

pub(crate) fn free_room(tx: &mut Tx<'_>, run: &Run) {
    let job = tx.job(run.run.task.job);
    let charged = (job.reserved.is_empty() && !job.spec.queue.is_empty()).then(|| Arc::clone(&job.spec));
    let Some(shape) = tx.shapes.leave(run.shape) else { tx.stop("the shape of a run") };
    if let Some(spec) = charged {
        tx.charge_queue(&spec.queue, shape.charges.iter().map(|&(column, request)| (column, -request)));
    }
    give_room(tx, run.node, &shape, run.devices.as_deref().unwrap_or(&[]));
    count_ended(tx, run);
    note_gone(tx, run);
}

/// Whether the job lost the run: neither its own doing nor anybody's wish, or a wish that says its node can't hold it.
fn is_loss(run: &Run, exit: Exit) -> bool {
    match run.stop {
        None => !exit.is_charged(),
        Some(cause) => cause.is_loss(),
    }
}

/// Where the end of a run sends its task.
enum TaskEnd {
    Settled,
    BackOff(u64),
    Fatal,
}

/// ```text
/// beyond the count ────────▶ Removed, for good
/// job over ───────────────▶ Succeeded (exit 0, not stopped) or Stopped
/// stopped by wish ────────▶ Pending, not charged
/// not started by its node ▶ BackingOff, not charged
/// ended with the lease ───▶ BackingOff, not charged
/// exit 0 (batch, tas) ────▶ Succeeded
/// not its own doing ──────▶ Pending, not charged
/// failed, service exit ───▶ BackingOff, then Pending; Failed when the retries are used up
/// ended by a probe ───────▶ as failed unless it starts again in place; not charged by `onUnhealthy: Ignore`
/// ```
fn settle_task(job: &mut Job, run: &Run, exit: Exit, now_ms: u64) -> TaskEnd {
    let counts = counts(job, (usize::from(run.run.task.group.0), run.revision), exit);
    let (spec, state, job_kind) = (&job.spec, job.state, job.kind);
    let group = &mut job.groups[usize::from(run.run.task.group.0)];
    let index = run.run.task.task.0;
    let task = &mut group.tasks[index as usize];
    group.live -= 1;
    group.running -= u32::from(run.started_ms != 0);
    group.unready -= u32::from(run.is_unready());
    group.reshaped -= u32::from(run.shape != group.shape);
    group.stopping -= u32::from(run.stop.is_some());
    group.driven -= u32::from(run.stop.is_some_and(StopCause::is_loss));
    if group.live == 0 {
        (group.domain, group.widened) = (None, false);
    }
    (task.run, task.exit) = (NO_RUN, Some(exit));
    let count = spec.groups[usize::from(run.run.task.group.0)].count;
    if index >= count {
        task.state = TaskState::Removed;
        group.leaving -= 1;
        group.drop_removed(count);
        return TaskEnd::Settled;
    }
    if let JobState::Finished(_) = state {
        task.state = if exit.is_success() && run.stop.is_none() { TaskState::Succeeded } else { TaskState::Stopped };
        group.succeeded += u32::from(task.state == TaskState::Succeeded);
        return TaskEnd::Settled;
    }
    let is_service = job_kind == ClassKind::Service;
    let ran_ms = ran_ms(run, now_ms);
    let is_ignored = exit == Exit::Unhealthy && !counts;
    let is_refused = run.stop.is_none() && (is_ignored || matches!(exit, Exit::NeverStarted | Exit::LeaseExpired));
    if run.started_ms != 0 && (!is_refused || ran_ms >= HEALTHY_MS) {
        task.refusals = 0;
    }
    if is_refused {
        // A node whose disk is full would be given the same task once a second for ever, and one whose leases run out
        // would start and end it as often.
        task.refusals = task.refusals.saturating_add(1);
        task.state = TaskState::BackingOff;
        group.backing_off += 1;
        return TaskEnd::BackOff(now_ms.saturating_add(back_off_ms(task.refusals)));
    }
    if run.stop.is_some() || !exit.is_charged() {
        task.state = TaskState::Pending;
        group.pending.insert(index, 1);
        return TaskEnd::Settled;
    }
    if exit.is_success() && !is_service {
        task.state = TaskState::Succeeded;
        group.succeeded += 1;
        return TaskEnd::Settled;
    }
    if is_service && ran_ms >= HEALTHY_MS {
        task.failures = 0;
    }
    task.failures = task.failures.saturating_add(1);
    if !is_service && task.failures > spec.retries {
        task.state = TaskState::Failed;
        group.failed += 1;
        return TaskEnd::Fatal;
    }
    task.state = TaskState::BackingOff;
    group.backing_off += 1;
    TaskEnd::BackOff(now_ms.saturating_add(back_off_ms(task.failures)))
}

/// How long the run has run; 0 where it did not.
fn ran_ms(run: &Run, now_ms: u64) -> u64 {
    if run.started_ms == 0 { 0 } else { now_ms.saturating_sub(run.started_ms) }
}

/// How long a task waits after it failed `times` times.
fn back_off_ms(times: u32) -> u64 {
    (BACK_OFF_MS << times.saturating_sub(1).min(20)).min(BACK_OFF_MAX_MS)
}

/// A job that holds nothing any more starts again as it did the first time: whole, and with the tasks it had left out.
pub(crate) fn restart_if_down(job: &mut Job) {
    if job.state != JobState::Active && job.state != JobState::Suspended {
        return;
    }
    let whole = job.starts_whole();
    if whole && job.live() > 0 {
        return;
    }
    for (group, spec) in job.groups.iter_mut().zip(&job.spec.groups) {
        if group.live > 0 || !group.started || group.is_over(spec) {
            continue;
        }
        group.started = false;
        (group.lost, group.replaced) = Default::default();
        for index in 0..group.tasks.len() {
            if group.skipped == 0 {
                break;
            }
            if group.tasks[index].state == TaskState::Skipped {
                group.tasks[index].state = TaskState::Pending;
                group.pending.insert(index as u32, 1);
                group.skipped -= 1;
            }
        }
    }
}

/// The run in `slot` ended; whether it started again where it was. What ended with its node, or is to stop, does
/// not.
fn restart_in_place(tx: &mut Tx<'_>, slot: u32, exit: Exit, message: &str) -> bool {
    let by_itself = exit.is_charged() || exit == Exit::NeverStarted;
    let run = tx.run(slot);
    if !run.restart || run.stop.is_some() || !by_itself {
        return false;
    }
    let (id, group, index, node) = (run.run.task.job, run.run.task.group.0, run.run.task.task.0, run.node);
    if tx.job(id).state != JobState::Active || tx.record(node).health == NodeHealth::Lost {
        return false;
    }
    let ended = run.clone();
    tx.job_mut(id).groups[usize::from(group)].tasks[index as usize].refusals = 0;
    begin_anew(tx, slot, &ended, (exit, message), 0);
    true
}

/// A probe ended the run in `slot`; whether its task starts again where it was, after its back-off. Not where it is to
/// stop, its retries are used up, or its group is made of something else by now.
fn restart_unhealthy(tx: &mut Tx<'_>, slot: u32, exit: Exit, message: &str) -> bool {
    let run = tx.run(slot);
    if exit != Exit::Unhealthy || run.stop.is_some() {
        return false;
    }
    let (id, at, index) = (run.run.task.job, usize::from(run.run.task.group.0), run.run.task.task.0);
    let (job, ran_ms) = (tx.job(id), ran_ms(run, tx.now_ms));
    let (group, is_service) = (&job.groups[at], job.kind == ClassKind::Service);
    let stays = job.state == JobState::Active && tx.record(run.node).health != NodeHealth::Lost;
    let is_same = (run.shape, run.revision) == (group.shape, group.revision);
    let counts = counts(job, (at, group.revision), exit);
    let is_last = counts && !is_service && group.tasks[index as usize].failures >= job.spec.retries;
    if !stays || !is_same || is_last {
        return false;
    }
    let (ended, is_well) = (run.clone(), ran_ms >= HEALTHY_MS);
    let task = &mut tx.job_mut(id).groups[at].tasks[index as usize];
    let times = if counts { &mut task.failures } else { &mut task.refusals };
    let earlier = if is_well && (is_service || !counts) { 0 } else { *times };
    *times = earlier.saturating_add(1);
    let back_off_ms = back_off_ms(*times);
    let starts_ms = tx.now_ms.saturating_add(back_off_ms).max(1);
    begin_anew(tx, slot, &ended, (exit, message), starts_ms);
    let task = ended.run.task;
    let incarnation = tx.run(slot).run.incarnation;
    tx.arm(starts_ms, Timer::Start(task, incarnation));
    tx.tell(EventKind::Unhealthy(UnhealthyEvent {
        job: id,
        group: task.group.0,
        task: index,
        incarnation: ended.run.incarnation,
        node: ended.node,
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
        back_off_ms,
    }));
    true
}

/// The task of the run in `slot` is given its next attempt there, in place of the one that `ended`: its room is free at
/// no time. It is started after `starts_ms`.
fn begin_anew(tx: &mut Tx<'_>, slot: u32, ended: &Run, (exit, message): (Exit, &str), starts_ms: u64) {
    let mut ended = ended.clone();
    ended.stop = Some(StopCause::Restarted);
    let ended = &ended;
    let (id, group, index, node) = (ended.run.task.job, ended.run.task.group.0, ended.run.task.task.0, ended.node);
    tell_ended(tx, ended, exit);
    let past = past_run(tx, ended, exit, message);
    let (placed, placed_ms) = (tx.index(), tx.now_ms);
    let job = tx.job_mut(id);
    job.remember(past);
    let found = &mut job.groups[usize::from(group)];
    found.running -= u32::from(ended.started_ms != 0);
    found.unready -= u32::from(ended.is_unready());
    let task = &mut found.tasks[index as usize];
    task.attempts = Incarnation(task.attempts.0 + 1);
    task.incarnation = task.attempts;
    task.exit = Some(exit);
    let incarnation = task.incarnation;
    let run = tx.run_mut(slot);
    let was_healthy = is_healthy(run);
    run.run.incarnation = incarnation;
    (run.placed, run.placed_ms, run.started_ms, run.pid, run.restart) = (placed, placed_ms, 0, 0, false);
    run.health = (starts_ms > 0).then(|| Box::new(RunHealth { starts_ms, ..RunHealth::default() }));
    note_healthy(tx, slot, was_healthy);
    tx.touch_node(node);
    tx.touch_job(id);
    tx.tell(EventKind::Placed { job: id, group, first: index, count: 1, node });
}
