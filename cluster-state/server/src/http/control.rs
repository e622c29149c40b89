//! Commands about one job or node.

use super::Shared;
use super::answer::{Answer, Problem, json, stamped};
use super::params::{Name, Params};
use super::views;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ohm_model::{Command, Index, Outcome};
use serde::Deserialize;

pub(super) async fn cancel(State(shared): State<Shared>, Name(name): Name) -> Answer {
    change_job(&shared, Command::CancelJob { name: name.clone() }, &name).await
}

pub(super) async fn suspend(State(shared): State<Shared>, Name(name): Name) -> Answer {
    change_job(&shared, Command::SuspendJob { name: name.clone() }, &name).await
}

pub(super) async fn resume(State(shared): State<Shared>, Name(name): Name) -> Answer {
    change_job(&shared, Command::ResumeJob { name: name.clone() }, &name).await
}

pub(super) async fn forget(State(shared): State<Shared>, Name(name): Name) -> Answer {
    let index = perform(&shared, Command::ForgetJob { name }).await?;
    Ok(stamped(index, StatusCode::NO_CONTENT.into_response()))
}

pub(super) async fn cordon(State(shared): State<Shared>, Name(name): Name) -> Answer {
    change_node(&shared, name, true).await
}

pub(super) async fn uncordon(State(shared): State<Shared>, Name(name): Name) -> Answer {
    change_node(&shared, name, false).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DrainQuery {
    deadline_ms: Option<u64>,
    at_once: Option<u32>,
}

pub(super) async fn drain(State(shared): State<Shared>, Name(name): Name, Params(query): Params<DrainQuery>) -> Answer {
    if query.deadline_ms == Some(0) || query.at_once == Some(0) {
        let hint = "leave them out for no deadline, and for one task at once";
        return Err(Problem::invalid("deadlineMs and atOnce must be above 0", hint));
    }
    let (deadline_ms, at_once) = (query.deadline_ms.unwrap_or(0), query.at_once.unwrap_or(1));
    command_node(&shared, Command::DrainNode { name: name.clone(), deadline_ms, at_once }, name).await
}

pub(super) async fn undrain(State(shared): State<Shared>, Name(name): Name) -> Answer {
    command_node(&shared, Command::UndrainNode { name: name.clone() }, name).await
}

pub(super) async fn remove_node(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemoveNode { name }).await
}

pub(super) async fn remove_queue(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemoveQueue { name }).await
}

pub(super) async fn remove_topology(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemoveTopology { name }).await
}

pub(super) async fn remove_priority_class(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemovePriorityClass { name }).await
}

pub(super) async fn remove_provisioning_class(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemoveProvisioningClass { name }).await
}

pub(super) async fn remove_profile(State(shared): State<Shared>, Name(name): Name) -> Answer {
    remove(&shared, Command::RemoveSchedulingProfile { name }).await
}

async fn remove(shared: &Shared, command: Command) -> Answer {
    let index = perform(shared, command).await?;
    Ok(stamped(index, StatusCode::NO_CONTENT.into_response()))
}

async fn change_job(shared: &Shared, command: Command, name: &str) -> Answer {
    perform(shared, command).await?;
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(name).ok_or_else(|| Problem::no_job(name))?;
    Ok(json(cell.applied(), &views::job_summary(job)))
}

pub(super) async fn release_node(State(shared): State<Shared>, Name(name): Name) -> Answer {
    command_node(&shared, Command::ReleaseNode { name: name.clone() }, name).await
}

async fn change_node(shared: &Shared, name: String, cordoned: bool) -> Answer {
    command_node(shared, Command::CordonNode { name: name.clone(), cordoned }, name).await
}

async fn command_node(shared: &Shared, command: Command, name: String) -> Answer {
    perform(shared, command).await?;
    let cell = shared.cells.now().await?;
    let node = cell.nodes().find(&name).ok_or_else(|| Problem::no_node(&name))?;
    let view = views::node_summary(&cell, node).ok_or_else(|| Problem::no_node(&name))?;
    Ok(json(cell.applied(), &view))
}

async fn perform(shared: &Shared, command: Command) -> Result<Index, Problem> {
    match shared.cells.command(command).await? {
        (_, Outcome::Refused(refusal)) => Err(refusal.into()),
        (index, _) => Ok(index),
    }
}
