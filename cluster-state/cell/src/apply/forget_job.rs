//! A finished job is forgotten, by hand or when its time has come.

use crate::apply::Tx;
use crate::apply::steps::jobs::named_job;
use crate::state::jobs::JobState;
use ohm_model::{EventKind, JobId, Outcome, Refusal};

pub(crate) fn forget_named_job(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    let (job, state) = named_job(tx, name)?;
    let wrong = |state: &str, hint: &str| {
        let (kind, name) = ("job".to_string(), name.to_string());
        Err(Refusal::WrongState { kind, name, state: state.to_string(), hint: hint.to_string() })
    };
    match state {
        JobState::Finished(_) if forget_job(tx, job) => Ok(Outcome::Done),
        JobState::Finished(_) => wrong("still stopping", "its last runs have not ended yet; try again in a moment"),
        _ => wrong("not finished", "`ohm cancel` ends it"),
    }
}

/// Forgets a finished job that holds nothing; returns whether it is gone.
pub(crate) fn forget_job(tx: &mut Tx<'_>, job: JobId) -> bool {
    // A person may have had it forgotten before its time.
    let Some(found) = tx.jobs.get(job).cloned() else { return true };
    if !matches!(found.state, JobState::Finished(_)) || found.live() > 0 {
        return false;
    }
    tx.cell.turns.leave(&found, &tx.cell.shapes);
    tx.cell.turns.let_go(&found);
    let (name, shapes): (String, Vec<_>) = (
        found.spec.name.clone(),
        found.groups.iter().flat_map(|group| group.offers.iter().chain([&group.shape]).copied()).collect(),
    );
    shapes.into_iter().for_each(|shape| drop(tx.shapes.leave(shape)));
    tx.jobs.remove(job);
    tx.touch_job(job);
    tx.tell(EventKind::JobForgotten { name });
    true
}
