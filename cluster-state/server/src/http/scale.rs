//! `POST /v1/jobs/{name}/scale`: one count of a job changed, the rest of it as the cell has it.

use super::Shared;
use super::answer::{Answer, Problem, json};
use super::params::{Name, Owner, Params};
use super::views;
use axum::extract::State;
use ohm_model::{Command, JobOutcome, JobSpec, Outcome};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleQuery {
    count: u32,
    group: Option<String>,
}

pub(super) async fn scale(
    State(shared): State<Shared>,
    Name(name): Name,
    Params(query): Params<ScaleQuery>,
    Owner(owner): Owner,
) -> Answer {
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    let spec = scaled(&job.spec, query.group.as_deref(), query.count)?;
    drop(cell);
    let (index, outcome) = shared.cells.command(Command::UpdateJob { owner, spec: Box::new(spec) }).await?;
    match outcome {
        Outcome::Jobs(outcomes) => {
            if let Some(JobOutcome::Refused(refusal)) = outcomes.into_iter().next() {
                return Err(refusal.into());
            }
        }
        Outcome::Refused(refusal) => return Err(refusal.into()),
        _ => {}
    }
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    Ok(json(index, &views::job_summary(job)))
}

/// `spec` with `count` tasks in the group. The minimum of a group that starts whole is its count, and stays so.
fn scaled(spec: &JobSpec, group: Option<&str>, count: u32) -> Result<JobSpec, Problem> {
    let names = || spec.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>().join(", ");
    let at = match (group, spec.groups.as_slice()) {
        (None, [_]) => 0,
        (None, _) => {
            return Err(Problem::invalid(
                format!("job \"{}\" has several groups", spec.name),
                format!("say which one to scale: {}", names()),
            ));
        }
        (Some(name), groups) => groups.iter().position(|group| group.name == name).ok_or_else(|| {
            Problem::invalid(format!("job \"{}\" has no group \"{name}\"", spec.name), format!("it has: {}", names()))
        })?,
    };
    let mut spec = spec.clone();
    let group = &mut spec.groups[at];
    if !group.elastic && group.min_count == group.count {
        group.min_count = count;
    }
    group.count = count;
    Ok(spec)
}
