//! How jobs change their state, end, and give back what is reserved or kept for them.

use crate::apply::Tx;
use crate::apply::steps::holds::{drop_moves, sweep_nominations};
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::drop_repair;
use crate::apply::steps::rounds::end_round;
use crate::apply::steps::runs::stop_runs;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::flavors::Charges;
use crate::state::jobs::{Finish, JobState, TaskState};
use crate::state::requests::live_request;
use crate::state::timers::Timer;
use ohm_model::{EventKind, JobId, NodeId, Refusal, StopCause};

/// A finished job is known at least so long, whatever its time to live: who waits for it must get to see its end, and a
/// submit that is sent again must find it.
const FORGET_MS_MIN: u64 = 10_000;

pub(crate) fn named_job(cell: &Cell, name: &str) -> Result<(JobId, JobState), Refusal> {
    let job = cell.jobs.find(name).ok_or_else(|| Refusal::NotFound { kind: "job".into(), name: name.into() })?;
    Ok((job.id, job.state))
}

pub(crate) fn refuse_finished(name: &str, state: JobState) -> Result<(), Refusal> {
    match state {
        JobState::Finished(_) => Err(Refusal::WrongState {
            kind: "job".into(),
            name: name.into(),
            state: "finished".into(),
            hint: "it stays as it is; `ohm submit --replace` with its file runs it again".into(),
        }),
        _ => Ok(()),
    }
}

pub(crate) fn set_state(tx: &mut Tx<'_>, job: JobId, state: JobState, reason: String) {
    tx.touch_job(job);
    let version = tx.index();
    let job = tx.job_mut(job);
    (job.state, job.reason, job.version) = (state, reason, version);
}

pub(crate) fn tell_state(tx: &mut Tx<'_>, job: JobId, reason: &str) {
    let found = tx.job(job);
    let (name, state) = (found.spec.name.clone(), found.phase().to_string());
    tx.tell(EventKind::JobState { job, name, state, reason: reason.to_string() });
}

/// Ends an active job of which nothing is left to do, as after its last open tasks were taken away.
pub(crate) fn finish_if_done(tx: &mut Tx<'_>, job: JobId) {
    let found = tx.job(job);
    if found.state == JobState::Active && found.is_done() {
        finish_job(tx, job, Finish::Succeeded, String::new(), StopCause::JobFailed);
    }
}

/// Ends a job for good: nothing of it is placed any more, and what still runs is stopped.
pub(crate) fn finish_job(tx: &mut Tx<'_>, job: JobId, finish: Finish, reason: String, cause: StopCause) {
    release_reservation(tx, job);
    drop_repair(tx, job);
    set_state(tx, job, JobState::Finished(finish), reason.clone());
    forget_kept_of(tx, job);
    let now_ms = tx.now_ms;
    let found = tx.job_mut(job);
    found.finished_ms = now_ms.max(1);
    for group in &mut found.groups {
        for index in 0..group.tasks.len() {
            if matches!(group.tasks[index].state, TaskState::Pending | TaskState::BackingOff | TaskState::Held) {
                group.tasks[index].state = TaskState::Stopped;
            }
        }
        group.pending = Default::default();
        (group.backing_off, group.held) = (0, 0);
    }
    let ttl_ms = found.spec.ttl_seconds_after_finished.saturating_mul(1000).max(FORGET_MS_MIN);
    let forget_ms = now_ms.saturating_add(ttl_ms);
    stop_runs(tx, job, cause);
    clear_nominations(tx, job);
    tx.arm(forget_ms, Timer::Forget(job));
    tell_state(tx, job, &reason);
}

/// Nothing is reserved for `job` any more, and its admission begins anew.
pub(crate) fn release_reservation(tx: &mut Tx<'_>, job: JobId) {
    end_round(tx, job);
    let admission = &tx.job(job).admission;
    if admission.back_off_ms > 0 || !admission.failures.is_empty() {
        let admission = &mut tx.job_mut(job).admission;
        admission.back_off_ms = 0;
        admission.failures.clear();
    }
    give_back_reservation(tx, job);
}

/// What the reservation holds beyond the live runs goes back to the queue.
pub(crate) fn give_back_reservation(tx: &mut Tx<'_>, job: JobId) {
    let found = tx.job(job);
    if found.reserved.is_empty() {
        return;
    }
    let (queue, reserved, live) = (found.spec.queue.clone(), found.reserved.clone(), live_request(tx, found));
    tx.charge_queue(&queue, difference(&live, &reserved).into_iter());
    let found = tx.job_mut(job);
    found.reserved.clear();
}

/// Nothing is kept for `job` any more but spares, which are given back when their group runs no more, what is
/// earmarked for its repair, which ends with its claim, and what it has as the head of its line, which ends when it
/// waits no more; and nothing of it is on the move.
pub(crate) fn clear_nominations(tx: &mut Tx<'_>, job: JobId) {
    drop_moves(tx, job);
    clear_held(tx, job, |held| held.is_move() || held.is_preemptor());
}

/// Gives back what of the room kept for `job` is as `which` says.
pub(crate) fn clear_held(tx: &mut Tx<'_>, job: JobId, which: impl Fn(&Held) -> bool) {
    let mut nodes: Vec<NodeId> =
        tx.nominations.of_job(job).filter(|(_, held)| which(held)).map(|(node, _)| node).collect();
    nodes.dedup();
    for node in nodes {
        sweep_nominations(tx, node, |held| held.job != job || !which(held));
        tx.touch_node(node);
    }
}

/// What `amounts` holds less `less`, by the columns of either.
fn difference(amounts: &Charges, less: &Charges) -> Charges {
    let mut left = amounts.clone();
    less.iter().for_each(|(column, amount)| *left.entry(*column).or_insert(0) -= amount);
    left
}

pub(crate) fn arm_deadline(tx: &mut Tx<'_>, job: JobId) {
    if let Some(due_ms) = tx.job(job).deadline_ms() {
        tx.arm(due_ms, Timer::Deadline(job));
    }
}

/// A resumed job has its whole time again, as in Kubernetes; the time-out of before may have passed meanwhile.
pub(crate) fn restart_times(tx: &mut Tx<'_>, job: JobId) {
    let now_ms = tx.now_ms.max(1);
    forget_ready_timeouts(tx, job);
    if let Some(open) = tx.job_mut(job).rollouts.as_mut().and_then(|rollouts| rollouts.open.as_mut()) {
        open.progress_ms = now_ms;
        open.groups.iter_mut().flat_map(|group| group.restore.values_mut()).for_each(|former| former.since_ms = now_ms);
    }
    if tx.job(job).started_ms > 0 {
        tx.job_mut(job).started_ms = now_ms;
        arm_deadline(tx, job);
    }
}

/// How often the job was not ready in time counts no more, and it waits for that no longer.
pub(crate) fn forget_ready_timeouts(tx: &mut Tx<'_>, job: JobId) {
    if tx.job(job).readiness.timeouts == 0 {
        return;
    }
    let found = tx.job_mut(job);
    (found.readiness.timeouts, found.readiness.until_ms) = (0, 0);
    if found.state == JobState::Active {
        found.reason.clear();
    }
}
