//! The RPC side: streams of messages in and out of the replica thread. No decisions here.

use crate::between::Between;
use crate::handle::ReplicaHandle;
use crate::heard::{self, AgentWord};
use crate::inbox::{Inbox, Message, stopping};
use crate::log_readers::LogReaders;
use crate::log_relay::{self, Pieces};
use ohm_log::{ChangeRefusal, MemberChange};
use ohm_model::{Index, names};
use ohm_replica::{FollowerId, Peer, ServerInput};
use ohm_runtime::dice;
use ohm_wire::api::ServerEngine;
use ohm_wire::cell_server::Cell;
use ohm_wire::{
    AgentDown, AgentUp, AppendReply, AppendRequest, DutyDown, DutyUp, FollowReply, FollowRequest, IdentifyReply,
    IdentifyRequest, JoinReply, JoinRequest, Malformed, ReadLog, ServerAddress, ServerFarewell, ServerWord,
    follow_request,
};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};
use tokio::sync::{Semaphore, mpsc};
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
    handle: ReplicaHandle,
    cell: CellFacts,
    next: Arc<AtomicU64>,
    relays: Arc<Semaphore>,
    /// Drawn when this process started.
    instance: u64,
}

/// What a server that joins must know, besides who is there.
#[derive(Clone, Debug)]
pub(crate) struct CellFacts {
    pub(crate) cell: u64,
    pub(crate) server: u64,
    pub(crate) founders: Vec<u64>,
    pub(crate) cell_incarnation: u64,
    pub(crate) engine: ServerEngine,
}

type Replies<T> = ReceiverStream<Result<T, Status>>;

impl CellService {
    pub(crate) fn new(inbox: Inbox, handle: ReplicaHandle, cell: CellFacts) -> Self {
        let (next, relays) = (Arc::new(AtomicU64::new(1)), Arc::new(Semaphore::new(log_relay::RELAYS_MAX)));
        CellService { inbox, handle, cell, next, relays, instance: dice::random_u64() }
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
            inbox.send(Message::Input(Box::new(ServerInput::Gone { peer }))).await;
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

#[tonic::async_trait]
impl Cell for CellService {
    type AppendStream = Replies<AppendReply>;
    type FollowStream = Replies<FollowReply>;
    type AgentStream = Replies<AgentDown>;
    type DutyStream = Replies<DutyDown>;
    type ReadOutputStream = Pieces;

    async fn append(&self, request: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        let peer = Peer(self.number());
        let (sender, stream) = outlet(REPLIES_MAX);
        if !self.inbox.send(Message::AppendPeer(peer, sender)).await {
            return Err(stopping());
        }
        self.pump(peer, request.into_inner(), move |message: AppendRequest| {
            heard::append(peer, message).map(Box::new).map(Message::Input).map(Some)
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
        // A copy of the cell as it was before a restore has nothing to go on from.
        let is_same = start.cell_incarnation.max(1) == self.cell.cell_incarnation;
        let from = Index(if is_same { start.from } else { 0 });
        let (sender, replies) = outlet(REPLIES_MAX);
        if !self.inbox.send(Message::Follower(follower, from, sender)).await {
            return Err(stopping());
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                if let Some(follow_request::Kind::Acknowledge(bytes)) = message.kind {
                    let bytes = bytes as usize;
                    inbox.send(Message::Input(Box::new(ServerInput::Acknowledge { follower, bytes }))).await;
                }
            }
            inbox.send(Message::Input(Box::new(ServerInput::Unfollow { follower }))).await;
        });
        Ok(Response::new(replies))
    }

    async fn agent(&self, request: Request<Streaming<AgentUp>>) -> Result<Response<Self::AgentStream>, Status> {
        let peer = Peer(self.number());
        let (sender, stream) = outlet(ORDERS_MAX);
        if !self.inbox.send(Message::AgentPeer(peer, sender)).await {
            return Err(stopping());
        }
        let readers = Reading { agent: peer, readers: Arc::clone(&self.handle.log_readers) };
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
            Ok(heard::duty(peer, message).map(Box::new).map(Message::Input))
        });
        Ok(Response::new(stream))
    }

    async fn between(&self, request: Request<Streaming<ServerWord>>) -> Result<Response<ServerFarewell>, Status> {
        let between = Between { inbox: self.inbox.clone(), handle: self.handle.clone(), cell: self.cell.cell };
        between.hear(request.into_inner()).await.map(Response::new)
    }

    async fn identify(&self, _request: Request<IdentifyRequest>) -> Result<Response<IdentifyReply>, Status> {
        let CellFacts { cell, server, .. } = self.cell;
        Ok(Response::new(IdentifyReply { cell, server, instance: self.instance }))
    }

    async fn read_output(&self, request: Request<ReadLog>) -> Result<Response<Pieces>, Status> {
        let Ok(permit) = Arc::clone(&self.relays).try_acquire_owned() else {
            return Err(Status::resource_exhausted(
                "as much output is read through this server as may be; try again later",
            ));
        };
        let found = self.handle.read_log_here(log_relay::query_of(&request.into_inner())).await;
        match found.map_err(|error| Status::unavailable(error.to_string()))? {
            Some(stream) => Ok(Response::new(log_relay::serve(stream, permit))),
            None => Err(Status::not_found("the node's agent is not connected to this server")),
        }
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let JoinRequest { address, key, former_cell, former_server } = request.into_inner();
        if self.cell.engine == ServerEngine::Etcd {
            let text = "the log of this cell is kept by etcd: start the new server with --engine etcd and the same --etcd \
                        and --etcd-prefix, without --join";
            return Err(Status::unimplemented(text));
        }
        names::server_address(&address).map_err(|error| Status::invalid_argument(format!("address: {error}")))?;
        let known = self.handle.servers().await.map_err(|error| Status::unavailable(error.to_string()))?;
        if former_cell == self.cell.cell && known.members.contains(former_server) {
            return Err(Status::failed_precondition(ChangeRefusal::HadLog(former_server).to_string()));
        }
        let change = MemberChange::Add { member: 0, address, key };
        let changed =
            self.handle.change_members(change).await.map_err(|error| Status::unavailable(error.to_string()))?;
        let server = changed.map_err(|failure| match failure.again {
            true => Status::unavailable(failure.reason),
            false => Status::failed_precondition(failure.reason),
        })?;
        let servers = self.handle.servers().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let address = |(server, address)| ServerAddress { server, address };
        let CellFacts { cell, founders, cell_incarnation, .. } = self.cell.clone();
        let addresses = servers.addresses.into_iter().map(address).collect();
        Ok(Response::new(JoinReply { cell, server, founders, addresses, cell_incarnation }))
    }
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
    Ok(match heard::agent(reading.agent, message)? {
        Some(AgentWord::Input(input)) => Some(Message::Input(input)),
        Some(AgentWord::Output(piece)) => {
            reading.readers.pass(piece);
            None
        }
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_another_version_are_refused() {
        assert!(check_version(ohm_cell::VERSION, "a").is_ok());
        assert!(
            check_version(ohm_cell::VERSION - 1, "a").is_err() && check_version(ohm_cell::VERSION + 1, "a").is_err()
        );
    }
}
