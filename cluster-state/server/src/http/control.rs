//! Commands about one job or node.

use super::Shared;
use super::answer::{Answer, Problem, json, stamped};
use super::params::Name;
use super::views;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ohm_model::{Command, Index, Outcome};

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
