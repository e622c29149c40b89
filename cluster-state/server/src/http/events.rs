//! What happened: a page of it, or a stream.

use super::Shared;
use super::answer::{Answer, json, stamped};
use super::cells::Cells;
use super::params::Params;
use super::views;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use ohm_model::{Event, EventKind, Index};
use ohm_wire::api::{EventList, EventView};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const LIMIT_DEFAULT: usize = 1000;
/// How many events wait for a slow reader before its stream stops reading on.
const UNREAD_MAX: usize = 256;
/// The pause between two looks while much happens.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    after: Option<u64>,
    limit: Option<usize>,
    job: Option<String>,
    #[serde(default)]
    follow: bool,
    #[serde(default = "yes")]
    leases: bool,
}

fn yes() -> bool {
    true
}

pub(super) async fn events(
    State(shared): State<Shared>,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Answer {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = Index(last_id.or(query.after).unwrap_or(0));
    let list = page(&shared.cells, &query, after).await?;
    let next = Index(list.next);
    if !query.follow && !accepts.contains("text/event-stream") {
        return Ok(json(next, &list));
    }
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    tokio::spawn(follow(Arc::clone(&shared.cells), query, list, sender));
    let stream = Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)));
    Ok(stamped(next, stream.into_response()))
}

async fn page(cells: &Cells, query: &EventsQuery, after: Index) -> Result<EventList, crate::handle::Unanswered> {
    let (events, dropped) = cells.events_after(after).await?;
    // Taken after the events, so that what they name is known there.
    let cell = cells.now().await?;
    let next = events.last().map_or(after, |event| event.index).0;
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    let is_meant = |event: &&Event| {
        (query.leases || !matches!(event.kind, EventKind::LeaseTaken { .. }))
            && query.job.as_ref().is_none_or(|job| views::is_event_of(&cell, event, job))
    };
    let mut newest: Vec<EventView> =
        events.iter().rev().filter(is_meant).take(limit).map(|event| views::event(&cell, event)).collect();
    newest.reverse();
    Ok(EventList { events: newest, dropped, next })
}

type Sender = mpsc::Sender<Result<sse::Event, Infallible>>;

/// Sends `list` and what happens after it, until the reader goes away or the replica stops.
async fn follow(cells: Arc<Cells>, query: EventsQuery, mut list: EventList, sender: Sender) {
    let mut applied = cells.applied();
    let everything = EventsQuery { limit: Some(usize::MAX), ..query };
    loop {
        for (at, event) in list.events.iter().enumerate() {
            // Only the last event of an entry carries its index: a reader that comes back with it has all of the entry.
            let last_of_entry = list.events.get(at + 1).is_none_or(|next| next.index != event.index);
            if sender.send(Ok(as_sse(event, last_of_entry))).await.is_err() {
                return;
            }
        }
        let next = Index(list.next);
        list.events.clear();
        tokio::select! {
            changed = applied.wait_for(|applied| *applied > next) => {
                if changed.is_err() {
                    return;
                }
            }
            () = sender.closed() => return,
        }
        // Entries without events move the index, too: look at most this often.
        tokio::time::sleep(PAUSE).await;
        let seen = *applied.borrow();
        match page(&cells, &everything, next).await {
            Ok(found) => list = EventList { next: found.next.max(seen.0), ..found },
            Err(_) => return,
        }
    }
}

fn as_sse(event: &EventView, last_of_entry: bool) -> sse::Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    let message = sse::Event::default().event(&event.kind).data(data);
    if last_of_entry { message.id(event.index.to_string()) } else { message }
}
