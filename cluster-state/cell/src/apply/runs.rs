//! How runs start, are told to stop, and end. A run ends only by its agent's word or with its node.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::state::jobs::{Finish, Job, JobState, PastRun, TaskState};
use crate::state::repairs::{Losses, RepairState};
use crate::state::runs::{NO_RUN, Run};
use ohm_model::{
    ClassKind, EventKind, Exit, JobId, MESSAGE_CHARS_MAX, NodeId, RunReport, RunReportKind, SessionId, StopCause,
};
use ohm_stdx::canary::{self, Canary};
use std::sync::Arc;

/// The first back-off of a task that failed by itself; doubles with each failure.
pub(super) const BACK_OFF_MS: u64 = 1_000;
/// No back-off is longer.
pub(super) const BACK_OFF_MAX_MS: u64 = 300_000;
/// A task of a service that ran so long was well: its back-off begins anew (Kubernetes: ten minutes, too).
const HEALTHY_MS: u64 = 600_000;

impl Cell {
    pub(super) fn report(&mut self, node: NodeId, reports: &[RunReport], applied: &mut Applied) {
        let mut losses = Losses::default();
        for report in reports {
            let Some(slot) = self.live_slot(report.run) else {
                if let RunReportKind::Ended { .. } = report.kind {
                    self.kept_ended(report.run, node, applied);
                }
                continue;
            };
            if self.runs.get(slot).is_none_or(|run| run.node != node) {
                continue;
            }
            match &report.kind {
                RunReportKind::Started { pid } => self.run_started(slot, *pid, applied),
                RunReportKind::Ended { exit, message } => self.end_run(slot, *exit, message, &mut losses, applied),
            }
        }
        self.settle_losses(losses, applied);
    }

    pub(super) fn run_started(&mut self, slot: u32, pid: u32, applied: &mut Applied) {
        let now_ms = self.now_ms;
        let Some(run) = self.runs.slab.get_mut(slot) else { return };
        if run.started_ms != 0 {
            return;
        }
        (run.started_ms, run.pid) = (now_ms.max(1), pid);
        let (task, incarnation, node) = (run.run.task, run.run.incarnation, run.node);
        if let Some(job) = self.jobs.get_mut(task.job) {
            let group = &mut job.groups[usize::from(task.group.0)];
            group.running += 1;
            group.tasks[task.task.0 as usize].refusals = 0;
        }
        applied.jobs.push(task.job);
        let (job, group, task) = (task.job, task.group.0, task.task.0);
        self.tell(applied, EventKind::Started { job, group, task, incarnation, node });
        self.end_repair_of(job, group, task, true, applied);
    }

    /// Wishes that the run in `slot` stops. Its room stays taken until it has ended.
    pub(super) fn stop_run(&mut self, slot: u32, cause: StopCause, applied: &mut Applied) {
        let Some(run) = self.runs.slab.get_mut(slot) else { return };
        if run.stop.is_some() {
            return;
        }
        run.stop = Some(cause);
        let (task, incarnation, node) = (run.run.task, run.run.incarnation, run.node);
        if let Some(job) = self.jobs.get_mut(task.job) {
            job.groups[usize::from(task.group.0)].stopping += 1;
        }
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        applied.jobs.push(task.job);
        let (job, group, task) = (task.job, task.group.0, task.task.0);
        self.tell(applied, EventKind::Stopping { job, group, task, incarnation, node, cause });
        self.settle_left(job, node, applied);
    }

    /// Wishes that every live run of `job` stops.
    pub(super) fn stop_runs(&mut self, job: JobId, cause: StopCause, applied: &mut Applied) {
        let Some(found) = self.jobs.get(job) else { return };
        let live = found.groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
        let slots: Vec<u32> = live.map(|task| task.run).filter(|run| *run != NO_RUN).collect();
        slots.into_iter().for_each(|slot| self.stop_run(slot, cause, applied));
    }

    /// The run in `slot` is over: its room is free, and its task goes where its end sends it.
    pub(super) fn end_run(&mut self, slot: u32, exit: Exit, message: &str, losses: &mut Losses, applied: &mut Applied) {
        if self.restart_in_place(slot, exit, message, applied) {
            return;
        }
        let Some(run) = self.runs.remove(&mut self.nodes, slot) else { return };
        let (job_id, node) = (run.run.task.job, run.node);
        self.free_room(&run);
        self.nodes.touch(node, self.applied, SessionId(0));
        applied.nodes.push(node);
        applied.jobs.push(job_id);
        self.tell_ended(&run, exit, applied);
        let worth_keeping = exit != Exit::Code(0) || run.stop.is_some();
        let past = worth_keeping.then(|| self.past_run(&run, exit, message));
        let now_ms = self.now_ms;
        let (group, task) = (run.run.task.group.0, run.run.task.task.0);
        self.end_repair_of(job_id, group, task, false, applied);
        let Some(job) = self.jobs.get_mut(job_id) else { return };
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
        if let Some(past) = past {
            job.remember(past);
        }
        restart_if_down(job);
        let nothing_open = !lost && job.repairs.open.is_some() && job.repair_state() == RepairState::Whole;
        if job.live() == 0 || nothing_open {
            self.drop_repair(job_id);
        }
        if moves {
            self.arm_room(run.run.task, run.run.incarnation);
        }
        self.settle_left(job_id, node, applied);
        self.tell_drained(node, applied);
        let Some(job) = self.jobs.get(job_id) else { return };
        let (live, state, done) = (job.live(), job.state, job.is_done());
        match end {
            TaskEnd::BackOff(due_ms) => {
                let task = run.run.task;
                self.arm(due_ms, Timer::BackOff(task, run.run.incarnation));
            }
            TaskEnd::Fatal if state == JobState::Active => {
                let reason = format!(
                    "task {}/{} failed for good: {exit}{}{message}",
                    self.group_name(job_id, run.run.task.group.0),
                    run.run.task.task,
                    if message.is_empty() { "" } else { ": " },
                );
                self.finish_job(job_id, Finish::Failed, reason, StopCause::JobFailed, applied);
                return;
            }
            _ => {}
        }
        if done {
            self.finish_if_done(job_id, applied);
        } else if state == JobState::Active && live == 0 {
            self.tell_state(job_id, "", applied);
        }
    }

    fn group_name(&self, job: JobId, group: u16) -> String {
        let job = self.jobs.get(job);
        job.map_or_else(String::new, |job| job.spec.groups[usize::from(group)].name.clone())
    }

    pub(super) fn free_room(&mut self, run: &Run) {
        let Some(job) = self.jobs.get(run.run.task.job) else { return };
        let spec = Arc::clone(&job.spec);
        let charged = job.reserved.is_empty() && !spec.queue.is_empty();
        let Some(shape) = self.shapes.leave(run.shape) else { return };
        if charged {
            self.charge_queue(&spec.queue, shape.requests.iter().map(|&(resource, request)| (resource, -request)));
        }
        self.give_room(run.node, &shape, run.devices.as_deref().unwrap_or(&[]));
    }

    pub(super) fn tell_ended(&self, run: &Run, exit: Exit, applied: &mut Applied) {
        let (job, group, task) = (run.run.task.job, run.run.task.group.0, run.run.task.task.0);
        let (incarnation, node, cause) = (run.run.incarnation, run.node, run.stop);
        self.tell(applied, EventKind::Ended { job, group, task, incarnation, node, exit, cause });
    }

    pub(super) fn past_run(&self, run: &Run, exit: Exit, message: &str) -> PastRun {
        PastRun {
            group: run.run.task.group.0,
            task: run.run.task.task.0,
            incarnation: run.run.incarnation,
            revision: run.revision,
            node: self.nodes.name(run.node).to_string(),
            placed_ms: run.placed_ms,
            ended_ms: self.now_ms,
            exit,
            cause: run.stop,
            message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
        }
    }
}

/// Whether the job lost the run: neither its own doing nor anybody's wish, or a wish that says its node can't hold it.
fn is_loss(run: &Run, exit: Exit) -> bool {
    match run.stop {
        None => !exit.is_charged(),
        Some(cause) => matches!(cause, StopCause::NodeShrunk | StopCause::Drained | StopCause::Moved),
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
/// exit 0 (batch, tas) ────▶ Succeeded
/// not its own doing ──────▶ Pending, not charged
/// failed, service exit ───▶ BackingOff, then Pending; Failed when the retries are used up
/// ```
fn settle_task(job: &mut Job, run: &Run, exit: Exit, now_ms: u64) -> TaskEnd {
    let (spec, state, job_kind) = (Arc::clone(&job.spec), job.state, job.kind);
    let group = &mut job.groups[usize::from(run.run.task.group.0)];
    let index = run.run.task.task.0;
    let task = &mut group.tasks[index as usize];
    group.live -= 1;
    group.running -= u32::from(run.started_ms != 0);
    group.reshaped -= u32::from(run.shape != group.shape);
    group.stopping -= u32::from(run.stop.is_some());
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
    if run.stop.is_none() && exit == Exit::NeverStarted {
        // A node whose disk is full would be given the same task once a second for ever.
        task.refusals = task.refusals.saturating_add(1);
        task.state = TaskState::BackingOff;
        group.backing_off += 1;
        return TaskEnd::BackOff(now_ms.saturating_add(back_off_ms(task.refusals)));
    }
    let charged = exit.is_charged() || (exit == Exit::NodeLost && canary::sings(Canary::ChargeLostNodes));
    if run.stop.is_some() || !charged {
        task.state = TaskState::Pending;
        group.pending.insert(index, 1);
        return TaskEnd::Settled;
    }
    if exit.is_success() && !is_service {
        task.state = TaskState::Succeeded;
        group.succeeded += 1;
        return TaskEnd::Settled;
    }
    let ran_ms = if run.started_ms == 0 { 0 } else { now_ms.saturating_sub(run.started_ms) };
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

/// How long a task waits after it failed `times` times.
fn back_off_ms(times: u32) -> u64 {
    (BACK_OFF_MS << times.saturating_sub(1).min(20)).min(BACK_OFF_MAX_MS)
}

/// A job that holds nothing any more starts again as it did the first time: whole, and with the tasks it had left out.
pub(super) fn restart_if_down(job: &mut Job) {
    if job.state != JobState::Active && job.state != JobState::Suspended {
        return;
    }
    let whole = job.starts_whole();
    if whole && job.live() > 0 {
        return;
    }
    let spec = Arc::clone(&job.spec);
    for (group, spec) in job.groups.iter_mut().zip(&spec.groups) {
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
