//! HTTP for people and programs: JSON under `/v1`, metrics, liveness. See `ohm_wire::api` for the types, and
//! `/v1/openapi.json` for the list of routes, which is made from the table the router is made from.
//!
//! Invariants: nothing is answered without the token but `/healthz`; no request that a web page could send by itself is
//! answered at all (Host, Origin and content type are judged before the body is read); every answer but a stream is
//! bounded, and so are the number of streams and every body that is kept in memory; an error is always JSON with a
//! code, a message and a hint.

mod answer;
mod backup;
mod bodies;
mod cells;
mod control;
mod endpoints;
mod events;
mod explain;
mod followed;
mod guard;
mod jobs;
mod lanes;
mod lines;
mod logs;
mod messages;
mod nodes;
mod openapi;
mod options;
mod overview;
mod pace;
mod params;
mod queue_metrics;
mod queues;
mod rollout;
mod routes;
mod samples;
mod scale;
mod servers;
mod shared;
mod streams;
mod submit;
mod verdicts;
mod views;
mod wait;

#[cfg(test)]
mod tests;

pub use options::HttpOptions;

use crate::handle::ReplicaHandle;
use axum::Router;
use axum::middleware;
use ohm_runtime::background::Background;
use shared::Shared;
use std::sync::Arc;

/// All routes, guarded. They ask `handle`; what may take long is worked out in `background`.
pub fn router(handle: ReplicaHandle, background: Arc<Background>, options: HttpOptions) -> Router {
    let table = routes::table();
    let openapi = openapi::document(table.iter().map(|(route, _)| route)).to_string();
    let shared = Shared::new(handle, background, options, openapi);
    let paths = table.into_iter().fold(Router::new(), |router, (route, method)| router.route(route.path, method));
    paths
        .fallback(answer::no_such_route)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(middleware::from_fn_with_state(shared.clone(), guard::admit))
        .with_state(shared)
}
