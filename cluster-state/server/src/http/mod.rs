//! HTTP for people and programs: JSON under `/v1`, metrics, liveness. See `ohm_wire::api` for the types, and
//! `/v1/openapi.json` for the list of routes, which is made from the table the router is made from.
//!
//! Invariants: nothing is answered without the token but `/healthz`; no request that a web page could send by itself is
//! answered at all (Host, Origin and content type are judged before the body is read); every answer but a stream is
//! bounded, and so are the number of streams and every body that is kept in memory; an error is always JSON with a
//! code, a message and a hint.

mod answer;
mod backup;
mod cells;
mod control;
mod events;
mod explain;
mod guard;
mod jobs;
mod lines;
mod logs;
mod nodes;
mod openapi;
mod overview;
mod params;
mod routes;
mod samples;
mod scale;
mod servers;
mod streams;
mod submit;
mod verdicts;
mod views;
mod wait;

#[cfg(test)]
mod tests;

use crate::handle::ReplicaHandle;
use axum::Router;
use axum::middleware;
use cells::Cells;
use metrics_exporter_prometheus::PrometheusHandle;
use ohm_cell::BackupSource;
use std::net::SocketAddr;
use std::sync::Arc;
use streams::Streams;
use tokio::sync::Semaphore;

/// Longest body that is kept in memory. NDJSON is read line by line and has no such bound.
pub const BODY_BYTES_MAX_DEFAULT: usize = 32 << 20;
/// How many requests may be under way at once.
pub const REQUESTS_MAX_DEFAULT: usize = 8192;
/// How many may wait for a job at once, beside the other requests.
const WAITS_MAX: usize = 8192;
/// How many may follow events at once by default: each looks at the replica up to 50 times a second.
pub const EVENT_STREAMS_MAX_DEFAULT: usize = 256;
/// How many may read output at once by default.
pub const LOG_STREAMS_MAX_DEFAULT: usize = 4096;
/// How many bodies are parsed at once: each one may take as much memory as some of the longest bodies.
const PARSES_MAX: usize = 2;

/// How HTTP is served.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where the server listens: requests must name this address or a loopback one in their Host header.
    pub listen: SocketAddr,
    /// Further host names that requests may name, such as those of the certificate.
    pub hosts: Vec<String>,
    /// The bearer token every request must carry; without one nothing is asked for.
    pub token: Option<String>,
    /// Renders `/metrics`; without one the page is empty.
    pub metrics: Option<PrometheusHandle>,
    /// Longest body that is kept in memory.
    pub body_bytes_max: usize,
    /// How many requests may be under way at once.
    pub requests_max: usize,
    /// Which cell this is, for backups of it.
    pub source: BackupSource,
    /// How many may follow events at once.
    pub event_streams_max: usize,
    /// How many may read output at once.
    pub log_streams_max: usize,
    /// By which whoever started this server knows it again; possibly empty.
    pub instance: String,
}

impl HttpOptions {
    /// For a server that listens on `listen`, with `token`, and everything else by default.
    pub fn new(listen: SocketAddr, token: Option<String>) -> Self {
        HttpOptions {
            listen,
            hosts: Vec::new(),
            token,
            metrics: None,
            body_bytes_max: BODY_BYTES_MAX_DEFAULT,
            requests_max: REQUESTS_MAX_DEFAULT,
            source: BackupSource { cell: 0, cell_incarnation: 1 },
            event_streams_max: EVENT_STREAMS_MAX_DEFAULT,
            log_streams_max: LOG_STREAMS_MAX_DEFAULT,
            instance: String::new(),
        }
    }
}

/// What every handler knows.
#[derive(Clone)]
struct Shared {
    options: Arc<HttpOptions>,
    cells: Arc<Cells>,
    parses: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    event_streams: Arc<Streams>,
    log_streams: Arc<Streams>,
    openapi: Arc<str>,
}

/// All routes, guarded. They ask `handle`.
pub fn router(handle: ReplicaHandle, options: HttpOptions) -> Router {
    let table = routes::table();
    let openapi = openapi::document(table.iter().map(|(route, _)| route)).to_string();
    let shared = Shared {
        cells: Arc::new(Cells::new(handle)),
        parses: Arc::new(Semaphore::new(PARSES_MAX)),
        requests: Arc::new(Semaphore::new(options.requests_max)),
        waits: Arc::new(Semaphore::new(WAITS_MAX)),
        event_streams: Arc::new(Streams::new("events", options.event_streams_max)),
        log_streams: Arc::new(Streams::new("output", options.log_streams_max)),
        openapi: openapi.into(),
        options: Arc::new(options),
    };
    let paths = table.into_iter().fold(Router::new(), |router, (route, method)| router.route(route.path, method));
    paths
        .fallback(answer::no_such_route)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::admit))
        .with_state(shared)
}
