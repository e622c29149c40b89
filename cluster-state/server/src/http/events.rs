//! What happened: a page of it, or a stream.

use super::answer::{Answer, json};
use super::cells::Cells;
use super::lanes::Client;
use super::messages::{self, Sender};
use super::params::Params;
use super::shared::Shared;
use super::views;
use crate::handle::Unanswered;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use ohm_model::{Event, EventKind, Index};
use ohm_replica::EventPage;
use ohm_wire::api::{EventList, EventView};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const LIMIT_DEFAULT: usize = 1000;
/// The kind of the row that says what is missing.
const DROPPED: &str = "dropped";
/// How many events wait for a slow reader before its stream stops reading on.
const UNREAD_MAX: usize = 256;
/// How much earlier the state may be that knows jobs which are forgotten by now. One more copy of it would be dear.
const EARLIER: Duration = Duration::from_millis(100);
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
    client: Client,
    Params(query): Params<EventsQuery>,
    headers: HeaderMap,
) -> Answer {
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = Index(last_id.or(query.after).unwrap_or(0));
    let look = Look::at(&shared.cells, &query, after, None).await?;
    let next = Index(look.list.next);
    if !messages::are_asked_for(query.follow, &headers) {
        return Ok(json(next, &look.list));
    }
    let open = shared.event_streams.open(&client)?;
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    let cells = Arc::clone(&shared.cells);
    tokio::spawn(async move {
        follow(cells, query, look, sender).await;
        drop(open);
    });
    Ok(messages::answer(next, receiver))
}

/// What there was to see at one moment.
struct Look {
    list: EventList,
    /// How many events there were up to here since the server started.
    end: u64,
}

impl Look {
    /// Looks at what came after the entry `after`. Whoever has looked before names how many events there were up to
    /// then, so that what was dropped in between can be counted.
    async fn at(cells: &Cells, query: &EventsQuery, after: Index, seen: Option<u64>) -> Result<Look, Unanswered> {
        // What the events name is known before them or after them, or they say it themselves.
        let earlier = cells.recent(EARLIER).await?;
        let page = cells.events_after(after).await?;
        let cell = cells.now().await?;
        let next = page.events().next_back().map_or(after, |event| event.index).0;
        let names = &views::Names { cell: &cell, jobs: &page.names_of_forgotten(&earlier, &cell) };
        let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
        let is_meant = |event: &&Event| {
            (query.leases || !matches!(event.kind, EventKind::LeaseTaken { .. }))
                && query.job.as_ref().is_none_or(|job| views::is_event_of(names, event, job))
        };
        let mut newest: Vec<EventView> =
            page.events().rev().filter(is_meant).take(limit).map(|event| views::event(names, event)).collect();
        newest.extend(gap(&page, after, seen, cell.now_ms()));
        newest.reverse();
        Ok(Look { end: page.end(), list: EventList { events: newest, dropped: page.dropped, next } })
    }
}

/// A row that says what is missing between the entry `after`, up to which a reader has everything, and `page`.
fn gap(page: &EventPage, after: Index, seen: Option<u64>, now_ms: u64) -> Option<EventView> {
    let count = seen.map(|seen| page.before.saturating_sub(seen));
    let is_whole = count.map_or(after == Index(0) || page.dropped_through <= after, |count| count == 0);
    if is_whole {
        return None;
    }
    let dropped = count.map_or("events".to_string(), |count| format!("{count} events"));
    Some(EventView {
        index: after.0,
        at_ms: page.events().next().map_or(now_ms, |event| event.at_ms),
        kind: DROPPED.into(),
        message: format!("dropped {dropped} since entry {after}: this server no longer has them"),
        count: count.unwrap_or(0).try_into().unwrap_or(u32::MAX),
        ..EventView::default()
    })
}

/// Sends what `look` saw and what happens after it, until the reader goes away or the replica stops.
async fn follow(cells: Arc<Cells>, query: EventsQuery, look: Look, sender: Sender) {
    let Look { mut list, mut end } = look;
    let mut applied = cells.applied();
    let everything = EventsQuery { limit: Some(usize::MAX), ..query };
    loop {
        for (at, event) in list.events.iter().enumerate() {
            // Only the last event of an entry carries its index: a reader that comes back with it has all of the entry.
            let next = list.events.get(at + 1);
            let last_of_entry = event.kind != DROPPED && next.is_none_or(|next| next.index != event.index);
            if sender.send(Ok(as_sse(event, last_of_entry))).await.is_err() {
                return;
            }
        }
        let next = Index(list.next);
        list.events.clear();
        // Entries without events move the index, too.
        if !messages::go_on(&mut applied, next, &sender, PAUSE).await {
            return;
        }
        let seen = *applied.borrow();
        match Look::at(&cells, &everything, next, Some(end)).await {
            Ok(found) => {
                end = found.end;
                list = EventList { next: found.list.next.max(seen.0), ..found.list };
            }
            Err(_) => return,
        }
    }
}

fn as_sse(event: &EventView, last_of_entry: bool) -> sse::Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    let message = sse::Event::default().event(&event.kind).data(data);
    if last_of_entry { message.id(event.index.to_string()) } else { message }
}
