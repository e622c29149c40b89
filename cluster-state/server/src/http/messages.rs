//! Server-sent messages: who asks for them, and how a stream of them goes on.

use super::answer::stamped;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use ohm_model::Index;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

/// A stream in which nothing happens says so this often.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Message = Result<Event, Infallible>;
/// Towards one reader.
pub(super) type Sender = mpsc::Sender<Message>;

/// Whether a request asks for a stream: by `follow`, or by what it accepts.
pub(super) fn are_asked_for(follow: bool, headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    follow || accepts.contains("text/event-stream")
}

/// The answer whose messages come from `receiver`; it begins with what was known by the entry `index`.
pub(super) fn answer(index: Index, receiver: mpsc::Receiver<Message>) -> Response {
    let stream = Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    stamped(index, stream.into_response())
}

/// Waits for an entry after `index`, and then for `pause`, so that whoever looks looks at most that often. Says whether
/// to go on: not when the reader went away or the replica stopped.
pub(super) async fn go_on(
    applied: &mut watch::Receiver<Index>,
    index: Index,
    sender: &Sender,
    pause: Duration,
) -> bool {
    let is_there = tokio::select! {
        changed = applied.wait_for(|applied| *applied > index) => changed.is_ok(),
        () = sender.closed() => false,
    };
    if is_there {
        tokio::time::sleep(pause).await;
    }
    is_there
}
