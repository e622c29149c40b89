//! Jobs are submitted, each with a verdict of its own.

use crate::apply::Tx;
use crate::apply::steps::job_spec::{check_job, completed};
use crate::apply::steps::names::check_names;
use crate::apply::steps::offers::{base_shape, offer};
use crate::policy::waiting::{check_crowd, count};
use crate::state::jobs::{Group, Job, JobState};
use ohm_model::{EventKind, Incarnation, JobId, JobOutcome, JobSpec, Outcome, Refusal, Shard};
use std::sync::Arc;

pub(crate) fn submit_jobs(tx: &mut Tx<'_>, owner: &str, jobs: &[JobSpec]) -> Outcome {
    let owner: Arc<str> = owner.into();
    let outcomes = jobs.iter().map(|spec| match submit_job(tx, &owner, spec) {
        Ok(outcome) => outcome,
        Err(refusal) => JobOutcome::Refused(refusal),
    });
    Outcome::Jobs(outcomes.collect())
}

fn submit_job(tx: &mut Tx<'_>, owner: &Arc<str>, spec: &JobSpec) -> Result<JobOutcome, Refusal> {
    check_names(spec)?;
    let known = tx.jobs.find(&spec.name);
    let spec = completed(tx, spec, known.map(|known| &**known.declared()))?;
    if let Some(known) = known {
        if **known.declared() == *spec {
            return Ok(JobOutcome::Unchanged(known.id));
        }
        let hint = match known.state {
            JobState::Finished(_) => "it is finished: `ohm submit --replace` puts this one in its place",
            _ => "choose another name, or cancel that job first",
        };
        return Err(Refusal::NameTaken { kind: "job".into(), name: spec.name.clone(), hint: hint.to_string() });
    }
    let kind = check_job(tx, &spec, None)?;
    check_crowd(tx, &spec.queue)?;
    let spec = Arc::new(spec.into_owned());
    let mut groups = Vec::with_capacity(spec.groups.len());
    for group in &spec.groups {
        let shape = base_shape(tx.cell, &spec.name, group)?;
        groups.push(Group::new(tx.shapes.join(shape), 1, group.count, Incarnation(0)));
    }
    let state = if spec.suspended { JobState::Suspended } else { JobState::Active };
    let job = Job {
        id: JobId(0),
        spec: Arc::clone(&spec),
        owner: Arc::clone(owner),
        kind,
        shard: Shard::of(spec.class, &spec.name),
        state,
        reason: String::new(),
        version: tx.index(),
        submitted: tx.index(),
        queued: tx.index(),
        submitted_ms: tx.now_ms,
        started_ms: 0,
        finished_ms: 0,
        waiting_since_ms: 0,
        last_end_ms: 0,
        floor: Incarnation(0),
        grace_ms_max: None,
        reserved: Default::default(),
        groups,
        past: Vec::new(),
        repairs: Default::default(),
        admission: Default::default(),
        readiness: Default::default(),
        rollouts: None,
    };
    tx.budgets.note_job(&job);
    let id = tx.jobs.insert(job);
    offer(tx, id);
    tx.touch_job(id);
    // The next job of the command is judged with this one.
    count(tx, id);
    tx.tell(EventKind::JobSubmitted { job: id, name: spec.name.clone() });
    Ok(JobOutcome::Accepted(id))
}
