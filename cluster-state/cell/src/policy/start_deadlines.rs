//! Start deadlines (`pendingTimeoutSeconds`): a job that waits for too long fails.
//!
//! ```text
//! submitted, resumed, or its last run ended ─▶ it waits ─▶ placed: the time is forgotten
//!                                                 └─ pendingTimeoutSeconds ─▶ failed, `StartDeadlineExceeded`
//! ```
//! A job waits while it is active, some of its tasks wait, and nothing of it stands, stops, moves or backs off, nor it
//! as a whole. The time begins anew with each such wait, whatever it is that the job waits for, and while something of
//! it lives on behind a lost node.
//!
//! Invariant, swept: a job with a start deadline has a time exactly while it waits.

use crate::apply::Tx;
use crate::apply::steps::jobs::finish_job;
use crate::state::jobs::{Finish, Job, JobState};
use crate::state::timers::Timer;
use ohm_model::{JobId, StopCause};

/// The word that begins the reason of a job that failed so.
pub const START_DEADLINE: &str = "StartDeadlineExceeded";

/// Brings the times of the jobs that the command named up to what has become of them.
pub(crate) fn settle_start_deadlines(tx: &mut Tx<'_>) {
    for at in 0..tx.touched_jobs().len() {
        let id = tx.touched_jobs()[at];
        let Some(job) = tx.cell.jobs.get(id) else { continue };
        match (job.waiting_since_ms > 0, waits(job)) {
            (true, false) => tx.job_mut(id).waiting_since_ms = 0,
            (false, true) => {
                let now_ms = tx.now_ms.max(1);
                tx.job_mut(id).waiting_since_ms = now_ms;
                arm(tx, id);
            }
            _ => {}
        }
    }
}

/// The time of a job that waits may be over.
pub(crate) fn start_deadline_due(tx: &mut Tx<'_>, id: JobId) {
    // The job may be forgotten by now, or wait under another time.
    let Some(job) = tx.jobs.get(id) else { return };
    let is_over = job.start_deadline_ms().is_some_and(|due_ms| due_ms <= tx.now_ms);
    if !is_over || !waits(job) {
        return;
    }
    if tx.kept.of_job(id).next().is_some() {
        let now_ms = tx.now_ms.max(1);
        tx.job_mut(id).waiting_since_ms = now_ms;
        tx.touch_job(id);
        arm(tx, id);
    } else {
        let seconds = job.spec.pending_timeout_seconds;
        let reason = format!("{START_DEADLINE}: waited longer than pendingTimeoutSeconds ({seconds})");
        finish_job(tx, id, Finish::Failed, reason, StopCause::DeadlineExceeded);
    }
}

/// An update gave a job that waits another time; what it has waited counts.
pub(crate) fn rearm_start_deadline(tx: &mut Tx<'_>, id: JobId) {
    if tx.job(id).waiting_since_ms > 0 {
        arm(tx, id);
    }
}

fn arm(tx: &mut Tx<'_>, id: JobId) {
    if let Some(due_ms) = tx.job(id).start_deadline_ms() {
        tx.arm(due_ms, Timer::StartDeadline(id));
    }
}

/// Whether the job has a start deadline, and waits.
pub(crate) fn waits(job: &Job) -> bool {
    let may = job.spec.pending_timeout_seconds > 0 && job.state == JobState::Active && job.pending() > 0;
    let is_idle = |job: &Job| job.groups.iter().all(|group| group.backing_off == 0 && group.moving.is_empty());
    may && job.live() == 0 && !job.readiness.backs_off() && is_idle(job)
}
