//! What reaches the replica thread.

use ohm_model::Index;
use ohm_replica::{FollowerId, Peer, ServerInput};
use ohm_wire::{AgentDown, AppendReply, DutyDown, FollowReply};
use tokio::sync::mpsc;

/// What reaches the thread.
pub(crate) enum Message {
    Input(Box<ServerInput>),
    AppendPeer(Peer, mpsc::Sender<AppendReply>),
    AgentPeer(Peer, mpsc::Sender<AgentDown>),
    DutyPeer(Peer, mpsc::Sender<DutyDown>),
    Follower(FollowerId, Index, mpsc::Sender<FollowReply>),
    /// Another server says where it listens.
    ServerAt(u64, String),
    /// The log has heard something.
    #[cfg(feature = "etcd")]
    Wake,
}

/// A sender to the thread, for the RPC side.
#[derive(Clone)]
pub(crate) struct Inbox(pub(crate) mpsc::Sender<Message>);

impl Inbox {
    /// Waits for room; false when the thread is gone.
    pub(crate) async fn send(&self, message: Message) -> bool {
        self.0.send(message).await.is_ok()
    }
}

/// What a caller hears when the thread is gone.
pub(crate) fn stopping() -> tonic::Status {
    tonic::Status::unavailable("the server is stopping")
}
