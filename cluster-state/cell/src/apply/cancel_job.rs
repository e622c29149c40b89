//! A job is cancelled, or what still runs of one that is over is hurried.

use crate::apply::Tx;
use crate::apply::steps::jobs::{finish_job, named_job};
use crate::apply::steps::runs::hurry_runs;
use crate::state::jobs::{Finish, JobState};
use ohm_model::{Outcome, Refusal, StopCause};

pub(crate) fn cancel_job(tx: &mut Tx<'_>, name: &str, grace_ms: Option<u64>) -> Result<Outcome, Refusal> {
    let (job, state) = named_job(tx, name)?;
    let still_stops = grace_ms.is_some() && tx.job(job).live() > 0;
    match state {
        JobState::Finished(Finish::Cancelled) => {}
        JobState::Finished(_) if still_stops => {}
        JobState::Finished(_) => {
            return Err(Refusal::WrongState {
                kind: "job".into(),
                name: name.into(),
                state: "finished".into(),
                hint: "a finished job can't be cancelled".into(),
            });
        }
        _ => finish_job(tx, job, Finish::Cancelled, "cancelled".into(), StopCause::Cancelled),
    }
    if let Some(grace_ms) = grace_ms {
        hurry_runs(tx, job, grace_ms);
    }
    Ok(Outcome::Done)
}
