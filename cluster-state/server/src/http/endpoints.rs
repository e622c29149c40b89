//! Where the tasks of a job can be reached: a list, or a stream of lists.

use super::answer::{Answer, Problem, json};
use super::cells::Cells;
use super::lanes::Client;
use super::messages::{self, Sender};
use super::params::{Name, Params};
use super::shared::Shared;
use super::views;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use ohm_cell::Cell;
use ohm_model::Index;
use ohm_wire::api::EndpointList;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The pause between two looks while much happens.
const PAUSE: Duration = Duration::from_millis(100);
/// How many lists wait for a slow reader. Each is whole, so that one who reads late misses nothing that still holds.
const UNREAD_MAX: usize = 1;

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
    let seen = Seen { list: list_of(&cell, &name, query.group.as_deref()), index: cell.applied() };
    // Whoever follows keeps no copy of the cell: it would make writers copy what they touch.
    drop(cell);
    if !messages::are_asked_for(query.follow, &headers) {
        return Ok(json(seen.index, &seen.list));
    }
    let open = shared.endpoint_streams.open(&client)?;
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    let (cells, index) = (Arc::clone(&shared.cells), seen.index);
    tokio::spawn(async move {
        follow(&cells, query.group.as_deref(), seen, sender).await;
        drop(open);
    });
    Ok(messages::answer(index, receiver))
}

/// The endpoints of the job that has this name now; none of one that is forgotten.
fn list_of(cell: &Cell, name: &str, group: Option<&str>) -> EndpointList {
    match cell.jobs().find(name) {
        Some(job) => views::endpoint_list(cell, job, group),
        None => EndpointList { job: name.to_string(), endpoints: Vec::new() },
    }
}

/// What was seen last.
struct Seen {
    list: EndpointList,
    /// The entry up to which it holds.
    index: Index,
}

/// Sends the list, and again whenever it is another one, until the reader goes away or the replica stops. A job that is
/// forgotten has none; the next one of its name is followed from then on.
async fn follow(cells: &Cells, group: Option<&str>, mut seen: Seen, sender: Sender) {
    let mut applied = cells.applied();
    let mut is_news = true;
    loop {
        if is_news && sender.send(Ok(as_sse(&seen))).await.is_err() {
            return;
        }
        if !messages::go_on(&mut applied, seen.index, &sender, PAUSE).await {
            return;
        }
        let Ok(cell) = cells.here().await else { return };
        let list = list_of(&cell, &seen.list.job, group);
        is_news = list != seen.list;
        seen = Seen { list, index: cell.applied() };
    }
}

fn as_sse(seen: &Seen) -> sse::Event {
    let data = serde_json::to_string(&seen.list).unwrap_or_default();
    sse::Event::default().event("endpoints").data(data).id(seen.index.0.to_string())
}
