//! The RPC side: streams of messages in and out of the replica thread. No decisions here.

use crate::log_readers::LogReaders;
use crate::replica_thread::{Inbox, Message};
use bytes::Bytes;
use ohm_agent::BeatAnswer;
use ohm_model::{Envelope, Epoch, Incarnation, Index, NodeId, SessionId};
use ohm_replica::{Beat, FollowerId, Peer, ServerInput};
use ohm_wire::cell_server::Cell;
use ohm_wire::{
    AgentDown, AgentUp, AppendReply, AppendRequest, BeatAnswers, DutyDown, DutyUp, FollowReply, FollowRequest,
    Malformed, agent_up, duty_up, follow_request, read,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Replies that may wait in one connection.
const REPLIES_MAX: usize = 4096;
/// Messages that may wait for an agent: one process may host ten thousand nodes.
const ORDERS_MAX: usize = 65_536;

/// The service behind the RPC port.
pub(crate) struct CellService {
    inbox: Inbox,
    log_readers: Arc<LogReaders>,
    next: Arc<AtomicU64>,
}

type Replies<T> = ReceiverStream<Result<T, Status>>;

impl CellService {
    pub(crate) fn new(inbox: Inbox, log_readers: Arc<LogReaders>) -> Self {
        CellService { inbox, log_readers, next: Arc::new(AtomicU64::new(1)) }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, atomic::Ordering::Relaxed)
    }

    /// Reads `stream` to its end, handing each message on; then says that the peer is gone.
    fn pump<T: Send + 'static>(
        &self,
        peer: Peer,
        mut stream: Streaming<T>,
        mut take: impl FnMut(T) -> Result<Option<Message>, Malformed> + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                match take(message) {
                    Ok(Some(message)) => {
                        if !inbox.send(message).await {
                            return;
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%peer, %error, "connection ended: a message does not decode");
                        break;
                    }
                }
            }
            inbox.send(Message::Input(ServerInput::Gone { peer })).await;
        });
    }
}

/// A queue towards a peer, and the stream that tonic reads it through.
fn outlet<T: Send + 'static>(limit: usize) -> (mpsc::Sender<T>, Replies<T>) {
    let (sender, mut receiver) = mpsc::channel::<T>(limit);
    let (forward, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(message) = receiver.recv().await {
            if forward.send(Ok(message)).await.is_err() {
                return;
            }
        }
        let _ = forward.send(Err(Status::unavailable("connection ended by the server; connect again"))).await;
    });
    (sender, ReceiverStream::new(stream))
}

fn stopping() -> Status {
    Status::unavailable("the server is stopping")
}

#[tonic::async_trait]
impl Cell for CellService {
    type AppendStream = Replies<AppendReply>;
    type FollowStream = Replies<FollowReply>;
    type AgentStream = Replies<AgentDown>;
    type DutyStream = Replies<DutyDown>;

    async fn append(&self, request: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        let peer = Peer(self.number());
        let (sender, stream) = outlet(REPLIES_MAX);
        if !self.inbox.send(Message::AppendPeer(peer, sender)).await {
            return Err(stopping());
        }
        self.pump(peer, request.into_inner(), move |message: AppendRequest| {
            let (ticket, commands) = (message.ticket, message.command_bytes);
            check_commands(&commands)?;
            Ok(Some(Message::Input(ServerInput::Append { peer, ticket, commands })))
        });
        Ok(Response::new(stream))
    }

    async fn follow(&self, request: Request<Streaming<FollowRequest>>) -> Result<Response<Self::FollowStream>, Status> {
        let follower = FollowerId(self.number());
        let mut stream = request.into_inner();
        let start = match stream.next().await {
            Some(Ok(FollowRequest { kind: Some(follow_request::Kind::Start(start)) })) => start,
            _ => return Err(Status::invalid_argument("a follow stream begins with a start")),
        };
        check_version(start.apply_version, &start.name)?;
        let (sender, replies) = outlet(REPLIES_MAX);
        if !self.inbox.send(Message::Follower(follower, Index(start.from), sender)).await {
            return Err(stopping());
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Some(follow_request::Kind::Acknowledge(bytes)) = message.kind {
                    let bytes = bytes as usize;
                    inbox.send(Message::Input(ServerInput::Acknowledge { follower, bytes })).await;
                }
            }
            inbox.send(Message::Input(ServerInput::Unfollow { follower })).await;
        });
        Ok(Response::new(replies))
    }

    async fn agent(&self, request: Request<Streaming<AgentUp>>) -> Result<Response<Self::AgentStream>, Status> {
        let peer = Peer(self.number());
        let (sender, stream) = outlet(ORDERS_MAX);
        if !self.inbox.send(Message::AgentPeer(peer, sender)).await {
            return Err(stopping());
        }
        let readers = Reading { agent: peer, readers: Arc::clone(&self.log_readers) };
        self.pump(peer, request.into_inner(), move |message: AgentUp| agent_message(&readers, message));
        Ok(Response::new(stream))
    }

    async fn duty(&self, request: Request<Streaming<DutyUp>>) -> Result<Response<Self::DutyStream>, Status> {
        let peer = Peer(self.number());
        let (sender, stream) = outlet(REPLIES_MAX);
        if !self.inbox.send(Message::DutyPeer(peer, sender)).await {
            return Err(stopping());
        }
        self.pump(peer, request.into_inner(), move |message: DutyUp| {
            Ok(message.kind.map(|kind| {
                Message::Input(match kind {
                    duty_up::Kind::Attach(session) => ServerInput::Duty { peer, session: SessionId(session) },
                    duty_up::Kind::Answers(answers) => ServerInput::Answers { answers: beat_answers(answers) },
                })
            }))
        });
        Ok(Response::new(stream))
    }
}

/// Whether every envelope can be read. What stands in the log and can't be would end this server, and every copy, at
/// each start again.
fn check_commands(commands: &[Bytes]) -> Result<(), Malformed> {
    if commands.is_empty() {
        return Err(Malformed { what: "a list of commands", reason: "it is empty".into() });
    }
    commands.iter().try_for_each(|bytes| read::<Envelope>("a command", bytes).map(drop))
}

/// An older copy can't apply what this cell holds; a newer one would send what this server can't read.
fn check_version(found: u32, name: &str) -> Result<(), Status> {
    let needed = ohm_cell::VERSION;
    let hint = match found.cmp(&needed) {
        Ordering::Less => "start a newer one",
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "update the servers first",
    };
    Err(Status::failed_precondition(format!("{name} has apply version {found}, this cell has {needed}: {hint}")))
}

/// Tells the readers of an agent's output when its connection ends, however it ends.
struct Reading {
    agent: Peer,
    readers: Arc<LogReaders>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.readers.agent_gone(self.agent);
    }
}

fn agent_message(reading: &Reading, message: AgentUp) -> Result<Option<Message>, Malformed> {
    let Some(kind) = message.kind else { return Ok(None) };
    let peer = reading.agent;
    let input = match kind {
        agent_up::Kind::Register(register) => ServerInput::Register {
            peer,
            local: register.local,
            spec: read("the node's description", &register.spec_bytes)?,
            key: register.key,
            instance: register.instance,
            boot: register.boot,
        },
        agent_up::Kind::Beats(beats) => {
            let beat = |beat: ohm_wire::Beat| Beat {
                node: NodeId(beat.node),
                incarnation: Incarnation(beat.incarnation),
                sequence: beat.sequence,
            };
            ServerInput::Beats { peer, beats: beats.beats.into_iter().map(beat).collect() }
        }
        agent_up::Kind::Reports(reports) => ServerInput::Reports {
            peer,
            node: NodeId(reports.node),
            batch: reports.batch,
            reports: read("reports", &reports.reports_bytes)?,
        },
        agent_up::Kind::Log(piece) => {
            reading.readers.pass(piece);
            return Ok(None);
        }
    };
    Ok(Some(Message::Input(input)))
}

fn beat_answers(answers: BeatAnswers) -> Vec<(NodeId, BeatAnswer)> {
    let answer = |answer: ohm_wire::BeatAnswer| {
        let incarnation = Incarnation(answer.incarnation);
        let (duty_epoch, sequence) = (Epoch(answer.duty_epoch), answer.sequence);
        let (lease_ms, interval_ms) = (answer.lease_ms, answer.interval_ms);
        (NodeId(answer.node), BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms })
    };
    answers.answers.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Command;

    #[test]
    fn what_can_not_be_read_never_reaches_the_log() {
        let good: Bytes = Envelope::without_session(Command::Tick).encode().into();
        assert_eq!(check_commands(&[good.clone(), good.clone()]), Ok(()));
        let longer: Bytes = [&good[..], &[0]].concat().into();
        let newer: Bytes = [&good[..good.len() - 1], &[250]].concat().into();
        for bad in [vec![], vec![Bytes::new()], vec![good.clone(), good.slice(1..)], vec![longer], vec![newer]] {
            assert!(check_commands(&bad).is_err(), "{bad:?}");
        }
        assert!(check_version(ohm_cell::VERSION, "a").is_ok());
        assert!(
            check_version(ohm_cell::VERSION - 1, "a").is_err() && check_version(ohm_cell::VERSION + 1, "a").is_err()
        );
    }
}
