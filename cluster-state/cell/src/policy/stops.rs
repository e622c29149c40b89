//! Stop policies: what a queue takes from its jobs when it is held.
//!
//! ```text
//! Hold          nothing stands: reserved quota, promises and rooms are given back, and the job waits
//!               something stands, moves, or lives on behind a lost node: it goes on, see `rooms/stops.rs`
//! HoldAndDrain  whatever stands is stopped whole, with its grace and uncharged, and the job waits
//! ```

use crate::apply::Tx;
use crate::apply::steps::jobs::{clear_held, release_reservation};
use crate::apply::steps::stops::stop_what_runs;
use crate::policy::heads::end_head;
use crate::policy::preemptions::end_preemption;
use crate::rooms::nominations::Held;
use crate::state::jobs::{Job, JobState};
use ohm_model::{EventKind, JobId, QueueSpec, QueueStopEvent, StopCause, StopPolicy};
use std::sync::Arc;

/// Takes from the jobs of a queue that was put what its stop policy does not leave them, if that is another one than
/// the `former`.
pub(crate) fn stop_jobs(tx: &mut Tx<'_>, spec: &QueueSpec, former: StopPolicy) {
    let policy = spec.stop_policy;
    if policy == former || policy == StopPolicy::None {
        return;
    }
    let of_queue = |job: &&Arc<Job>| job.state == JobState::Active && job.spec.queue == spec.name;
    let jobs: Vec<JobId> = tx.jobs.iter().filter(of_queue).map(|job| job.id).collect();
    for id in jobs {
        let goes_on = lives(tx, id);
        if goes_on && policy == StopPolicy::Hold {
            // What it waits for beside that may be kept for it no more.
            tx.touch_job(id);
            continue;
        }
        let was_reserved = !tx.job(id).reserved.is_empty();
        withdraw(tx, id, &policy.reason(&spec.name));
        if goes_on {
            stop_what_runs(tx, id, StopCause::QueueHeld);
        }
        if goes_on || was_reserved {
            note(tx, id, policy, goes_on);
        }
    }
}

/// The job is stopped whole for `cause`, with its grace and uncharged: nothing of it is reserved, promised or kept.
pub(crate) fn stop_whole(tx: &mut Tx<'_>, id: JobId, cause: StopCause, reason: &str) {
    withdraw(tx, id, reason);
    stop_what_runs(tx, id, cause);
}

/// Whether something of the job stands, moves, or lives on behind a lost node.
fn lives(tx: &Tx<'_>, id: JobId) -> bool {
    let job = tx.job(id);
    job.stands() || job.groups.iter().any(|group| !group.moving.is_empty()) || tx.kept.of_job(id).next().is_some()
}

/// Nothing is reserved, promised or kept for the start of the job any more.
fn withdraw(tx: &mut Tx<'_>, id: JobId, reason: &str) {
    release_reservation(tx, id);
    if tx.preemptions.get(id).is_some() {
        end_preemption(tx, id, reason);
    }
    if tx.nominations.is_head(id) {
        end_head(tx, id, reason);
    }
    clear_held(tx, id, Held::is_preemptor);
}

fn note(tx: &mut Tx<'_>, id: JobId, policy: StopPolicy, stopped: bool) {
    let version = tx.index();
    let job = tx.job_mut(id);
    let (name, queue) = (job.spec.name.clone(), job.spec.queue.clone());
    let what = if stopped { "it was stopped" } else { "its quota was taken back" };
    (job.version, job.reason) = (version, format!("{what} when queue {queue} was held ({})", policy.name()));
    tx.touch_job(id);
    tx.tell(EventKind::QueueStop(QueueStopEvent { job: id, name, queue, policy, stopped }));
}
