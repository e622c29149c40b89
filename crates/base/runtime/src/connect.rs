//! The way from one of our own processes to a server.

use crate::tls::{TlsError, TlsFiles};
use ohm_wire::cell_client::CellClient;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// Adds the cell's token to every call.
#[derive(Clone, Debug)]
pub struct WithToken(Option<MetadataValue<Ascii>>);

impl Interceptor for WithToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A client of a server's RPC side.
pub type Client = CellClient<InterceptedService<Channel, WithToken>>;

/// Why a server can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing to connect to.
    #[error("no server address was given; one looks like http://127.0.0.1:6460")]
    NoAddress,
    /// The address is not one.
    #[error("\"{0}\" is not a server address; one looks like http://127.0.0.1:6460")]
    Address(String),
    /// Its certificate can't be judged, or ours not shown.
    #[error("{address} can't be reached: {source}")]
    Tls {
        /// The address.
        address: String,
        /// Why.
        source: TlsError,
    },
    /// Nobody answers there.
    #[error("no server answers at {address}: {reason}")]
    Unreachable {
        /// The address.
        address: String,
        /// Why, from the outermost reason to the innermost.
        reason: String,
    },
}

/// Connects to the server at `address` (`http://host:port`), with keep-alive so that a peer that vanished is noticed.
pub async fn connect(address: &str, token: Option<&str>, tls: &TlsFiles) -> Result<Client, ConnectError> {
    connect_with(address, token, tls, Patience { connect_ms: 2_000, alive_every_ms: 2_000, alive_ms: 4_000 }).await
}

/// Connects one server to another: a silent one is given up sooner, since its messages can go nowhere else.
pub async fn connect_server(address: &str, token: &str, tls: &TlsFiles) -> Result<Client, ConnectError> {
    connect_with(address, Some(token), tls, Patience { connect_ms: 500, alive_every_ms: 500, alive_ms: 1_000 }).await
}

/// How long to wait for signs of life.
struct Patience {
    connect_ms: u64,
    alive_every_ms: u64,
    alive_ms: u64,
}

async fn connect_with(
    address: &str,
    token: Option<&str>,
    tls: &TlsFiles,
    patience: Patience,
) -> Result<Client, ConnectError> {
    let bad_address = || ConnectError::Address(address.to_string());
    let endpoint = Endpoint::from_shared(address.to_string())
        .map_err(|_| bad_address())?
        .connect_timeout(Duration::from_millis(patience.connect_ms))
        .http2_keep_alive_interval(Duration::from_millis(patience.alive_every_ms))
        .keep_alive_timeout(Duration::from_millis(patience.alive_ms))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(16 << 20)
        .tcp_nodelay(true);
    let endpoint = match address.starts_with("https://") {
        true => with_tls(endpoint, address, tls)?,
        false => endpoint,
    };
    let token = token.map(|token| format!("Bearer {token}").parse()).transpose().map_err(|_| bad_address())?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|error| unreachable(address, &error))?;
    let client = CellClient::with_interceptor(channel, WithToken(token));
    Ok(client
        .max_decoding_message_size(ohm_wire::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(ohm_wire::MESSAGE_BYTES_MAX))
}

fn with_tls(endpoint: Endpoint, address: &str, files: &TlsFiles) -> Result<Endpoint, ConnectError> {
    let client = files.client().map_err(|source| ConnectError::Tls { address: address.to_string(), source })?;
    endpoint.tls_config(client).map_err(|error| unreachable(address, &error))
}

fn unreachable(address: &str, error: &dyn std::error::Error) -> ConnectError {
    let mut reason = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        reason.push_str(&format!(": {error}"));
        inner = error.source();
    }
    ConnectError::Unreachable { address: address.to_string(), reason }
}
