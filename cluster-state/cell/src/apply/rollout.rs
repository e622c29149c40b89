//! Somebody pauses, resumes or promotes the rollout of a service, or takes it back.

use crate::apply::Tx;
use crate::apply::steps::aims::tell_rollout;
use crate::apply::steps::jobs::{named_job, refuse_finished};
use crate::apply::update_job::update_known;
use crate::policy::rollout::made_as;
use crate::state::jobs::Job;
use crate::state::rollouts::Revision;
use ohm_model::{JobOutcome, JobSpec, Outcome, Refusal, RolloutAction, RolloutStep, RolloutStrategy};
use std::sync::Arc;

/// Does what is asked for, and says what became of the job as an update does.
pub(crate) fn rollout(tx: &mut Tx<'_>, by: &str, name: &str, action: RolloutAction) -> Result<Outcome, Refusal> {
    let (id, state) = named_job(tx, name)?;
    refuse_finished(name, state)?;
    let job = Arc::clone(tx.job(id));
    if !job.kind.rolls() {
        return Err(wrong(&job, "no service", "rollouts are for services; `ohm submit --update` changes a job"));
    }
    let outcome = match action {
        RolloutAction::Pause => update_known(tx, by, &job, &paused(&job, true))?,
        RolloutAction::Resume => update_known(tx, by, &job, &paused(&job, false))?,
        RolloutAction::Undo { revision } => {
            let former = former(&job, revision)?;
            let mut declared = made_as(job.declared(), &former.spec);
            if let Some(strategy) = declared.strategy.as_mut() {
                strategy.pause = false;
            }
            update_known(tx, by, &job, &declared)?
        }
        RolloutAction::Promote => {
            promote(tx, &job)?;
            JobOutcome::Updated(id)
        }
    };
    Ok(Outcome::Jobs(vec![outcome]))
}

fn wrong(job: &Job, state: &str, hint: &str) -> Refusal {
    let (kind, name) = ("job".into(), job.spec.name.clone());
    Refusal::WrongState { kind, name, state: state.into(), hint: hint.into() }
}

fn paused(job: &Job, pause: bool) -> JobSpec {
    let declared = job.declared();
    let strategy = RolloutStrategy { pause, ..declared.strategy() };
    let is_told = declared.strategy.is_some() || pause;
    JobSpec { strategy: is_told.then(|| Box::new(strategy)), ..(**declared).clone() }
}

/// The revision that is meant: the one before the present one, unless one is named.
fn former(job: &Job, revision: Option<u32>) -> Result<Revision, Refusal> {
    let known = job.rollouts.iter().flat_map(|rollouts| &rollouts.history);
    let present = job.revision();
    let found = match revision {
        Some(number) => known.clone().find(|known| known.number == number),
        None => job.rollouts.as_ref().and_then(|rollouts| rollouts.stable()),
    };
    match (found, revision) {
        (Some(found), _) if found.number == present => {
            Err(wrong(job, &format!("at revision {present} already"), "name another one of `ohm rollout history`"))
        }
        (Some(found), _) => Ok(found.clone()),
        (None, Some(number)) => {
            let numbers: Vec<String> = known.map(|known| known.number.to_string()).collect();
            let have = if numbers.is_empty() { present.to_string() } else { numbers.join(", ") };
            Err(Refusal::Invalid { field: "revision".into(), problem: format!("{number} is not known; {have} are") })
        }
        (None, None) => Err(wrong(job, "at its first revision", "there is nothing to go back to")),
    }
}

fn promote(tx: &mut Tx<'_>, job: &Job) -> Result<(), Refusal> {
    let Some(rollout) = job.rollout() else {
        return Err(wrong(job, "not being rolled out", "there is nothing to promote"));
    };
    if rollout.promoted {
        return Err(wrong(job, "being rolled out already", "it waits for nobody; see `ohm rollout status`"));
    }
    if !rollout.waits {
        let hint = "wait until they are (`ohm rollout status -w`), or take it back with `ohm rollout undo`";
        return Err(wrong(job, "not ready to be promoted: its canaries are not available", hint));
    }
    let now_ms = tx.now_ms;
    if let Some(open) = tx.job_mut(job.id).rollouts.as_mut().and_then(|rollouts| rollouts.open.as_mut()) {
        (open.promoted, open.waits, open.progress_ms) = (true, false, now_ms);
    }
    tx.touch_job(job.id);
    tell_rollout(tx, job.id, RolloutStep::Promoted);
    Ok(())
}
