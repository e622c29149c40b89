//! Output of tasks from one server to another: a node's agent is connected to one of them, and any may be asked.
//!
//! ```text
//! reader ──HTTP──▶ server asked ──ReadOutput──▶ server of the agent ──orders──▶ agent
//! ```
//! Invariants: nobody relays what it has from a relay, so no question goes round; the last piece says that it is the
//! last, so what breaks off is never taken for the whole; pieces go at the pace of the reader at the far end.

use crate::log_readers::{AgentStream, LogPiece, LogQuery, order_of};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ohm_model::{NodeId, RunRef};
use ohm_runtime::connect::connect_server;
use ohm_runtime::tls::TlsFiles;
use ohm_wire::{IdentifyReply, IdentifyRequest, LogPiece as WirePiece, ReadLog};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// So many readers may read through other servers what comes from agents of this one.
pub(crate) const RELAYS_MAX: usize = 512;
/// How long another server may take to say whether it has the agent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The pieces that another server is sent.
pub(crate) type Pieces = ReceiverStream<Result<WirePiece, Status>>;

/// A task's output, piece by piece. To drop it is to stop reading.
pub enum LogStream {
    /// From an agent that is connected to this server.
    Agent(AgentStream),
    /// From another server.
    Server(RelayedStream),
}

impl LogStream {
    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Option<LogPiece> {
        match self {
            LogStream::Agent(stream) => stream.next().await,
            LogStream::Server(stream) => stream.next().await,
        }
    }
}

/// How this server asks the others.
#[derive(Default)]
pub(crate) struct LogRelay {
    token: String,
    tls: TlsFiles,
}

impl LogRelay {
    pub(crate) fn new(token: &str, tls: &TlsFiles) -> Self {
        LogRelay { token: token.to_string(), tls: tls.clone() }
    }

    /// Which server answers at `address`.
    pub(crate) async fn identify(&self, address: &str) -> Result<IdentifyReply, String> {
        let ask = async {
            let mut client =
                connect_server(address, &self.token, &self.tls).await.map_err(|error| error.to_string())?;
            let answer = client.identify(IdentifyRequest {}).await.map_err(|status| status.message().to_string())?;
            Ok(answer.into_inner())
        };
        timeout(ANSWER_TIMEOUT, ask).await.unwrap_or_else(|_| Err("no answer in time".to_string()))
    }

    /// Asks all `others` at once, by number and address; the one that has the agent answers.
    pub(crate) async fn open(&self, others: &[(u64, String)], query: &LogQuery) -> Result<RelayedStream, String> {
        let mut asked: FuturesUnordered<_> =
            others.iter().map(|(server, address)| async move { (*server, self.ask(address, query).await) }).collect();
        let mut silent = Vec::new();
        while let Some((server, answer)) = asked.next().await {
            match answer {
                Ok(Some(stream)) => return Ok(stream),
                Ok(None) => {}
                Err(reason) => silent.push(format!("server {server}: {reason}")),
            }
        }
        Err(match silent.is_empty() {
            true => "the node's agent is connected to no server".to_string(),
            false => format!("of the servers that answer none has the node's agent; {}", silent.join("; ")),
        })
    }

    /// What the server at `address` has; nothing when the agent is not connected there.
    async fn ask(&self, address: &str, query: &LogQuery) -> Result<Option<RelayedStream>, String> {
        let ask = async {
            let client = connect_server(address, &self.token, &self.tls).await;
            let mut client = client.map_err(|error| error.to_string())?;
            match client.read_output(order_of(0, query)).await {
                Ok(answer) => Ok(Some(RelayedStream { pieces: answer.into_inner(), is_over: false })),
                Err(status) if status.code() == Code::NotFound => Ok(None),
                Err(status) => Err(status.message().to_string()),
            }
        };
        let late = |_| Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()));
        timeout(ANSWER_TIMEOUT, ask).await.unwrap_or_else(late)
    }
}

/// A task's output from another server.
pub struct RelayedStream {
    pieces: Streaming<WirePiece>,
    is_over: bool,
}

impl RelayedStream {
    async fn next(&mut self) -> Option<LogPiece> {
        if self.is_over {
            return None;
        }
        let piece = match self.pieces.message().await {
            Ok(Some(piece)) if piece.error.is_empty() => {
                self.is_over = piece.last;
                return (!piece.last || !piece.data.is_empty()).then_some(Ok(piece.data));
            }
            Ok(Some(piece)) => Err(piece.error),
            Ok(None) => Err("the server that has the node's agent ended the stream".to_string()),
            Err(status) => Err(format!("the server that has the node's agent: {}", status.message())),
        };
        self.is_over = true;
        Some(piece)
    }
}

/// What another server asks for.
pub(crate) fn query_of(order: &ReadLog) -> LogQuery {
    let ReadLog { node, job, task, incarnation, stderr, follow, tail_bytes, tail_lines, client, .. } = *order;
    // No job has more groups; what is cut names a run that nobody has.
    let group = u16::try_from(order.group).unwrap_or(u16::MAX);
    let run = RunRef::new(ohm_model::JobId(job), group, task, incarnation);
    LogQuery { node: NodeId(node), run, stderr, follow, tail_bytes, tail_lines, client }
}

/// Sends what `stream` gives to another server; ends with whoever reads there.
pub(crate) fn serve(mut stream: AgentStream, permit: OwnedSemaphorePermit) -> Pieces {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        loop {
            let piece = tokio::select! { biased;
                () = sender.closed() => return,
                piece = stream.next() => piece,
            };
            let is_end = !matches!(piece, Some(Ok(_)));
            let (data, error) = match piece {
                Some(Ok(data)) => (data, String::new()),
                Some(Err(error)) => (bytes::Bytes::new(), error),
                None => (bytes::Bytes::new(), String::new()),
            };
            if sender.send(Ok(WirePiece { request: 0, data, last: is_end, error })).await.is_err() || is_end {
                return;
            }
        }
    });
    ReceiverStream::new(pieces)
}
