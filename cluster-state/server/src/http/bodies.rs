//! Bodies of documents, read and parsed so that none of them holds up the others.
//!
//! ```text
//!  small body ──▶ all of its documents, where it was read
//!  long body  ──▶ a place among the long ones ──▶ a turn ──▶ some documents ──▶ the next turn …
//! ```
//! Invariants: no more than so many long bodies are in memory, and no client has all of these places; one long body is
//! parsed at a time, for a moment each, so they come forward together; what is parsed waits for the cell to take it, so
//! the documents of a body are never all in memory.

use super::answer::Problem;
use super::lanes::{Client, Lane, Place};
use crate::handle::Unanswered;
use axum::body::Body;
use axum::http::StatusCode;
use ohm_manifest::{Document, DocumentError};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;

/// How many long bodies are parsed at once.
const LONG_PARSES_MAX: usize = 1;
/// Up to this length a body is small.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// How many long bodies are kept in memory; others wait with their sender.
const LONG_BODIES_MAX: usize = 8;
/// How long a turn of a long body is; a document is never cut.
const TURN: Duration = Duration::from_millis(25);
/// Most documents of one turn.
const TURN_DOCUMENTS_MAX: usize = 1024;

/// A document, or what is wrong with it.
pub(super) type Parsed = Result<Document, DocumentError>;

/// What bounds the work on bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    long: Semaphore,
    in_memory: Lane,
}

/// A whole body.
#[derive(Debug)]
pub(super) struct WholeBody {
    bytes: Vec<u8>,
    /// Of a long one.
    place: Option<Place>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Bodies { long: Semaphore::new(LONG_PARSES_MAX), in_memory: Lane::new(LONG_BODIES_MAX) }
    }

    /// The whole body, unless it is longer than `limit`. A longer one is read on for a while, so that its sender gets
    /// to read the answer.
    pub(super) async fn read(&self, client: &Client, body: Body, limit: usize) -> Result<WholeBody, Problem> {
        let announced = usize::try_from(axum::body::HttpBody::size_hint(&body).lower()).unwrap_or(usize::MAX);
        let mut whole = WholeBody { bytes: Vec::new(), place: None };
        let mut length = 0usize;
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| broken_body(&error))?;
            length += piece.len();
            if length > limit {
                whole = WholeBody { bytes: Vec::new(), place: None };
                if length > limit.saturating_mul(2) {
                    break;
                }
                continue;
            }
            if length > SMALL_BYTES_MAX && whole.place.is_none() {
                whole.place = self.in_memory.enter(client).await;
                whole.bytes.reserve_exact(announced.min(limit).saturating_sub(whole.bytes.len()));
            }
            whole.bytes.extend_from_slice(&piece);
        }
        if length <= limit {
            return Ok(whole);
        }
        let message = format!("the body is longer than {limit} bytes");
        let hint = "split the input, or send it as NDJSON (application/x-ndjson), which may be of any length";
        Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, hint))
    }

    /// The documents of `body`; those of a long one are handed out as they are parsed, some at a time.
    pub(super) fn parse(self: &Arc<Self>, name: &'static str, body: WholeBody) -> Documents {
        if body.place.is_none() {
            // To wake another thread would take longer than most of them.
            return Documents { first: Some(ohm_manifest::parse(name, &body.bytes)), more: None };
        }
        let (sender, chunks) = mpsc::channel(1);
        let (bodies, runtime) = (Arc::clone(self), Handle::current());
        let parsing = tokio::task::spawn_blocking(move || bodies.parse_long(&runtime, name, &body, &sender));
        Documents { first: None, more: Some((chunks, parsing)) }
    }

    /// On a thread of its own. Between two turns everybody else has one; none is held while the documents wait.
    fn parse_long(&self, runtime: &Handle, name: &str, body: &WholeBody, chunks: &mpsc::Sender<Vec<Parsed>>) {
        let mut turn = runtime.block_on(self.long.acquire()).ok();
        let (mut began, mut chunk) = (Instant::now(), Vec::new());
        ohm_manifest::parse_each(name, &body.bytes, &mut |document| {
            chunk.push(document);
            if began.elapsed() < TURN && chunk.len() < TURN_DOCUMENTS_MAX {
                return true;
            }
            drop(turn.take());
            if chunks.blocking_send(std::mem::take(&mut chunk)).is_err() {
                return false;
            }
            turn = runtime.block_on(self.long.acquire()).ok();
            began = Instant::now();
            true
        });
        drop(turn);
        if !chunk.is_empty() {
            let _ = chunks.blocking_send(chunk);
        }
    }
}

/// The documents of a body on their way. To drop it is to stop parsing.
pub(super) struct Documents {
    /// Of a small body.
    first: Option<Vec<Parsed>>,
    /// Of a long one, and the work on it.
    more: Option<(mpsc::Receiver<Vec<Parsed>>, JoinHandle<()>)>,
}

impl Documents {
    /// Some more; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Parsed>>, Problem> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some((chunks, _)) = &mut self.more else { return Ok(None) };
        if let Some(chunk) = chunks.recv().await {
            return Ok(Some(chunk));
        }
        match self.more.take() {
            Some((_, parsing)) => parsing.await.map_err(|_| failed()).map(|()| None),
            None => Ok(None),
        }
    }
}

fn failed() -> Problem {
    Problem::from(Unanswered::NotServing("reading the documents failed".into()))
}

pub(super) fn broken_body(error: &axum::Error) -> Problem {
    Problem::invalid(
        format!("the request ended early: {error}"),
        "what was read before may be in the cell; send it again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(count: usize) -> Vec<u8> {
        let note = "x".repeat(60);
        let job = |at| {
            format!(
                "apiVersion: ohm/v1\nkind: Job\nmetadata: {{name: j{at}, labels: {{note: {note}}}}}\n\
                 spec: {{requests: {{cpu: 1}}, command: [a]}}\n---\n"
            )
        };
        (0..count).map(job).collect::<String>().into_bytes()
    }

    async fn read(bodies: &Bodies, owner: &str, bytes: Vec<u8>) -> WholeBody {
        bodies.read(&Client::new(None, owner.as_bytes()), Body::from(bytes), 32 << 20).await.unwrap()
    }

    async fn first(documents: &mut Documents) -> usize {
        let chunk = tokio::time::timeout(Duration::from_secs(60), documents.next()).await.expect("in time");
        chunk.unwrap().map_or(0, |chunk| chunk.len())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn long_bodies_come_forward_together_and_small_ones_pass_them() {
        let bodies = Arc::new(Bodies::new());
        let long = yaml(12_000);
        assert!(long.len() > SMALL_BYTES_MAX);
        let (one, other) = (read(&bodies, "ann", long.clone()).await, read(&bodies, "bob", long).await);
        let mut one = bodies.parse("a.yaml", one);
        let mut counts = [first(&mut one).await, 0, 0];
        // The first goes on only as its documents are taken; meanwhile the other one and a small one have their turns.
        let mut other = bodies.parse("b.yaml", other);
        counts[1] = first(&mut other).await;
        let small = read(&bodies, "eve", yaml(1)).await;
        counts[2] = first(&mut bodies.parse("c.yaml", small)).await;
        assert!((1..=TURN_DOCUMENTS_MAX).contains(&counts[0]), "{counts:?}");
        assert!((1..=TURN_DOCUMENTS_MAX).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts[2], 1);
        drop(other);
        while let Some(chunk) = one.next().await.unwrap() {
            counts[0] += chunk.iter().filter(|document| document.is_ok()).count();
        }
        assert_eq!(counts[0], 12_000);
        for _ in 0..600 {
            if bodies.in_memory.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(bodies.in_memory.is_empty(), "whoever is not read any more is not parsed any more");
    }

    #[tokio::test]
    async fn one_client_has_not_all_places_of_long_bodies() {
        let bodies = Bodies::new();
        let long = || vec![b'#'; SMALL_BYTES_MAX + 1];
        let (ann, bob) = (Client::new(None, b"ann"), Client::new(None, b"bob"));
        let mut held = Vec::new();
        let read =
            |client| tokio::time::timeout(Duration::from_millis(50), bodies.read(client, Body::from(long()), 1 << 25));
        while let Ok(body) = read(&ann).await {
            held.push(body.unwrap());
        }
        assert_eq!(held.len(), LONG_BODIES_MAX * 3 / 4);
        assert!(read(&bob).await.is_ok());
        held.pop();
        assert!(read(&ann).await.is_ok());
    }
}
