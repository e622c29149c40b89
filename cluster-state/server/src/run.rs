//! The server process from its options to its end.

use crate::connections::{self, Full, Guest, Kind, Limits};
use crate::engine::{self, Started};
use crate::error::ServerError;
use crate::found;
use crate::handle::ReplicaHandle;
use crate::options::ServerOptions;
use crate::rpc::CellService;
use crate::tls::{self, Encryption};
use crate::token::same_bytes;
use ohm_cell::BackupSource;
use ohm_runtime::background::Background;
use ohm_runtime::shutdown::Shutdown;
use ohm_runtime::{data_dir, descriptors};
use ohm_wire::MESSAGE_BYTES_MAX;
use ohm_wire::cell_server::CellServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::{Request, Status};

/// How long the replica may take to end once nobody is served any more.
const CLOSING: Duration = Duration::from_secs(5);
/// The paths of the RPC service.
const RPC_PATHS: &str = "/ohm.v1.Cell/{*method}";

/// Runs a server until `shutdown`, or until it fails.
pub async fn run(options: ServerOptions, shutdown: Shutdown) -> Result<(), ServerError> {
    if !options.listen.ip().is_loopback() && options.tls.certificate.is_none() && !options.insecure {
        return Err(ServerError::Open(options.listen));
    }
    let limits = Limits::of(descriptors::raise());
    let tls = tls::settings(&options.tls, options.tls_client_auth)?;
    let _lock = data_dir::lock(&options.data_dir)?;
    found::refuse_diverged(&options.data_dir)?;
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
    let Started { handle, inbox, mut failed, facts } = started;
    let source = BackupSource { cell: facts.cell, cell_incarnation: facts.cell_incarnation };
    let bearer = format!("Bearer {token}");
    let check = move |request: Request<()>| check_token(&bearer, request);
    let service = CellServer::new(CellService::new(inbox, handle.clone(), facts))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let rpc = tonic::service::interceptor::InterceptedService::new(service, check);
    // Roles and people share the port; the path says who speaks.
    let background = Background::start(background_threads()).map_err(ServerError::Threads)?;
    let app = people(handle, Arc::new(background), token, &options, source, metrics).route_service(RPC_PATHS, rpc);
    tracing::info!(address = options.advertised(), "serving");
    let ended = |reason: Result<String, _>| reason.map_or(Ok(()), |reason| Err(ServerError::Replica(reason)));
    tokio::select! {
        biased;
        reason = &mut failed => ended(reason),
        () = connections::serve(listener, tls.map(Encryption::start), app, limits, shutdown) => {
            // The replica ends at the same word: it hands over and closes its log.
            tokio::time::timeout(CLOSING, failed).await.map_or(Ok(()), ended)
        }
    }
}

/// How many threads work out what may take long: never all cores are theirs, so that whoever does not wait finds one.
fn background_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1)
}

/// The host an address names.
fn host_of(address: &str) -> Option<String> {
    address.parse::<axum::http::Uri>().ok()?.host().map(str::to_string)
}

/// The HTTP side for people and programs.
fn people(
    handle: ReplicaHandle,
    background: Arc<Background>,
    token: String,
    options: &ServerOptions,
    source: BackupSource,
    metrics: metrics_exporter_prometheus::PrometheusHandle,
) -> axum::Router {
    crate::http::router(
        handle,
        background,
        crate::http::HttpOptions {
            metrics: Some(metrics),
            source,
            instance: std::env::var(ohm_wire::api::INSTANCE_VARIABLE).unwrap_or_default(),
            hosts: host_of(&options.advertised()).into_iter().collect(),
            ..crate::http::HttpOptions::new(options.listen, Some(token))
        },
    )
}

fn check_token(bearer: &str, request: Request<()>) -> Result<Request<()>, Status> {
    let shown = request.metadata().get("authorization").map(|value| value.as_bytes());
    if !shown.is_some_and(|shown| same_bytes(shown, bearer.as_bytes())) {
        let text = "the cell's token is missing or wrong; it is in the file `token` of the data folder";
        return Err(Status::unauthenticated(text));
    }
    match request.extensions().get::<Guest>().map_or(Ok(()), |guest| guest.recognise(Kind::Role)) {
        Ok(()) => Ok(request),
        Err(Full) => Err(Status::resource_exhausted("as many connections are open as there may be; try again later")),
    }
}
