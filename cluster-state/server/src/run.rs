//! The server process from its options to its end.

use crate::found::{self, Identified};
use crate::handle::ReplicaHandle;
use crate::links::{AddressBook, Introduction, Links};
use crate::metrics::Meter;
use crate::replica_thread;
use crate::rpc::{CellFacts, CellService};
use ohm_cell::{BackupSource, Cell};
use ohm_log_raft::{FileDisk, Listener, RaftLog, Remarks, Weight};
use ohm_replica::{Replica, ReplicaConfig, ReplicaFailure, ServerConfig, ServerCore};
use ohm_runtime::data_dir::{self, DataDirError};
use ohm_runtime::dice;
use ohm_runtime::shutdown::Shutdown;
use ohm_wire::MESSAGE_BYTES_MAX;
use ohm_wire::cell_server::CellServer;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
    let mut book = AddressBook::open(options.data_dir.join("servers"));
    let identified = tokio::select! { biased;
        () = shutdown.started() => return Ok(()),
        identified = found::find(&options, &token, &mut book) => identified?,
    };
    let config = &identified.config;
    let introduction =
        Introduction { cell: config.cell, server: config.member, address: options.advertised(), token: token.clone() };
    let (cell, founders) = (config.cell, config.founders.clone());
    let source = BackupSource { cell, cell_incarnation: identified.cell_incarnation };
    let facts = CellFacts { cell, founders, cell_incarnation: identified.cell_incarnation };
    let data_dir = options.data_dir.clone();
    let server = (config.member, identified.cell_incarnation);
    let snapshot_every = options.snapshot_every_entries;
    let open = move || open_core(&data_dir.join("log"), identified, snapshot_every);
    let runtime = tokio::runtime::Handle::current();
    let link = move |inbox| Links::new(introduction, book, runtime, inbox);
    let evidence_dir = options.data_dir.clone();
    let failure = move |failure: &ReplicaFailure, cell: &Cell| keep_evidence(&evidence_dir, failure, cell);
    let (handle, inbox, failed) = replica_thread::start(open, link, failure, server, Meter, shutdown.clone());
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

/// What the raft crate has to say goes to the log of the process.
struct Tracing;

impl Listener for Tracing {
    fn remark(&self, weight: Weight, text: &str) {
        match weight {
            Weight::Info => tracing::debug!(target: "raft", "{text}"),
            Weight::Warning => tracing::info!(target: "raft", "{text}"),
            Weight::Error => tracing::error!(target: "raft", "{text}"),
        }
    }
}

fn open_core(
    log_dir: &Path,
    identified: Identified,
    snapshot_every_entries: Option<u64>,
) -> Result<ServerCore<RaftLog<FileDisk>>, String> {
    data_dir::create(log_dir).map_err(|error| error.to_string())?;
    let (server, cell_incarnation) = (identified.config.member, identified.cell_incarnation);
    let log = identified.open(log_dir, Remarks::to(Tracing))?;
    let mut config = ReplicaConfig::default();
    if let Some(entries) = snapshot_every_entries {
        config.snapshot_every_entries = entries;
    }
    let name = format!("server {server} ({})", std::process::id());
    let server = ServerConfig { name, cell_incarnation, resend_ms: 500, server };
    Ok(ServerCore::new(Replica::new(log, config), server, dice::dice()))
}

/// A copy that differs from the others is of use only to whoever looks for the reason: its state and the words are
/// kept, and the folder serves no more.
fn keep_evidence(data_dir: &Path, failure: &ReplicaFailure, cell: &Cell) {
    if !matches!(failure, ReplicaFailure::Diverged { .. }) {
        return;
    }
    let pieces = Replica::<RaftLog<FileDisk>>::encode(cell).concat();
    let kept = std::fs::write(data_dir.join("diverged.cell"), pieces)
        .and_then(|()| std::fs::write(data_dir.join(found::DIVERGED), format!("{failure}\n")));
    if let Err(error) = kept {
        tracing::error!(%error, "the evidence could not be written");
    }
}
