//! What somebody follows: the whole of it whenever it is another one, so that who reads late misses nothing that still
//! holds.

use super::cells::Cells;
use super::messages::{self, Sender};
use axum::response::{Response, sse};
use ohm_cell::Cell;
use ohm_model::Index;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The pause between two looks while much happens.
const PAUSE: Duration = Duration::from_millis(100);
/// How many views wait for a slow reader.
const UNREAD_MAX: usize = 1;

/// What was seen last.
pub(super) struct Seen<V> {
    pub(super) view: V,
    /// The entry up to which it holds.
    pub(super) index: Index,
}

/// A stream of messages called `event`: what was `seen`, and again what `look` sees whenever that is another one, until
/// the reader goes away or the replica stops. `open` is held as long.
pub(super) fn follow<V>(
    cells: &Arc<Cells>,
    seen: Seen<V>,
    event: &'static str,
    open: impl Send + 'static,
    look: impl Fn(&Cell, &V) -> V + Send + Sync + 'static,
) -> Response
where
    V: PartialEq + Serialize + Send + Sync + 'static,
{
    let (sender, receiver) = mpsc::channel(UNREAD_MAX);
    let (cells, index) = (Arc::clone(cells), seen.index);
    tokio::spawn(async move {
        send_all(&cells, seen, event, sender, look).await;
        drop(open);
    });
    messages::answer(index, receiver)
}

async fn send_all<V: PartialEq + Serialize>(
    cells: &Cells,
    mut seen: Seen<V>,
    event: &'static str,
    sender: Sender,
    look: impl Fn(&Cell, &V) -> V,
) {
    let mut applied = cells.applied();
    let mut is_news = true;
    loop {
        if is_news && sender.send(Ok(as_sse(&seen, event))).await.is_err() {
            return;
        }
        if !messages::go_on(&mut applied, seen.index, &sender, PAUSE).await {
            return;
        }
        let Ok(cell) = cells.here().await else { return };
        let view = look(&cell, &seen.view);
        is_news = view != seen.view;
        seen = Seen { view, index: cell.applied() };
    }
}

fn as_sse<V: Serialize>(seen: &Seen<V>, event: &str) -> sse::Event {
    let data = serde_json::to_string(&seen.view).unwrap_or_default();
    sse::Event::default().event(event).data(data).id(seen.index.0.to_string())
}
