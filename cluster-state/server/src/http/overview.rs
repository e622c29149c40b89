//! The cell as a whole, and the server itself.

use super::answer::{Answer, json};
use super::params::Params;
use super::queue_metrics;
use super::shared::Shared;
use super::views;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ohm_wire::api::INSTANCE_HEADER;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// `/metrics` waits so long for the cell: those who ask give up after 10 s.
const CELL_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn queues(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::queues(&cell)))
}

pub(super) async fn resource_flavors(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::resource_flavors(&cell)))
}

pub(super) async fn scheduling(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::scheduling(&cell)))
}

pub(super) async fn topologies(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::topologies(&cell)))
}

pub(super) async fn namespaces(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::namespaces(&cell)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetsQuery {
    namespace: Option<String>,
}

pub(super) async fn budgets(State(shared): State<Shared>, Params(query): Params<BudgetsQuery>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::budget_list(&cell, query.namespace.as_deref())))
}

pub(super) async fn priority_classes(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::priority_classes(&cell)))
}

pub(super) async fn provisioning_classes(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::provisioning_classes(&cell)))
}

pub(super) async fn profiles(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    Ok(json(cell.applied(), &views::profiles(&cell)))
}

pub(super) async fn status(State(shared): State<Shared>) -> Answer {
    let cell = shared.cells.now().await?;
    let servers = shared.cells.servers().await?;
    Ok(json(cell.applied(), &views::status(&cell, &servers)))
}

pub(super) async fn openapi(State(shared): State<Shared>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], shared.openapi.to_string()).into_response()
}

pub(super) async fn metrics(State(shared): State<Shared>) -> Response {
    let mut page = shared.options.metrics.as_ref().map(|metrics| metrics.render()).unwrap_or_default();
    // A server that can't show the cell soon still tells what it counted.
    if let Ok(Ok(cell)) = timeout(CELL_WITHIN, shared.cells.here()).await {
        page.push_str(&queue_metrics::page(&cell));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}

/// Good only when the replica answers, whoever leads.
pub(super) async fn healthz(State(shared): State<Shared>) -> Answer {
    shared.cells.here().await?;
    Ok(([(INSTANCE_HEADER, shared.options.instance.clone())], "ok\n").into_response())
}
