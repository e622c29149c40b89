//! Preemption for quota: jobs are stopped whole for one that lacks what they have, and that is kept for it.
//!
//! ```text
//! waits for quota ──▶ planner chooses victims and finds rooms ──▶ the log judges right and need
//!                                                                     │ victims stop, and wait again
//!   nobody else is charged what they give back ◀──────────────────────┤
//!                                                                     ▼
//!                                over: it stands · its time is over · it changed, or waits no more
//! ```
//! What is kept is nothing that is charged: the log leaves it to the job when it judges others, see
//! `rooms/promised.rs`.
//!
//! No two jobs stop each other for ever: one that was stopped in return for a job that it had stopped does not stop it
//! again for a smaller share, or to borrow, while that one has what it got and neither they nor the queues change.
//!
//! Invariants, swept: whoever waits for others waits to start, as it did when they were told, and not beyond its time;
//! who got something from others is remembered while it has or awaits it.

use crate::apply::Tx;
use crate::apply::steps::jobs::{clear_held, clear_nominations, release_reservation};
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::drop_repair;
use crate::apply::steps::runs::stop_runs;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::Job;
use crate::state::preemptions::Preemption;
use crate::state::timers::Timer;
use crate::state::turns::{has_quota, waits_to_start};
use ohm_model::{EventKind, JobId, PreemptionChange, StopCause, Transaction, Victim};
use std::collections::BTreeSet;

/// What is kept is kept for so long once the last victim should have ended.
pub(crate) const SLACK_MS: u64 = 30_000;

/// Until when at most what these victims give back is kept, in stamped time.
pub fn kept_until_ms(cell: &Cell, victims: &[Victim]) -> u64 {
    let jobs = victims.iter().filter_map(|victim| cell.jobs.get(victim.job));
    let grace_ms = jobs.flat_map(|job| &job.spec.groups).map(|group| group.task.grace_ms).max();
    cell.now_ms.saturating_add(grace_ms.unwrap_or(0)).saturating_add(SLACK_MS)
}

/// Stops the victims of a transaction for its job; the judge has allowed it.
pub(crate) fn preempt(tx: &mut Tx<'_>, transaction: &Transaction) {
    let (Some(guard), false) = (transaction.jobs.first(), transaction.preempt.is_empty()) else { return };
    let until_ms = kept_until_ms(tx, &transaction.preempt);
    let (since, id) = (tx.index(), guard.job);
    let victims: BTreeSet<JobId> = transaction.preempt.iter().map(|victim| victim.job).collect();
    tx.preemptions.take_from(id, &victims);
    tx.preemptions.put(id, Preemption { since, until_ms, version: guard.version, victims });
    tx.arm(until_ms, Timer::Preemption(id));
    tx.touch_job(id);
    let by = tx.job(id).spec.name.clone();
    let named = |victim: &Victim| (tx.job(victim.job).spec.name.clone(), victim.reason);
    let victims = transaction.preempt.iter().map(named).collect();
    tell(tx, id, PreemptionChange::Waits { victims, until_ms });
    for Victim { job, reason } in &transaction.preempt {
        tell(tx, *job, PreemptionChange::Stopped { by: by.clone(), reason: *reason });
        release_reservation(tx, *job);
        drop_repair(tx, *job);
        forget_kept_of(tx, *job);
        stop_runs(tx, *job, StopCause::Preempted);
        clear_nominations(tx, *job);
        let version = tx.index();
        let victim = tx.job_mut(*job);
        (victim.version, victim.reason) = (version, format!("it was stopped for {by} ({})", reason.name()));
        tx.touch_job(*job);
    }
}

/// The time may be over for which quota is kept for the job.
pub(crate) fn end_kept_quota(tx: &mut Tx<'_>, id: JobId) {
    if tx.preemptions.get(id).is_some_and(|preemption| preemption.until_ms <= tx.now_ms) {
        end_preemption(tx, id, "its time is over");
    }
}

/// Ends preemptions of jobs that can't use them any more. Called after every command, over the jobs that it named;
/// where nobody waits for others it costs one look.
pub(crate) fn settle_preemptions(tx: &mut Tx<'_>) {
    if tx.preemptions.is_empty() && tx.preemptions.knows_nobody() {
        return;
    }
    let named: BTreeSet<JobId> = tx.touched_jobs().iter().copied().collect();
    for id in named {
        if let Some(preemption) = tx.preemptions.get(id) {
            match tx.jobs.get(id) {
                Some(job) if has_quota(job) => end_preemption(tx, id, "it has its quota"),
                Some(job) if waits_as_told(job, preemption) => {}
                _ => end_preemption(tx, id, "it changed, or waits no more"),
            }
        }
        if !has_or_awaits(tx, id) {
            tx.preemptions.forget_taken(id);
        }
    }
}

/// Whether the job has quota, or others stop for it.
pub(crate) fn has_or_awaits(cell: &Cell, id: JobId) -> bool {
    cell.preemptions.get(id).is_some() || cell.jobs.get(id).is_some_and(|job| has_quota(job))
}

/// Whether the job still is the one that others were stopped for.
pub(crate) fn waits_as_told(job: &Job, preemption: &Preemption) -> bool {
    waits_to_start(job) && job.version == preemption.version
}

/// Nothing is promised to the job any more of what others were stopped for.
pub(crate) fn end_preemption(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    tx.preemptions.remove(id);
    let Some(job) = tx.jobs.get(id) else { return };
    let queue = job.spec.queue.clone();
    clear_held(tx, id, Held::is_preemptor);
    tx.free_quota(&queue);
    tx.touch_job(id);
    tell(tx, id, PreemptionChange::Over { reason: reason.to_string() });
}

fn tell(tx: &mut Tx<'_>, job: JobId, change: PreemptionChange) {
    let name = tx.job(job).spec.name.clone();
    tx.tell(EventKind::Preemption(ohm_model::PreemptionEvent { job, name, change }));
}
