//! What follows from the checks of a round, and from what an admitted job loses: the next attempt, or the end.

use crate::apply::Tx;
use crate::apply::steps::jobs::{clear_nominations, give_back_reservation, release_reservation, set_state, tell_state};
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::drop_repair;
use crate::apply::steps::rounds::end_round;
use crate::apply::steps::runs::stop_runs;
use crate::rooms::checks::checks_of;
use crate::state::admission::{Check, CheckState, FailedCheck};
use crate::state::jobs::{Job, JobState};
use crate::state::timers::Timer;
use ohm_model::{EventKind, Index, JobId, OnDisconnect, StopCause};

pub(crate) fn change_check(tx: &mut Tx<'_>, name: CheckName<'_>, change: impl FnOnce(&mut Check)) {
    let job = tx.job_mut(name.job);
    let checks = job.admission.round.as_mut().map(|round| &mut round.checks);
    if let Some(check) = checks.and_then(|checks| checks.iter_mut().find(|check| check.class == name.class)) {
        change(check);
        tx.touch_job(name.job);
    }
}

/// A check failed before the job was admitted: its quota is free again, and it waits for another attempt, or is
/// suspended when that was the last one.
pub(crate) fn fail_check(tx: &mut Tx<'_>, name: CheckName<'_>, message: String) {
    let policy = tx.provisioning_classes.get(name.class).map(|class| class.retry).unwrap_or_default();
    let job = tx.job_mut(name.job);
    let failures = job.admission.failures.entry(name.class.to_string()).or_insert(0);
    *failures = failures.saturating_add(1);
    let attempt = *failures;
    if attempt > policy.limit {
        return reject(tx, name, attempt, message);
    }
    let wait_ms = policy.wait_ms(attempt);
    end_round(tx, name.job);
    give_back_reservation(tx, name.job);
    clear_nominations(tx, name.job);
    let (version, due_ms) = (tx.index(), tx.now_ms.saturating_add(wait_ms.max(1)));
    let job = tx.job_mut(name.job);
    let round = job.admission.rounds;
    (job.version, job.admission.back_off_ms) = (version, due_ms);
    let class = name.class.to_string();
    job.admission.failed = Some(FailedCheck { class, attempt, message: message.clone() });
    tx.arm(due_ms, Timer::Admission(name.job, round));
    tell_check(tx, name, attempt, "retry", (&message, wait_ms));
    tx.touch_job(name.job);
}

/// There will be no nodes: the job stays suspended until somebody resumes it.
pub(crate) fn reject(tx: &mut Tx<'_>, name: CheckName<'_>, attempt: u32, message: String) {
    let id = name.job;
    tell_check(tx, name, attempt, "rejected", (&message, 0));
    release_reservation(tx, id);
    drop_repair(tx, id);
    let separator = if message.is_empty() { "" } else { ": " };
    let reason = format!("rejected by check {} (attempt {attempt}){separator}{message}", name.class);
    let job = tx.job_mut(id);
    job.admission.failed = Some(FailedCheck { class: name.class.to_string(), attempt, message });
    set_state(tx, id, JobState::Suspended, reason.clone());
    forget_kept_of(tx, id);
    stop_runs(tx, id, StopCause::CapacityRevoked);
    clear_nominations(tx, id);
    tell_state(tx, id, &reason);
}

pub(crate) fn tell_check(
    tx: &mut Tx<'_>,
    name: CheckName<'_>,
    attempt: u32,
    state: &str,
    (message, wait_ms): (&str, u64),
) {
    let job = tx.job(name.job);
    let (class, state) = (name.class.to_string(), state.to_string());
    let (job, name) = (name.job, job.spec.name.clone());
    tx.tell(EventKind::CheckChanged { job, name, class, attempt, state, message: message.into(), wait_ms });
}

/// The time of a back-off, of a request or of a booking may be over.
pub(crate) fn admission_due(tx: &mut Tx<'_>, id: JobId, number: u32) {
    let now_ms = tx.now_ms;
    // The job may be forgotten, or in another round by now.
    let Some(job) = tx.jobs.get(id).filter(|job| job.admission.rounds == number) else { return };
    let Some(round) = &job.admission.round else {
        let waits = job.admission.back_off_ms > 0 && job.admission.back_off_ms <= now_ms;
        if waits {
            tx.job_mut(id).admission.back_off_ms = 0;
            tx.touch_job(id);
        }
        return;
    };
    let due = round.checks.iter().find_map(|check| {
        let class = tx.provisioning_classes.get(&check.class)?;
        let (seconds, what) = match check.state {
            CheckState::Pending => (class.timeout_seconds, "no answer within timeoutSeconds"),
            CheckState::Ready if round.admitted => (0, ""),
            CheckState::Ready => (class.booking_seconds, "not placed within bookingSeconds"),
        };
        let is_over = seconds > 0 && check.since_ms.saturating_add(seconds.saturating_mul(1000)) <= now_ms;
        is_over.then(|| (check.class.clone(), format!("{what} ({seconds})")))
    });
    if let Some((class, message)) = due {
        fail_check(tx, CheckName { job: id, round: number, class: &class }, message);
    }
}

/// The checks of `queue` may be others now: what was asked for jobs that are not placed yet is void.
pub(crate) fn recheck(tx: &mut Tx<'_>, queue: &str) {
    let Some(spec) = tx.quota.get(queue).map(|node| node.spec.clone()) else { tx.stop("the queue that was put") };
    let is_void = |job: &&std::sync::Arc<Job>| {
        let round = job.admission.round.as_ref().filter(|round| job.spec.queue == queue && !round.admitted);
        let asks = || checks_of(tx, job, &spec).map(|check| &check.name);
        round.is_some_and(|round| !round.checks.iter().map(|check| &check.class).eq(asks()))
    };
    let void: Vec<JobId> = tx.jobs.iter().filter(is_void).map(|job| job.id).collect();
    for id in void {
        release_reservation(tx, id);
        move_version(tx, id);
    }
    // The head of the queue may have checks to pass now.
    let heads = tx.cell.nominations.heads();
    let of_queue = |job: &JobId| tx.cell.jobs.get(*job).is_some_and(|job| job.spec.queue == queue);
    tx.applied.jobs.extend(heads.filter(of_queue));
}

/// Everything that ran of an admitted job was lost, and perhaps the nodes that were brought for it are gone for
/// good: it asks anew, unless its runs may live on there.
pub(crate) fn settle_stranded(tx: &mut Tx<'_>, id: JobId) {
    let is_stranded = |job: &Job| job.live() == 0 && job.spec.on_disconnect == OnDisconnect::Stop;
    end_admitted_round(tx, id, is_stranded);
}

/// Everything that ran of an admitted job was taken for more important work: its quota is free again.
pub(crate) fn settle_preempted(tx: &mut Tx<'_>, id: JobId) {
    let is_out = |job: &Job| job.live() > 0 && job.groups.iter().all(|group| group.live == group.stopping);
    end_admitted_round(tx, id, is_out);
}

/// An admitted job of which `is_over` holds gives its quota back and asks anew.
fn end_admitted_round(tx: &mut Tx<'_>, id: JobId, is_over: impl Fn(&Job) -> bool) {
    let admitted = |job: &Job| job.admission.round.as_ref().is_some_and(|round| round.admitted);
    if tx.jobs.get(id).is_some_and(|job| admitted(job) && is_over(job)) {
        release_reservation(tx, id);
        move_version(tx, id);
    }
}

fn move_version(tx: &mut Tx<'_>, id: JobId) {
    let version: Index = tx.index();
    let job = tx.job_mut(id);
    job.version = version;
    tx.touch_job(id);
}

/// Which check of which round a report is about.
#[derive(Clone, Copy)]
pub(crate) struct CheckName<'a> {
    pub(crate) job: JobId,
    pub(crate) round: u32,
    pub(crate) class: &'a str,
}
