//! Stamped time passing. Nothing safe hangs on it: back-offs, deadlines, nominations and forgetting only.

use crate::apply::Tx;
use crate::apply::forget_job::forget_job;
use crate::apply::steps::health::end_wait_in_place;
use crate::apply::steps::holds::sweep_nominations;
use crate::apply::steps::jobs::finish_job;
use crate::policy::admission::admission_due;
use crate::policy::brought::end_idle;
use crate::policy::claims::end_claims;
use crate::policy::conditions::end_hold_down;
use crate::policy::evictions::end_drain;
use crate::policy::heads::end_heads_on;
use crate::policy::moves::end_room;
use crate::policy::preemptions::end_kept;
use crate::policy::ready::ready_due;
use crate::policy::repair::end_waiting;
use crate::policy::repair_requests::requests_due;
use crate::policy::rollout::rollout_due;
use crate::policy::start_deadlines::start_deadline_due;
use crate::policy::tolerations::end_tolerations;
use crate::rooms::nominations::Held;
use crate::state::jobs::{Finish, JobState, TaskState};
use crate::state::timers::Timer;
use ohm_model::{Incarnation, JobId, RunRef, StopCause, TaskRef};

/// How long a finished job that still has stopping runs is looked at again.
const FORGET_AGAIN_MS: u64 = 10_000;

pub(crate) fn tick(tx: &mut Tx<'_>) {
    while let Some(entry) = tx.cell.timers.first_entry()
        && *entry.key() <= tx.cell.now_ms
    {
        let due = entry.remove();
        due.iter().for_each(|timer| fire(tx, *timer));
    }
    tx.cell.sessions.expire(tx.cell.now_ms);
}

fn fire(tx: &mut Tx<'_>, timer: Timer) {
    match timer {
        Timer::BackOff(task, incarnation) => end_back_off(tx, task, incarnation),
        Timer::Deadline(job) => check_deadline(tx, job),
        Timer::Forget(job) => {
            if !forget_job(tx, job) {
                tx.arm(tx.now_ms.saturating_add(FORGET_AGAIN_MS), Timer::Forget(job));
            }
        }
        Timer::Admission(job, round) => admission_due(tx, job, round),
        Timer::Repair(job, since) => end_waiting(tx, job, since),
        Timer::HoldDown(node) => end_hold_down(tx, node),
        Timer::Drain(node) => end_drain(tx, node),
        Timer::Toleration(node) => end_tolerations(tx, node),
        Timer::Room(task, incarnation) => end_room(tx, task, incarnation),
        Timer::Claim(job) => end_claims(tx, job),
        Timer::RepairRequest(job) => requests_due(tx, job),
        Timer::Preemption(job) => end_kept(tx, job),
        Timer::Idle(node) => end_idle(tx, node),
        Timer::StartDeadline(job) => start_deadline_due(tx, job),
        Timer::Ready(job) => ready_due(tx, job),
        Timer::Rollout(job) => rollout_due(tx, job),
        Timer::Start(task, incarnation) => end_wait_in_place(tx, RunRef { task, incarnation }),
        Timer::Nomination(node) => {
            let now_ms = tx.now_ms;
            let is_over = |held: &Held| held.ends_ms().is_some_and(|ends_ms| ends_ms <= now_ms);
            end_heads_on(tx, node, "its time is over", |_, held| is_over(held));
            if sweep_nominations(tx, node, |held| !is_over(held)) {
                tx.touch_node(node);
            }
        }
    }
}

fn end_back_off(tx: &mut Tx<'_>, task: TaskRef, incarnation: Incarnation) {
    // The job may be forgotten by now, and an update may have taken the group or the task away.
    let Some(job) = tx.jobs.get_mut(task.job) else { return };
    let Some(group) = job.groups.get_mut(usize::from(task.group.0)) else { return };
    let Some(found) = group.tasks.get_mut(task.task.0 as usize) else { return };
    if found.state == TaskState::BackingOff && found.incarnation == incarnation {
        found.state = TaskState::Pending;
        group.pending.insert(task.task.0, 1);
        group.backing_off -= 1;
        tx.touch_job(task.job);
    }
}

fn check_deadline(tx: &mut Tx<'_>, job: JobId) {
    // The job may be forgotten by now.
    let Some(found) = tx.jobs.get(job) else { return };
    let over = found.deadline_ms().is_some_and(|due_ms| due_ms <= tx.now_ms);
    if found.state == JobState::Active && over {
        let seconds = found.spec.active_deadline_seconds;
        let reason = format!("ran longer than activeDeadlineSeconds ({seconds})");
        finish_job(tx, job, Finish::Failed, reason, StopCause::DeadlineExceeded);
    }
}
