//! From the port to the routes.

use super::body::{Coming, Going};
use super::guests::{Connections, Guest};
use super::room::{CLOSING_MAX, Limits};
use crate::tls::Encryption;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use ohm_runtime::shutdown::Shutdown;
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

/// Most that is kept of a header that is not whole yet.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How long the next piece of a request's body is waited for.
const PIECE_PATIENCE: Duration = Duration::from_secs(30);
/// Before the next attempt when nothing could be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// A peer that is gone without a word is noticed after `ALIVE_AFTER` and some times `ALIVE_EVERY`.
const ALIVE_AFTER: Duration = Duration::from_secs(60);
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Under this begin the paths of RPC, whose bodies are streams that are quiet at times.
const RPC_PREFIX: &str = "/ohm.v1.";

/// Serves `app`, encrypted or not, until `shutdown`; what is under way then is answered.
pub(crate) async fn serve(
    listener: TcpListener,
    encryption: Option<Encryption>,
    app: Router,
    limits: Limits,
    shutdown: Shutdown,
) {
    let connections = Arc::new(Connections::new(limits));
    // Those that were pushed out hold their descriptor for a moment longer.
    let descriptors = Arc::new(Semaphore::new(limits.all + CLOSING_MAX as usize));
    let encryption = encryption.map(Arc::new);
    let (open, closed) = watch::channel(());
    let stop = shutdown.clone();
    let accept = async {
        loop {
            let Ok(descriptor) = Arc::clone(&descriptors).acquire_owned().await else { return };
            let (stream, peer) = accept(&listener).await;
            let guest = connections.enter(peer.ip());
            let connection = Connection { guest, app: app.clone(), shutdown: shutdown.clone() };
            let (encryption, closed) = (encryption.clone(), closed.clone());
            tokio::spawn(async move {
                connection.run(stream, encryption.as_deref()).await;
                drop((descriptor, closed));
            });
        }
    };
    tokio::select! { biased;
        () = stop.started() => {}
        () = accept => {}
    }
    drop((closed, listener));
    open.closed().await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, std::net::SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                let is_the_peers = matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionRefused
                );
                if !is_the_peers {
                    tracing::error!(%error, "no connection can be accepted; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// One connection and what it needs.
struct Connection {
    guest: Guest,
    app: Router,
    shutdown: Shutdown,
}

impl Connection {
    /// Serves it to its end, which the peer, the shutdown, or too little room bring.
    async fn run(self, stream: TcpStream, encryption: Option<&Encryption>) {
        // Answers are small and waited for: they must not wait for one another.
        let _ = stream.set_nodelay(true);
        let alive = TcpKeepalive::new().with_time(ALIVE_AFTER).with_interval(ALIVE_EVERY);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&alive);
        let guest = self.guest.clone();
        let served = async {
            match encryption {
                None => self.serve(stream).await,
                Some(encryption) => {
                    if let Some(stream) = encryption.shake_hands(stream, guest.address()).await {
                        self.serve(stream).await;
                    }
                }
            }
        };
        tokio::select! { biased;
            () = guest.over() => tracing::debug!(peer = %guest.address(), "connection ended: quiet, or one too many"),
            () = served => {}
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Connection { guest, app, shutdown } = self;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().max_buf_size(HEADER_BYTES_MAX);
        let of_requests = guest.clone();
        let service = tower::service_fn(move |request| answer(app.clone(), of_requests.clone(), request));
        let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::pin!(serving);
        let ended = tokio::select! { biased;
            ended = serving.as_mut() => ended,
            () = shutdown.started() => {
                // A stranger has nothing under way that is worth waiting for.
                if guest.is_stranger() {
                    return;
                }
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::trace!(%error, "connection ended");
        }
    }
}

async fn answer<B>(app: Router, guest: Guest, request: axum::http::Request<B>) -> Result<Response, Infallible>
where
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let under_way = guest.begin();
    let is_rpc = request.uri().path().starts_with(RPC_PREFIX);
    let mut request: Request =
        request.map(|body| if is_rpc { Body::new(body) } else { Body::new(Coming::new(body, PIECE_PATIENCE)) });
    request.extensions_mut().insert(guest);
    let response = app.oneshot(request).await?;
    Ok(response.map(|body| Body::new(Going::new(body, under_way))))
}
