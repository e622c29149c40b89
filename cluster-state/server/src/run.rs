//! The server process from its options to its end.

use crate::engine::{self, Started};
use crate::handle::ReplicaHandle;
use crate::rpc::CellService;
use ohm_cell::BackupSource;
use ohm_log_etcd::EtcdOptions;
use ohm_runtime::data_dir::{self, DataDirError};
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::MESSAGE_BYTES_MAX;
use ohm_wire::cell_server::CellServer;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tonic::{Request, Status};

/// The paths of the RPC service.
const RPC_PATHS: &str = "/ohm.v1.Cell/{*method}";

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where its log and snapshots are.
    pub data_dir: PathBuf,
    /// The address of its one port.
    pub listen: SocketAddr,
    /// Listen on an address that others can reach although nothing is encrypted.
    pub insecure: bool,
    /// Where other servers and clients reach it; the listening address when absent.
    pub advertise: Option<String>,
    /// Servers of the cell to join, if the data folder is empty; without any, an empty folder founds a cell.
    pub join: Vec<String>,
    /// Snapshot after so many entries; the default when absent.
    pub snapshot_every_entries: Option<u64>,
    /// The etcd that orders the log; the servers do it themselves without one.
    pub etcd: Option<EtcdOptions>,
}

impl ServerOptions {
    /// Where others reach this server.
    pub(crate) fn advertised(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| format!("http://{}", self.listen))
    }
}

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data folder can't be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Its address is taken or not one of this machine.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address would be open to others.
    #[error("{0} can be reached from other machines, and nothing is encrypted: listen on 127.0.0.1, or say --insecure")]
    Open(SocketAddr),
    /// The options or the data folder do not fit the etcd, or it lets nobody in.
    #[error(transparent)]
    Etcd(#[from] ohm_log_etcd::EtcdError),
    /// The log or the replica failed. What is on disk is left as it was.
    #[error("{0}")]
    Replica(String),
    /// The network side failed.
    #[error("serving ended: {0}")]
    Serve(std::io::Error),
}

/// Runs a server until `shutdown`, or until it fails.
pub async fn run(options: ServerOptions, shutdown: Shutdown) -> Result<(), ServerError> {
    if !options.listen.ip().is_loopback() && !options.insecure {
        return Err(ServerError::Open(options.listen));
    }
    let _lock = data_dir::lock(&options.data_dir)?;
    let token = data_dir::token(&options.data_dir)?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|source| ServerError::Listen { address: options.listen, source })?;
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    // A second server in one process (in tests) keeps the first recorder.
    let _ = ::metrics::set_global_recorder(recorder);
    let started = tokio::select! { biased;
        () = shutdown.started() => return Ok(()),
        started = engine::start(&options, &token, &shutdown) => started?,
    };
    let Started { handle, inbox, failed, facts } = started;
    let source = BackupSource { cell: facts.cell, cell_incarnation: facts.cell_incarnation };
    let bearer = format!("Bearer {token}");
    let check = move |request: Request<()>| check_token(&bearer, request);
    let service = CellServer::new(CellService::new(inbox, handle.clone(), facts))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let rpc = tonic::service::interceptor::InterceptedService::new(service, check);
    // Roles and people share the port; the path says who speaks.
    let app = people(handle, token, options.listen, source, metrics).route_service(RPC_PATHS, rpc);
    tracing::info!(address = %options.listen, "serving");
    let stop = shutdown.clone();
    let serve = axum::serve(listener, app).with_graceful_shutdown(async move { stop.started().await });
    tokio::select! {
        biased;
        reason = failed => match reason {
            Ok(reason) => Err(ServerError::Replica(reason)),
            Err(_) => Ok(()),
        },
        served = serve.into_future() => served.map_err(ServerError::Serve),
    }
}

/// The HTTP side for people and programs.
fn people(
    handle: ReplicaHandle,
    token: String,
    listen: SocketAddr,
    source: BackupSource,
    metrics: metrics_exporter_prometheus::PrometheusHandle,
) -> axum::Router {
    crate::http::router(
        handle,
        crate::http::HttpOptions {
            metrics: Some(metrics),
            source,
            instance: std::env::var(ohm_wire::api::INSTANCE_VARIABLE).unwrap_or_default(),
            ..crate::http::HttpOptions::new(listen, Some(token))
        },
    )
}

fn check_token(bearer: &str, request: Request<()>) -> Result<Request<()>, Status> {
    let shown = request.metadata().get("authorization").map(|value| value.as_bytes());
    if shown.is_some_and(|shown| same_bytes(shown, bearer.as_bytes())) {
        return Ok(request);
    }
    Err(Status::unauthenticated("the cell's token is missing or wrong; it is in the file `token` of the data folder"))
}

/// Compares without telling by its duration where the first difference is.
pub(crate) fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (x, y)| different | (x ^ y)) == 0
}
