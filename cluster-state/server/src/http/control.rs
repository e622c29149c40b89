//! Commands about one job or node.

use super::answer::{Answer, Problem, json, stamped};
use super::params::{Caller, Name, Params};
use super::views;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use ohm_model::{Command, GRACE_MS_MAX, Index, Outcome};
use ohm_stdx::text::shorten;
use serde::Deserialize;
use std::str::FromStr;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CancelQuery {
    grace_seconds: Option<u64>,
}

pub(super) async fn cancel(caller: Caller, Name(name): Name, Params(query): Params<CancelQuery>) -> Answer {
    let grace_ms = query.grace_seconds.map(|seconds| seconds.saturating_mul(1000));
    if grace_ms.is_some_and(|grace_ms| grace_ms > GRACE_MS_MAX) {
        let message = format!("graceSeconds may be {} (a day) at most", GRACE_MS_MAX / 1000);
        return Err(Problem::invalid(message, "leave it out for what the tasks ask for"));
    }
    change_job(&caller, Command::CancelJob { name: name.clone(), grace_ms }, &name).await
}

pub(super) async fn suspend(caller: Caller, Name(name): Name) -> Answer {
    change_job(&caller, Command::SuspendJob { name: name.clone() }, &name).await
}

pub(super) async fn resume(caller: Caller, Name(name): Name) -> Answer {
    change_job(&caller, Command::ResumeJob { name: name.clone() }, &name).await
}

pub(super) async fn forget(caller: Caller, Name(name): Name) -> Answer {
    let index = perform(&caller, Command::ForgetJob { name }).await?;
    Ok(stamped(index, StatusCode::NO_CONTENT.into_response()))
}

pub(super) async fn cordon(caller: Caller, Name(name): Name) -> Answer {
    change_node(&caller, name, true).await
}

pub(super) async fn uncordon(caller: Caller, Name(name): Name) -> Answer {
    change_node(&caller, name, false).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TaintQuery {
    taint: String,
}

impl TaintQuery {
    fn read<T: FromStr<Err = String>>(&self, wanted: &str) -> Result<T, Problem> {
        let read = self.taint.parse();
        read.map_err(|problem| Problem::invalid(format!("taint {}: {problem}", shorten(&self.taint)), wanted))
    }
}

pub(super) async fn taint(caller: Caller, Name(name): Name, Params(query): Params<TaintQuery>) -> Answer {
    let taint = query.read("write key=value:Effect, such as work=disk:NoSchedule")?;
    command_node(&caller, Command::TaintNode { name: name.clone(), taint }, name).await
}

pub(super) async fn untaint(caller: Caller, Name(name): Name, Params(query): Params<TaintQuery>) -> Answer {
    let pattern = query.read("write key, key=value, key:Effect or key=value:Effect")?;
    command_node(&caller, Command::UntaintNode { name: name.clone(), pattern }, name).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct DrainQuery {
    deadline_ms: Option<u64>,
    at_once: Option<u32>,
}

pub(super) async fn drain(caller: Caller, Name(name): Name, Params(query): Params<DrainQuery>) -> Answer {
    if query.deadline_ms == Some(0) || query.at_once == Some(0) {
        let hint = "leave them out for no deadline, and for one task at once";
        return Err(Problem::invalid("deadlineMs and atOnce must be above 0", hint));
    }
    let (deadline_ms, at_once) = (query.deadline_ms.unwrap_or(0), query.at_once.unwrap_or(1));
    command_node(&caller, Command::DrainNode { name: name.clone(), deadline_ms, at_once }, name).await
}

pub(super) async fn undrain(caller: Caller, Name(name): Name) -> Answer {
    command_node(&caller, Command::UndrainNode { name: name.clone() }, name).await
}

pub(super) async fn remove_node(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveNode { name }).await
}

pub(super) async fn remove_queue(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveQueue { name }).await
}

pub(super) async fn remove_subqueue(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveSubqueue { name }).await
}

pub(super) async fn remove_resource_flavor(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveResourceFlavor { name }).await
}

pub(super) async fn remove_topology(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveTopology { name }).await
}

pub(super) async fn remove_namespace(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveNamespace { name }).await
}

pub(super) async fn remove_budget(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveBudget { name }).await
}

pub(super) async fn remove_priority_class(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemovePriorityClass { name }).await
}

pub(super) async fn remove_provisioning_class(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveProvisioningClass { name }).await
}

pub(super) async fn remove_profile(caller: Caller, Name(name): Name) -> Answer {
    remove(&caller, Command::RemoveSchedulingProfile { name }).await
}

async fn remove(caller: &Caller, command: Command) -> Answer {
    let index = perform(caller, command).await?;
    Ok(stamped(index, StatusCode::NO_CONTENT.into_response()))
}

async fn change_job(caller: &Caller, command: Command, name: &str) -> Answer {
    perform(caller, command).await?;
    let cell = caller.shared.cells.now().await?;
    let job = cell.jobs().find(name).ok_or_else(|| Problem::no_job(name))?;
    Ok(json(cell.applied(), &views::job_summary(&cell, job)))
}

pub(super) async fn release_node(caller: Caller, Name(name): Name) -> Answer {
    command_node(&caller, Command::ReleaseNode { name: name.clone() }, name).await
}

async fn change_node(caller: &Caller, name: String, cordoned: bool) -> Answer {
    command_node(caller, Command::CordonNode { name: name.clone(), cordoned }, name).await
}

async fn command_node(caller: &Caller, command: Command, name: String) -> Answer {
    perform(caller, command).await?;
    let cell = caller.shared.cells.now().await?;
    let node = cell.nodes().find(&name).ok_or_else(|| Problem::no_node(&name))?;
    let view = views::node_summary(&cell, node).ok_or_else(|| Problem::no_node(&name))?;
    Ok(json(cell.applied(), &view))
}

/// Lets the cell do it; its refusal is a problem.
pub(super) async fn perform(caller: &Caller, command: Command) -> Result<Index, Problem> {
    match caller.command(command).await? {
        (_, Outcome::Refused(refusal)) => Err(refusal.into()),
        (index, _) => Ok(index),
    }
}
