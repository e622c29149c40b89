//! The way from one of our own processes to a server.

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
    /// Nobody answers there.
    #[error("no server answers at {address}: {source}")]
    Unreachable {
        /// The address.
        address: String,
        /// Why.
        source: tonic::transport::Error,
    },
}

/// Connects to the server at `address` (`http://host:port`), with keep-alive so that a peer that vanished is noticed.
pub async fn connect(address: &str, token: Option<&str>) -> Result<Client, ConnectError> {
    connect_with(address, token, Patience { connect_ms: 2_000, alive_every_ms: 2_000, alive_ms: 4_000 }).await
}

/// Connects one server to another: a silent one is given up sooner, since its messages can go nowhere else.
pub async fn connect_server(address: &str, token: &str) -> Result<Client, ConnectError> {
    connect_with(address, Some(token), Patience { connect_ms: 500, alive_every_ms: 500, alive_ms: 1_000 }).await
}

/// How long to wait for signs of life.
struct Patience {
    connect_ms: u64,
    alive_every_ms: u64,
    alive_ms: u64,
}

async fn connect_with(address: &str, token: Option<&str>, patience: Patience) -> Result<Client, ConnectError> {
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
    let token = token.map(|token| format!("Bearer {token}").parse()).transpose().map_err(|_| bad_address())?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|source| ConnectError::Unreachable { address: address.to_string(), source })?;
    let client = CellClient::with_interceptor(channel, WithToken(token));
    Ok(client
        .max_decoding_message_size(ohm_wire::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(ohm_wire::MESSAGE_BYTES_MAX))
}
