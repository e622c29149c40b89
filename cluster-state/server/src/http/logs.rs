//! The output of a task.

use super::answer::{Answer, Problem, stamped};
use super::lanes::Client;
use super::params::{Name, Params};
use super::shared::Shared;
use super::streams::OpenStream;
use crate::log_readers::{LogPiece, LogQuery};
use crate::log_relay::LogStream;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use ohm_cell::{Cell, Job, NodeRecord, PastRun};
use ohm_model::{NodeId, RunRef};
use serde::Deserialize;
use std::io;
use std::time::Duration;

/// How long the first piece is waited for before the answer begins: what fails at once gets a status of its own.
const FIRST_PIECE: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LogsQuery {
    group: Option<String>,
    #[serde(default)]
    task: u32,
    #[serde(default)]
    stderr: bool,
    #[serde(default)]
    follow: bool,
    #[serde(default)]
    tail: u64,
    tail_lines: Option<u64>,
}

pub(super) async fn logs(
    State(shared): State<Shared>,
    client: Client,
    Name(name): Name,
    Params(query): Params<LogsQuery>,
) -> Answer {
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    let (node, run) = find_run(&cell, job, query.group.as_deref(), query.task)?;
    let index = cell.applied();
    drop(cell);
    let LogsQuery { stderr, follow, tail, tail_lines, .. } = query;
    let reader = client.number();
    let query = LogQuery { node, run, stderr, follow, tail_bytes: tail, tail_lines, client: reader };
    let open = shared.log_streams.open(&client)?;
    let mut pieces = shared.cells.read_log(query).await?.map_err(|reason| unreadable(&reason))?;
    let first = tokio::time::timeout(FIRST_PIECE, pieces.next()).await;
    let first = match first {
        Ok(Some(Err(reason))) => return Err(unreadable(&reason)),
        Ok(piece) => piece,
        Err(_) => None,
    };
    Ok(stamped(index, stream(first, pieces, open)))
}

fn stream(first: Option<LogPiece>, rest: LogStream, open: OpenStream) -> Response {
    let next = async |(mut rest, open): (LogStream, OpenStream)| rest.next().await.map(|piece| (piece, (rest, open)));
    let rest = futures_util::stream::unfold((rest, open), next);
    // An error in the middle breaks the answer off, so that nobody takes a part for the whole.
    let pieces = futures_util::stream::iter(first).chain(rest).map(|piece| piece.map_err(io::Error::other));
    let kind = [(header::CONTENT_TYPE, "application/octet-stream"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (kind, Body::from_stream(pieces)).into_response()
}

fn unreadable(reason: &str) -> Problem {
    let hint = "the node that holds the output must be there and reach a server; `ohm nodes` shows whether it does";
    Problem::new(StatusCode::BAD_GATEWAY, "log_unreadable", format!("the output cannot be read: {reason}"), hint)
}

/// The last attempt at a task, and where it stands or stood.
fn find_run(cell: &Cell, job: &Job, group: Option<&str>, task: u32) -> Result<(NodeId, RunRef), Problem> {
    let groups = &job.spec.groups;
    let at = match group {
        Some(name) => groups.iter().position(|spec| spec.name == name),
        None => (!groups.is_empty()).then_some(0),
    };
    let Some((at, group)) = at.and_then(|at| Some((at, job.groups.get(at)?))) else {
        return Err(Problem::no_group(&job.spec, group.unwrap_or_default()));
    };
    let Some(found) = group.tasks.get(task as usize) else {
        let message = format!("group \"{}\" has no task {task}", groups[at].name);
        return Err(no_log(message, format!("its tasks are 0 to {}", group.tasks.len().saturating_sub(1))));
    };
    if !found.was_placed() {
        let message = format!("task {task} of job \"{}\" has not run", job.spec.name);
        let hint = format!("`ohm explain {}` says why", job.spec.name);
        return Err(Problem::new(StatusCode::CONFLICT, "not_started", message, hint));
    }
    let record = cell.nodes().get(found.node);
    // A slot is used again after its node was removed; the new node has never heard of the run. Of the last runs that
    // did not succeed the job keeps the nodes' names. Any other is asked for where it stood: a stranger has no such
    // file.
    let is_this =
        |past: &&PastRun| (usize::from(past.group), past.task, past.incarnation) == (at, task, found.incarnation);
    let past = job.past.iter().rev().find(is_this);
    let is_another = |record: &NodeRecord| match past {
        Some(past) => record.spec.name != past.node,
        None => job.finished_ms > 0 && record.registered > job.version,
    };
    if record.is_none_or(|record| is_another(record)) {
        let message = format!("the node that ran task {task} of job \"{}\" is no longer in the cell", job.spec.name);
        return Err(Problem::new(StatusCode::GONE, "node_gone", message, "its output went with it"));
    }
    let run = RunRef::new(job.id, at as u16, task, found.incarnation.0);
    Ok((found.node, run))
}

fn no_log(message: String, hint: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", message, hint)
}
