//! Where the tasks of a job can be reached: a list, or a stream of lists.

use super::answer::{Answer, Problem, json};
use super::followed::{self, Seen};
use super::lanes::Client;
use super::messages;
use super::params::{Name, Params};
use super::shared::Shared;
use super::views;
use axum::extract::State;
use axum::http::HeaderMap;
use ohm_cell::Cell;
use ohm_wire::api::EndpointList;
use serde::Deserialize;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndpointsQuery {
    group: Option<String>,
    #[serde(default)]
    follow: bool,
}

pub(super) async fn endpoints(
    State(shared): State<Shared>,
    client: Client,
    Name(name): Name,
    Params(query): Params<EndpointsQuery>,
    headers: HeaderMap,
) -> Answer {
    let cell = shared.cells.now().await?;
    let job = cell.jobs().find(&name).ok_or_else(|| Problem::no_job(&name))?;
    if let Some(unknown) = query.group.as_ref().filter(|name| job.spec.groups.iter().all(|spec| spec.name != **name)) {
        return Err(Problem::no_group(&job.spec, unknown));
    }
    let seen = Seen { view: list_of(&cell, &name, query.group.as_deref()), index: cell.applied() };
    // Whoever follows keeps no copy of the cell: it would make writers copy what they touch.
    drop(cell);
    if !messages::are_asked_for(query.follow, &headers) {
        return Ok(json(seen.index, &seen.view));
    }
    let open = shared.endpoint_streams.open(&client)?;
    let look = move |cell: &Cell, seen: &EndpointList| list_of(cell, &seen.job, query.group.as_deref());
    Ok(followed::follow(&shared.cells, seen, "endpoints", open, look))
}

/// The endpoints of the job that has this name now; none of one that is forgotten. The next one of its name is followed
/// from then on.
fn list_of(cell: &Cell, name: &str, group: Option<&str>) -> EndpointList {
    match cell.jobs().find(name) {
        Some(job) => views::endpoint_list(cell, job, group),
        None => EndpointList { job: name.to_string(), endpoints: Vec::new() },
    }
}
