//! The loop: waits for messages, ended children and due times, and gives each turn to the runs.

use super::ShimError;
use super::protocol::{Cause, Event, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Request, ShimInfo};
use super::runs::Runs;
use super::wire::{FrameReader, write_frame};
use crate::clock;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Connections at a time; an agent needs one.
const CONNECTIONS_MAX: usize = 16;
/// Requests that wait to be looked at; beyond, the socket fills up.
const REQUESTS_MAX: usize = 4_096;
/// A connection that leaves this much unread is closed: it will get the whole list when it comes back.
const UNREAD_BYTES_MAX: usize = 64 << 20;
/// After being told to end, how long the last events may take to be read.
const FAREWELL: Duration = Duration::from_millis(200);

/// From a connection's reader to the loop.
enum Input {
    Request(Request),
    /// The connection is over; with a reason if it did something wrong.
    Closed(Option<String>),
}

/// A connection, as the loop holds it.
struct Connection {
    sender: mpsc::UnboundedSender<Arc<[u8]>>,
    unread_bytes: Arc<AtomicUsize>,
    has_said_hello: bool,
}

impl Connection {
    /// Queues `bytes`; whether the connection may live on.
    fn send(&self, bytes: Arc<[u8]>) -> bool {
        let unread_bytes = self.unread_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        unread_bytes < UNREAD_BYTES_MAX && self.sender.send(bytes).is_ok()
    }
}

/// Serves until told to end.
pub(super) fn serve(runs: Runs, info: ShimInfo, socket: &Path) -> Result<(), ShimError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // We hold the lock, so whoever made this one is gone.
        let _ = fs::remove_file(socket);
        let listener = UnixListener::bind(socket).map_err(|source| ShimError::file(socket.to_path_buf(), source))?;
        let (inputs, queue) = mpsc::channel(REQUESTS_MAX);
        let server = Server { runs, info, connections: BTreeMap::new(), next_connection: 0, inputs };
        server.run(listener, queue).await
    })
}

struct Server {
    runs: Runs,
    info: ShimInfo,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    inputs: mpsc::Sender<(u64, Input)>,
}

impl Server {
    async fn run(mut self, listener: UnixListener, mut queue: mpsc::Receiver<(u64, Input)>) -> Result<(), ShimError> {
        let mut children = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        while !self.runs.is_done() {
            let now_ms = clock::boottime_ms();
            let wait = Duration::from_millis(self.runs.wake_at_ms(now_ms).saturating_sub(now_ms));
            tokio::select! { biased;
                _ = terminate.recv() => self.runs.close(Cause::ShimEnded, clock::boottime_ms()),
                _ = interrupt.recv() => self.runs.close(Cause::ShimEnded, clock::boottime_ms()),
                _ = quit.recv() => self.runs.close_at_once(clock::boottime_ms()),
                _ = children.recv() => {}
                accepted = listener.accept() => self.accept(accepted).await,
                Some((connection, input)) = queue.recv() => self.take(connection, input),
                () = tokio::time::sleep(wait) => {}
            }
            // However busy the branches above are, everybody gets a turn.
            tokio::task::yield_now().await;
            for _ in 0..REQUESTS_MAX {
                let Ok((connection, input)) = queue.try_recv() else { break };
                self.take(connection, input);
            }
            self.runs.turn(clock::boottime_ms());
            self.broadcast();
        }
        self.broadcast();
        tokio::time::sleep(FAREWELL).await;
        Ok(())
    }

    async fn accept(&mut self, accepted: std::io::Result<(UnixStream, tokio::net::unix::SocketAddr)>) {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely no file handles are left; what is running goes on.
                tracing::warn!(%error, "no connection accepted");
                return tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let uid = nix::unistd::getuid().as_raw();
        let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == uid || peer.uid() == 0);
        if !is_ours || self.connections.len() >= CONNECTIONS_MAX {
            return;
        }
        let number = self.next_connection;
        self.next_connection += 1;
        let (read_half, write_half) = stream.into_split();
        let (sender, outgoing) = mpsc::unbounded_channel();
        let unread_bytes = Arc::new(AtomicUsize::new(0));
        tokio::spawn(read_requests(number, read_half, self.inputs.clone()));
        tokio::spawn(write_events(write_half, outgoing, Arc::clone(&unread_bytes)));
        self.connections.insert(number, Connection { sender, unread_bytes, has_said_hello: false });
    }

    fn take(&mut self, number: u64, input: Input) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let request = match input {
            Input::Closed(None) => return drop(self.connections.remove(&number)),
            Input::Closed(Some(reason)) => return self.refuse(number, reason),
            Input::Request(request) => request,
        };
        let answer = match request {
            Request::Hello { version } if version != PROTOCOL_VERSION => {
                let reason = format!("version {version} is not spoken here; this shim speaks {PROTOCOL_VERSION}");
                return self.refuse(number, reason);
            }
            Request::Hello { .. } => {
                connection.has_said_hello = true;
                let mut answer = vec![Event::Hello(self.info.clone())];
                // What has just happened is in the list, and comes once more: every event may be heard twice.
                answer.extend(self.runs.list());
                answer
            }
            _ if !connection.has_said_hello => return self.refuse(number, "the first request must be Hello".into()),
            request => self.runs.handle(request, clock::boottime_ms()),
        };
        if !answer.is_empty() {
            let lives = connection.send(encode(&answer));
            self.keep_only(number, lives);
        }
    }

    fn refuse(&mut self, number: u64, reason: String) {
        if let Some(connection) = self.connections.remove(&number) {
            connection.send(encode(&[Event::Refused { reason }]));
        }
    }

    fn keep_only(&mut self, number: u64, lives: bool) {
        if !lives {
            self.connections.remove(&number);
        }
    }

    fn broadcast(&mut self) {
        let events = self.runs.take_events();
        if events.is_empty() || self.connections.is_empty() {
            return;
        }
        let bytes = encode(&events);
        self.connections.retain(|_, connection| !connection.has_said_hello || connection.send(Arc::clone(&bytes)));
    }
}

fn encode(events: &[Event]) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    for event in events {
        // Lists are cut into parts, and no other event comes near the bound.
        if let Err(error) = write_frame(event, &mut bytes) {
            tracing::error!(%error, "event not sent");
        }
    }
    Arc::from(bytes)
}

async fn read_requests(number: u64, read_half: OwnedReadHalf, inputs: mpsc::Sender<(u64, Input)>) {
    let mut reader = FrameReader::new(read_half, REQUEST_BYTES_MAX);
    loop {
        let input = match reader.next().await {
            Ok(Some(request)) => Input::Request(request),
            Ok(None) => Input::Closed(None),
            Err(error) => Input::Closed(Some(error.to_string())),
        };
        let is_last = matches!(input, Input::Closed(_));
        if inputs.send((number, input)).await.is_err() || is_last {
            return;
        }
    }
}

async fn write_events(
    mut write_half: OwnedWriteHalf,
    mut outgoing: mpsc::UnboundedReceiver<Arc<[u8]>>,
    unread_bytes: Arc<AtomicUsize>,
) {
    while let Some(bytes) = outgoing.recv().await {
        if write_half.write_all(&bytes).await.is_err() {
            return;
        }
        unread_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
}
