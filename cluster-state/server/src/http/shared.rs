//! What every handler knows: the cell, the options, and what bounds the requests.

use super::cells::Cells;
use super::options::HttpOptions;
use super::streams::Streams;
use crate::handle::ReplicaHandle;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many may wait for a job at once, beside the other requests.
pub(super) const WAITS_MAX: usize = 8192;
/// How many small bodies are parsed at once.
const SMALL_PARSES_MAX: usize = 2;
/// How many others are: each one may take as much memory as some of the longest bodies.
const BIG_PARSES_MAX: usize = 1;
/// Up to this length a body is small.
const SMALL_BYTES_MAX: usize = 1 << 20;

/// Turns at parsing. Small bodies pass by long ones, which take seconds.
pub(super) struct Parses {
    small: Semaphore,
    big: Semaphore,
}

impl Parses {
    fn new() -> Self {
        Parses { small: Semaphore::new(SMALL_PARSES_MAX), big: Semaphore::new(BIG_PARSES_MAX) }
    }

    /// The turn of a body of this length, until what this gives is dropped.
    pub(super) async fn turn(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let turns = if bytes <= SMALL_BYTES_MAX { &self.small } else { &self.big };
        turns.acquire().await.ok()
    }
}

/// What every handler knows.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) options: Arc<HttpOptions>,
    pub(super) cells: Arc<Cells>,
    pub(super) parses: Arc<Parses>,
    pub(super) requests: Arc<Semaphore>,
    /// Those that submit, beside the others: bodies that don't end leave room for everything else.
    pub(super) submits: Arc<Semaphore>,
    pub(super) waits: Arc<Semaphore>,
    pub(super) event_streams: Arc<Streams>,
    pub(super) log_streams: Arc<Streams>,
    pub(super) openapi: Arc<str>,
}

impl Shared {
    /// For handlers that ask `handle`.
    pub(super) fn new(handle: ReplicaHandle, options: HttpOptions, openapi: String) -> Self {
        Shared {
            cells: Arc::new(Cells::new(handle)),
            parses: Arc::new(Parses::new()),
            requests: Arc::new(Semaphore::new(options.requests_max)),
            submits: Arc::new(Semaphore::new(options.submits_max())),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
            event_streams: Arc::new(Streams::new("events", options.event_streams_max)),
            log_streams: Arc::new(Streams::new("output", options.log_streams_max)),
            openapi: openapi.into(),
            options: Arc::new(options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn small_bodies_pass_by_long_ones() {
        let parses = Parses::new();
        let turn = |bytes| parses.turn(bytes).now_or_never().flatten();
        let long = turn(28 << 20).expect("the first one");
        assert!(turn(28 << 20).is_none(), "long ones wait for each other");
        let small = turn(100).expect("it waits for no long one");
        drop((long, small));
        assert!(turn(28 << 20).is_some());
    }
}
