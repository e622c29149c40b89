//! What every handler knows: the cell, the options, and what bounds the requests.

use super::cells::Cells;
use super::options::HttpOptions;
use super::streams::Streams;
use crate::handle::ReplicaHandle;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How many may wait for a job at once, beside the other requests.
pub(super) const WAITS_MAX: usize = 8192;
/// How many bodies are parsed at once: each one may take as much memory as some of the longest bodies.
pub(super) const PARSES_MAX: usize = 2;

/// What every handler knows.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) options: Arc<HttpOptions>,
    pub(super) cells: Arc<Cells>,
    pub(super) parses: Arc<Semaphore>,
    pub(super) requests: Arc<Semaphore>,
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
            parses: Arc::new(Semaphore::new(PARSES_MAX)),
            requests: Arc::new(Semaphore::new(options.requests_max)),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
            event_streams: Arc::new(Streams::new("events", options.event_streams_max)),
            log_streams: Arc::new(Streams::new("output", options.log_streams_max)),
            openapi: openapi.into(),
            options: Arc::new(options),
        }
    }
}
