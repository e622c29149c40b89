//! `POST /v1/jobs/{name}/scale`: one count of a job changed, the rest of it as the cell has it.

use super::answer::{Answer, Problem, json};
use super::params::{Caller, Name, Params};
use super::views;
use ohm_model::{Command, JobOutcome, Outcome, Refusal};
use serde::Deserialize;

/// How often a job may change between the look at it and the change of it.
const TRIES: u32 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleQuery {
    count: u32,
    group: Option<String>,
}

pub(super) async fn scale(Name(name): Name, Params(query): Params<ScaleQuery>, caller: Caller) -> Answer {
    let mut tries = 0;
    let index = loop {
        let cell = caller.shared.cells.now().await?;
        let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
        let scaled = job.declared().scaled(query.group.as_deref(), query.count);
        let spec = scaled.map_err(|error| Problem::invalid(error.to_string(), error.hint()))?;
        let version = Some(job.version);
        drop(cell);
        let command = Command::UpdateJob { spec: Box::new(spec), version };
        let (index, outcome) = caller.command(command).await?;
        let refusal = match outcome {
            Outcome::Refused(refusal) => refusal,
            Outcome::Jobs(outcomes) => match outcomes.into_iter().next() {
                Some(JobOutcome::Refused(refusal)) => refusal,
                _ => break index,
            },
            _ => break index,
        };
        tries += 1;
        if tries == TRIES || !matches!(refusal, Refusal::Changed { .. }) {
            return Err(refusal.into());
        }
    };
    let cell = caller.shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    Ok(json(index, &views::job_summary(&cell, job)))
}
