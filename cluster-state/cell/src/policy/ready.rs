//! Ready timeouts (`readyTimeout` of a queue): what is placed of a job and is not ready in time is taken back.
//!
//! ```text
//! placed ─▶ timeoutSeconds to be ready ──────────┐
//! ready no more ─▶ recoveryTimeoutSeconds ───────┴▶ stopped whole, uncharged; backs off, twice as long each time
//!                                                   └─ more often than backoffLimit in a row ─▶ suspended
//! ```
//! The time runs while the job is active, has a queue, and something of it stands that is not to stop. It is the
//! queue's as it is now: where that is put anew, so is the time by which a job is to be ready, and where it is taken
//! away nobody backs off any more. What starts anew after nothing of it stood has `timeoutSeconds`. A job that was
//! stopped so queues by the entry that stopped it. Its time-outs are forgotten when it is ready, resumed or updated.
//!
//! Invariants, swept: a job has a time to be ready by exactly while it is to have one, and will be looked at by then;
//! it backs off only while its queue gives such a time.

use crate::apply::Tx;
use crate::apply::steps::jobs::{forget_ready_timeouts, set_state, tell_state};
use crate::cell::Cell;
use crate::policy::stops::stop_whole;
use crate::state::jobs::{Group, Job, JobState};
use crate::state::ready::Readiness;
use crate::state::timers::Timer;
use ohm_model::{EventKind, GroupSpec, JobId, QueueSpec, ReadyTimeout, ReadyTimeoutEvent, StopCause};
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Brings up to date what is known of the jobs that the command named.
pub(crate) fn settle_readiness(tx: &mut Tx<'_>) {
    // A command names a job once for each of its runs.
    let touched: BTreeSet<JobId> = tx.touched_jobs().iter().copied().collect();
    for id in touched {
        let Some(job) = tx.cell.jobs.get(id) else { continue };
        let (former, now) = (job.readiness, readiness_of(tx, job));
        if former == now {
            continue;
        }
        if now.timeouts == 0 {
            forget_ready_timeouts(tx, id);
        }
        tx.job_mut(id).readiness = now;
        if now.due_ms != former.due_ms && now.due_ms > 0 {
            tx.arm(now.due_ms, Timer::Ready(id));
        }
    }
}

/// What is to be known of the readiness of `job` now, after what was known of it before.
pub(crate) fn readiness_of(cell: &Cell, job: &Job) -> Readiness {
    let (mut known, timeout) = (job.readiness, timeout_of(cell, job));
    if timeout.is_none() {
        (known.timeouts, known.until_ms) = (0, 0);
    }
    if job.state != JobState::Active || job.spec.queue.is_empty() || !job.stands() {
        let is_over = matches!(job.state, JobState::Finished(_));
        let until_ms = if is_over { 0 } else { known.until_ms };
        return Readiness { timeouts: known.timeouts, until_ms, ..Readiness::default() };
    }
    if is_ready(cell, job) {
        return Readiness { was_ready: true, ..Readiness::default() };
    }
    if known.unready_since_ms == 0 {
        known.unready_since_ms = cell.now_ms.max(1);
    }
    let seconds = timeout.map(|timeout| timeout.seconds(known.was_ready));
    known.due_ms = seconds.map_or(0, |seconds| {
        let seconds = if bug::is_planted(Bug::HasteReadyTimeout) { seconds.div_ceil(2) } else { seconds };
        known.unready_since_ms.saturating_add(seconds.saturating_mul(1000))
    });
    known
}

/// The ready timeout of the job's queue.
pub(crate) fn timeout_of(cell: &Cell, job: &Job) -> Option<ReadyTimeout> {
    cell.quota.get(&job.spec.queue)?.spec.ready_timeout.as_deref().copied()
}

/// The queue that was put gives other times than before to what stands, or none to what waits for them.
pub(crate) fn retime_jobs(tx: &mut Tx<'_>, spec: &QueueSpec) {
    let of_queue = |job: &&Arc<Job>| {
        let has_times = job.live() > 0 || job.readiness.timeouts > 0;
        job.spec.queue == spec.name && has_times
    };
    let jobs: Vec<JobId> = tx.jobs.iter().filter(of_queue).map(|job| job.id).collect();
    jobs.into_iter().for_each(|id| tx.touch_job(id));
}

/// The time of a job to be ready, or to wait because it was not, may be over.
pub(crate) fn ready_due(tx: &mut Tx<'_>, id: JobId) {
    // The job may be forgotten by now, or have another time.
    let Some(job) = tx.jobs.get(id) else { return };
    let (known, now_ms) = (job.readiness, tx.now_ms);
    if known.backs_off() && known.until_ms <= now_ms {
        tx.job_mut(id).readiness.until_ms = 0;
        tx.touch_job(id);
    }
    // What an earlier command of the tick did to the job is settled after it.
    let is_late = known.due_ms > 0 && known.due_ms <= now_ms;
    if is_late && readiness_of(tx, tx.job(id)).due_ms == known.due_ms {
        time_out(tx, id);
    }
}

/// The job is not ready in time: it is stopped whole, and waits, or is suspended.
fn time_out(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    let Some(timeout) = timeout_of(tx, job) else { return };
    let (name, queue) = (job.spec.name.clone(), job.spec.queue.clone());
    let seconds = timeout.seconds(job.readiness.was_ready);
    let attempt = job.readiness.timeouts.saturating_add(1);
    let is_last = timeout.is_last(attempt);
    let until_ms = if is_last { 0 } else { tx.now_ms.saturating_add(timeout.backoff_ms(attempt)) };
    let limit = timeout.backoff_limit;
    let reason = reason_of(&name, seconds, attempt, limit, is_last);
    stop_whole(tx, id, StopCause::ReadyTimeout, &reason);
    let version = tx.index();
    let job = tx.job_mut(id);
    (job.version, job.queued, job.reason) = (version, version, reason.clone());
    (job.readiness.timeouts, job.readiness.until_ms) = (attempt, until_ms);
    tx.touch_job(id);
    tx.tell(EventKind::ReadyTimeout(ReadyTimeoutEvent { job: id, name, queue, seconds, attempt, limit, until_ms }));
    if is_last {
        set_state(tx, id, JobState::Suspended, reason.clone());
        tell_state(tx, id, &reason);
    } else {
        tx.arm(until_ms, Timer::Ready(id));
    }
}

/// What happened, for people. Who may be late `limit` times has one attempt more than that.
fn reason_of(name: &str, seconds: u64, attempt: u32, limit: Option<u32>, is_last: bool) -> String {
    let late = format!("not ready within {seconds} s (readyTimeout), attempt {attempt}");
    match limit {
        Some(limit) if is_last => {
            format!("{late} and the last (backoffLimit {limit}); `ohm resume {name}` has it start again")
        }
        Some(limit) => format!("{late} of {}", u64::from(limit) + 1),
        None => late,
    }
}

/// Whether each group of `job` has at least the tasks running that it is to have now.
fn is_ready(cell: &Cell, job: &Job) -> bool {
    let mut groups = job.groups.iter().zip(&job.spec.groups);
    groups.all(|(group, spec)| running(cell, group, spec) >= to_run(job, group, spec))
}

/// How many tasks of the group are to run: of an elastic one, or of a service, its minimum, as others may wait for room
/// as long as they like; of any other all that it was started with, but for those that are over. One that has not
/// started yet needs none.
fn to_run(job: &Job, group: &Group, spec: &GroupSpec) -> u32 {
    match spec.elastic || !job.starts_whole() {
        _ if !group.started && group.live == 0 => 0,
        true => group.needed(spec),
        false => spec.count.saturating_sub(group.succeeded + group.failed + group.skipped),
    }
}

/// How many run and are ready by their probes, those beyond the count not among them.
fn running(cell: &Cell, group: &Group, spec: &GroupSpec) -> u32 {
    if group.leaving == 0 {
        return group.ready();
    }
    let beyond = (spec.count as usize..group.tasks.len()).filter_map(|task| group.tasks.get(task));
    let ready = beyond.filter(|task| cell.runs.get(task.run).is_some_and(|run| run.is_ready()));
    group.ready().saturating_sub(ready.count() as u32)
}
