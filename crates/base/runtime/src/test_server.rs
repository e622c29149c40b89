//! A server for the tests of processes that talk to one: it serves the streams that a test plays, and refuses the rest.

use ohm_wire::cell_server::{Cell, CellServer};
use ohm_wire::{
    AgentDown, AgentUp, AppendReply, AppendRequest, DutyDown, DutyUp, FollowReply, FollowRequest, IdentifyReply,
    IdentifyRequest, JoinReply, JoinRequest, LogPiece, ReadLog, ServerFarewell, ServerWord,
};
use std::net::SocketAddr;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// What a server says on one stream.
pub type Replies<T> = ReceiverStream<Result<T, Status>>;

/// The streams that a test plays.
#[tonic::async_trait]
pub trait TestServer: Send + Sync + 'static {
    /// Commands to be appended.
    async fn append(&self, _requests: Streaming<AppendRequest>) -> Result<Replies<AppendReply>, Status> {
        Err(Status::unimplemented("nothing is appended in this test"))
    }

    /// Somebody follows the log.
    async fn follow(&self, _requests: Streaming<FollowRequest>) -> Result<Replies<FollowReply>, Status> {
        Err(Status::unimplemented("nobody follows the log in this test"))
    }

    /// Agents report.
    async fn agent(&self, _messages: Streaming<AgentUp>) -> Result<Replies<AgentDown>, Status> {
        Err(Status::unimplemented("there are no agents in this test"))
    }

    /// A candidate for the health duty answers beats.
    async fn duty(&self, _messages: Streaming<DutyUp>) -> Result<Replies<DutyDown>, Status> {
        Err(Status::unimplemented("there is no health duty in this test"))
    }
}

/// Serves on a port of its own; gives the address.
pub async fn serve(server: impl TestServer) -> std::io::Result<String> {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let (service, incoming) = (CellServer::new(Played(server)), TcpListenerStream::new(listener));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    Ok(address)
}

struct Played<S>(S);

#[tonic::async_trait]
impl<S: TestServer> Cell for Played<S> {
    type AppendStream = Replies<AppendReply>;
    type FollowStream = Replies<FollowReply>;
    type AgentStream = Replies<AgentDown>;
    type DutyStream = Replies<DutyDown>;
    type ReadOutputStream = Replies<LogPiece>;

    async fn append(&self, request: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        self.0.append(request.into_inner()).await.map(Response::new)
    }

    async fn follow(&self, request: Request<Streaming<FollowRequest>>) -> Result<Response<Self::FollowStream>, Status> {
        self.0.follow(request.into_inner()).await.map(Response::new)
    }

    async fn agent(&self, request: Request<Streaming<AgentUp>>) -> Result<Response<Self::AgentStream>, Status> {
        self.0.agent(request.into_inner()).await.map(Response::new)
    }

    async fn duty(&self, request: Request<Streaming<DutyUp>>) -> Result<Response<Self::DutyStream>, Status> {
        self.0.duty(request.into_inner()).await.map(Response::new)
    }

    async fn between(&self, _: Request<Streaming<ServerWord>>) -> Result<Response<ServerFarewell>, Status> {
        Err(Status::unimplemented("there is one server"))
    }

    async fn read_output(&self, _: Request<ReadLog>) -> Result<Response<Self::ReadOutputStream>, Status> {
        Err(Status::unimplemented("there is one server"))
    }

    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<IdentifyReply>, Status> {
        Err(Status::unimplemented("there is one server"))
    }

    async fn join(&self, _: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        Err(Status::unimplemented("there is one server"))
    }
}
