//! How HTTP is served: addresses, the token, and the bound of everything that a stranger can use up.

use metrics_exporter_prometheus::PrometheusHandle;
use ohm_cell::BackupSource;
use std::net::SocketAddr;

/// Longest body that is kept in memory. NDJSON is read line by line and has no such bound.
const BODY_BYTES_MAX_DEFAULT: usize = 32 << 20;
/// How many requests may be under way at once.
const REQUESTS_MAX_DEFAULT: usize = 8192;
/// How many may follow events at once by default: each looks at the replica up to 50 times a second.
const EVENT_STREAMS_MAX_DEFAULT: usize = 256;
/// How many may follow endpoints at once by default: each looks at the replica up to 10 times a second.
const ENDPOINT_STREAMS_MAX_DEFAULT: usize = 1024;
/// How many may follow rollouts at once by default, as often.
const ROLLOUT_STREAMS_MAX_DEFAULT: usize = 1024;
/// How many may read output at once by default.
const LOG_STREAMS_MAX_DEFAULT: usize = 4096;

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
    /// How many may follow endpoints at once.
    pub endpoint_streams_max: usize,
    /// How many may follow rollouts at once.
    pub rollout_streams_max: usize,
    /// By which whoever started this server knows it again; possibly empty.
    pub instance: String,
}

impl HttpOptions {
    /// How many may submit at once, beside all other requests.
    pub(super) fn submits_max(&self) -> usize {
        self.requests_max / 2
    }

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
            endpoint_streams_max: ENDPOINT_STREAMS_MAX_DEFAULT,
            rollout_streams_max: ROLLOUT_STREAMS_MAX_DEFAULT,
            instance: String::new(),
        }
    }
}
