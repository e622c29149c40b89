//! A job is suspended, or goes on.

use crate::apply::Tx;
use crate::apply::steps::jobs::{
    clear_nominations, finish_if_done, named_job, refuse_finished, release_reservation, restart_times, set_state,
    tell_state,
};
use crate::apply::steps::kept::forget_kept_of;
use crate::apply::steps::repairs::drop_repair;
use crate::apply::steps::runs::stop_runs;
use crate::state::jobs::JobState;
use ohm_model::{Outcome, Refusal, StopCause};

pub(crate) fn suspend_job(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let (job, state) = named_job(tx, name)?;
    refuse_finished(name, state)?;
    if state == JobState::Active {
        release_reservation(tx, job);
        drop_repair(tx, job);
        set_state(tx, job, JobState::Suspended, String::new());
        forget_kept_of(tx, job);
        stop_runs(tx, job, StopCause::Suspended);
        clear_nominations(tx, job);
        tell_state(tx, job, "");
    }
    Ok(Outcome::Done)
}

pub(crate) fn resume_job(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let (job, state) = named_job(tx, name)?;
    refuse_finished(name, state)?;
    if state == JobState::Suspended {
        set_state(tx, job, JobState::Active, String::new());
        restart_times(tx, job);
        tell_state(tx, job, "");
        finish_if_done(tx, job);
    }
    Ok(Outcome::Done)
}
