//! What every handler knows: the cell, the options, and what bounds the requests.

use super::bodies::Bodies;
use super::cells::Cells;
use super::lanes::Lane;
use super::options::HttpOptions;
use super::streams::Streams;
use crate::handle::ReplicaHandle;
use ohm_runtime::background::Background;
use std::sync::Arc;

/// How many may wait for a job at once, beside the other requests.
const WAITS_MAX: usize = 8192;
/// What every handler knows.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) options: Arc<HttpOptions>,
    pub(super) cells: Arc<Cells>,
    pub(super) background: Arc<Background>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) requests: Arc<Lane>,
    /// Those that submit, beside the others: bodies that don't end leave room for everything else.
    pub(super) submits: Arc<Lane>,
    pub(super) waits: Arc<Lane>,
    pub(super) event_streams: Arc<Streams>,
    pub(super) log_streams: Arc<Streams>,
    pub(super) endpoint_streams: Arc<Streams>,
    pub(super) rollout_streams: Arc<Streams>,
    pub(super) openapi: Arc<str>,
}

impl Shared {
    /// For handlers that ask `handle`.
    pub(super) fn new(
        handle: ReplicaHandle,
        background: Arc<Background>,
        options: HttpOptions,
        openapi: String,
    ) -> Self {
        Shared {
            cells: Arc::new(Cells::new(handle)),
            background,
            bodies: Arc::new(Bodies::new()),
            requests: Arc::new(Lane::new(options.requests_max)),
            submits: Arc::new(Lane::new(options.submits_max())),
            waits: Arc::new(Lane::new(WAITS_MAX)),
            event_streams: Arc::new(Streams::new("events", options.event_streams_max)),
            log_streams: Arc::new(Streams::new("output", options.log_streams_max)),
            endpoint_streams: Arc::new(Streams::new("endpoints", options.endpoint_streams_max)),
            rollout_streams: Arc::new(Streams::new("rollouts", options.rollout_streams_max)),
            openapi: openapi.into(),
            options: Arc::new(options),
        }
    }
}
