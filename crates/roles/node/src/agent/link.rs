//! The way to the servers and back, for all nodes of a process: one task that connects, reads, decodes, and starts anew
//! when it fails.

use super::AgentError;
use super::messages::{Order, order_of, stream_of};
use ohm_runtime::connect::Client;
use ohm_runtime::servers::Dialer;
use ohm_wire::AgentUp;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Code, Status};

/// Orders that may wait for the agent.
pub(crate) const ARRIVALS_MAX: usize = 1024;
/// Messages that may wait for the network.
const MESSAGES_MAX: usize = 1024;
/// Pieces of output that may wait: up to 64 KiB each, and behind everything else.
const PIECES_MAX: usize = 4;

/// What reaches the agent.
pub(crate) enum Arrival {
    Connected(Outlets),
    Disconnected,
    Order(Order),
    /// The last one: the process can't go on.
    Failed(AgentError),
}

/// Where messages of one connection leave.
#[derive(Clone)]
pub(crate) struct Outlets {
    pub(crate) messages: mpsc::Sender<AgentUp>,
    /// Output of tasks. It never keeps a beat waiting.
    pub(crate) pieces: mpsc::Sender<AgentUp>,
}

/// Why one connection ended.
enum Ended {
    /// Another one may do better.
    Lost(String),
    /// None will.
    Failed(AgentError),
    /// The agent is gone.
    Stopped,
}

impl From<Status> for Ended {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::FailedPrecondition | Code::Unauthenticated | Code::PermissionDenied => {
                Ended::Failed(AgentError::Refused(status.message().to_string()))
            }
            _ => Ended::Lost(status.message().to_string()),
        }
    }
}

/// Works until the agent is gone or nothing helps any more.
pub(crate) async fn run(mut dialer: Dialer, arrivals: mpsc::Sender<Arrival>) {
    loop {
        let (client, address) = dialer.dial().await;
        let arrival = match serve(client, &address, &arrivals).await {
            Ended::Lost(reason) => {
                tracing::warn!(address, reason, "connection lost");
                Arrival::Disconnected
            }
            Ended::Failed(error) => Arrival::Failed(error),
            Ended::Stopped => return,
        };
        if arrivals.send(arrival).await.is_err() {
            return;
        }
    }
}

async fn serve(mut client: Client, address: &str, arrivals: &mpsc::Sender<Arrival>) -> Ended {
    let (messages, queue) = mpsc::channel(MESSAGES_MAX);
    let (pieces, queued_pieces) = mpsc::channel(PIECES_MAX);
    let (sender, outgoing) = mpsc::channel(1);
    tokio::spawn(merge(queue, queued_pieces, sender));
    let mut orders = match client.agent(stream_of(outgoing)).await {
        Ok(orders) => orders.into_inner(),
        Err(status) => return status.into(),
    };
    tracing::info!(address, "connected");
    if arrivals.send(Arrival::Connected(Outlets { messages, pieces })).await.is_err() {
        return Ended::Stopped;
    }
    while let Some(message) = orders.next().await {
        let order = match message.map(order_of) {
            Ok(Ok(Some(order))) => order,
            Ok(Ok(None)) => continue,
            // Tasks are not touched for it; a server of another version may do better.
            Ok(Err(error)) => return Ended::Lost(error.to_string()),
            Err(status) => return status.into(),
        };
        if arrivals.send(Arrival::Order(order)).await.is_err() {
            return Ended::Stopped;
        }
    }
    Ended::Lost("the server ended the stream".into())
}

/// Messages first, pieces of output when nothing else waits; until both or the network are gone.
async fn merge(
    mut messages: mpsc::Receiver<AgentUp>,
    mut pieces: mpsc::Receiver<AgentUp>,
    outgoing: mpsc::Sender<AgentUp>,
) {
    loop {
        let next = tokio::select! { biased;
            () = outgoing.closed() => return,
            Some(message) = messages.recv() => message,
            Some(piece) = pieces.recv() => piece,
            else => return,
        };
        if outgoing.send(next).await.is_err() {
            return;
        }
    }
}
