//! Stamped time passing. Nothing safe hangs on it: back-offs, deadlines, nominations and forgetting only.

use super::Applied;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::{Finish, JobState, TaskState};
use ohm_model::{Incarnation, Index, JobId, NodeId, Purpose, SessionId, StopCause, TaskRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to look at when its time has come. Whatever changed meanwhile is checked then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Timer {
    /// A task may be placed again.
    BackOff(TaskRef, Incarnation),
    /// A job may have run too long.
    Deadline(JobId),
    /// A finished job may be forgotten.
    Forget(JobId),
    /// A nomination may have ended.
    Nomination(NodeId),
    /// A gang may have waited for its repair for too long, since this loss.
    Repair(JobId, Index),
    /// A node may have been held down for long enough.
    HoldDown(NodeId),
    /// The wait before a job's next round of admission may be over, or the time of one of this round's checks.
    Admission(JobId, u32),
    /// What still stands on a node that drains may have to stop.
    Drain(NodeId),
    /// A task on the move that has ended may keep its room no longer.
    Room(TaskRef, Incarnation),
}

/// How long a finished job that still has stopping runs is looked at again.
const FORGET_AGAIN_MS: u64 = 10_000;

impl Cell {
    /// Puts `timer` on at `due_ms`, rounded up so that many share one slot: to 64 ms, far ones to about a minute.
    pub(super) fn arm(&mut self, due_ms: u64, timer: Timer) {
        let far = due_ms.saturating_sub(self.now_ms) > 600_000;
        let grid = if far { 65_536 } else { 64 };
        let due_ms = due_ms.saturating_add(grid - 1) / grid * grid;
        Arc::make_mut(self.timers.entry(due_ms).or_default()).push(timer);
    }

    pub(super) fn arm_deadline(&mut self, job: JobId) {
        let Some(found) = self.jobs.get(job) else { return };
        let seconds = found.spec.active_deadline_seconds;
        if seconds > 0 {
            self.arm(found.started_ms.saturating_add(seconds.saturating_mul(1000)), Timer::Deadline(job));
        }
    }

    /// A resumed job has its whole time again, as in Kubernetes; the time-out of before may have passed meanwhile.
    pub(super) fn restart_deadline(&mut self, job: JobId) {
        let now_ms = self.now_ms.max(1);
        if let Some(found) = self.jobs.get_mut(job)
            && found.started_ms > 0
        {
            found.started_ms = now_ms;
            self.arm_deadline(job);
        }
    }

    pub(super) fn arm_nomination(&mut self, node: NodeId, expires_ms: u64) {
        self.arm(expires_ms, Timer::Nomination(node));
    }

    pub(super) fn tick(&mut self, applied: &mut Applied) {
        while let Some(entry) = self.timers.first_entry()
            && *entry.key() <= self.now_ms
        {
            let due = entry.remove();
            due.iter().for_each(|timer| self.fire(*timer, applied));
        }
        self.sessions.expire(self.now_ms);
    }

    fn fire(&mut self, timer: Timer, applied: &mut Applied) {
        match timer {
            Timer::BackOff(task, incarnation) => self.end_back_off(task, incarnation, applied),
            Timer::Deadline(job) => self.check_deadline(job, applied),
            Timer::Forget(job) => {
                if !self.forget_job(job, applied) {
                    self.arm(self.now_ms.saturating_add(FORGET_AGAIN_MS), Timer::Forget(job));
                }
            }
            Timer::Admission(job, round) => self.admission_due(job, round, applied),
            Timer::Repair(job, since) => self.end_waiting(job, since, applied),
            Timer::HoldDown(node) => self.end_hold_down(node, applied),
            Timer::Drain(node) => self.end_drain(node, applied),
            Timer::Room(task, incarnation) => self.end_room(task, incarnation, applied),
            Timer::Nomination(node) => {
                let now_ms = self.now_ms;
                let is_over =
                    |held: &Held| matches!(held.purpose, Purpose::Preemptor { expires_ms } if expires_ms <= now_ms);
                if self.sweep_nominations(node, |held| !is_over(held)) {
                    self.nodes.touch(node, self.applied, SessionId(0));
                    applied.nodes.push(node);
                }
            }
        }
    }

    fn end_back_off(&mut self, task: TaskRef, incarnation: Incarnation, applied: &mut Applied) {
        let Some(job) = self.jobs.get_mut(task.job) else { return };
        // An update may have taken the group or the task away.
        let Some(group) = job.groups.get_mut(usize::from(task.group.0)) else { return };
        let Some(found) = group.tasks.get_mut(task.task.0 as usize) else { return };
        if found.state == TaskState::BackingOff && found.incarnation == incarnation {
            found.state = TaskState::Pending;
            group.pending.insert(task.task.0, 1);
            group.backing_off -= 1;
            applied.jobs.push(task.job);
        }
    }

    fn check_deadline(&mut self, job: JobId, applied: &mut Applied) {
        let Some(found) = self.jobs.get(job) else { return };
        let seconds = found.spec.active_deadline_seconds;
        let over = found.started_ms.saturating_add(seconds.saturating_mul(1000)) <= self.now_ms;
        if found.state == JobState::Active && seconds > 0 && over {
            let reason = format!("ran longer than activeDeadlineSeconds ({seconds})");
            self.finish_job(job, Finish::Failed, reason, StopCause::DeadlineExceeded, applied);
        }
    }
}
