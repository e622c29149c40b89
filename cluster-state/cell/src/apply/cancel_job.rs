//! A job is cancelled.

use crate::apply::Tx;
use crate::apply::steps::jobs::{finish_job, named_job};
use crate::state::jobs::{Finish, JobState};
use ohm_model::{Outcome, Refusal, StopCause};

pub(crate) fn cancel_job(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let job = named_job(tx, name)?;
    match job.1 {
        JobState::Finished(Finish::Cancelled) => Ok(Outcome::Done),
        JobState::Finished(_) => Err(Refusal::WrongState {
            kind: "job".into(),
            name: name.into(),
            state: "finished".into(),
            hint: "a finished job can't be cancelled".into(),
        }),
        _ => {
            finish_job(tx, job.0, Finish::Cancelled, "cancelled".into(), StopCause::Cancelled);
            Ok(Outcome::Done)
        }
    }
}
