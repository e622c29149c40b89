//! What a server core is told, and what it wants done.

use crate::followers::FollowerId;
use crate::hub::{AgentOrder, Beat, Peer};
use crate::replica::{CopyEffect, Purpose};
use ohm_agent::BeatAnswer;
use ohm_log::{Bytes, MemberChange};
use ohm_model::{Asked, Incarnation, Index, NodeCondition, NodeId, NodeSpec, Outcome, RunRef, RunReport, SessionId};
use ohm_stdx::define_id;

define_id!(
    /// The shell's name for one command of a person.
    RequestId(u64)
);

/// What a server core is told.
#[derive(Debug)]
pub enum ServerInput {
    /// Commands of a peer's own session.
    Append {
        /// Whose.
        peer: Peer,
        /// The peer's name for them.
        ticket: u64,
        /// Each as [`ohm_model::Envelope::encode`] gives it.
        commands: Vec<Bytes>,
    },
    /// A command of a person.
    Command {
        /// Comes back with the outcome.
        request: RequestId,
        /// What is wanted, and by whom.
        asked: Asked,
    },
    /// Somebody wants to keep a copy.
    Follow {
        /// The stream.
        follower: FollowerId,
        /// What it has applied already.
        from: Index,
    },
    /// A follower has taken in this many bytes.
    Acknowledge {
        /// The stream.
        follower: FollowerId,
        /// How many.
        bytes: usize,
    },
    /// A follow stream ended.
    Unfollow {
        /// The stream.
        follower: FollowerId,
    },
    /// An agent registers a node.
    Register {
        /// Its connection.
        peer: Peer,
        /// Its own name for the node.
        local: u64,
        /// What the node is.
        spec: NodeSpec,
        /// See `Command::RegisterNode`.
        key: u64,
        /// See `Command::RegisterNode`.
        instance: u64,
        /// See `Command::RegisterNode`.
        boot: u64,
        /// See `Command::RegisterNode`.
        alive: Vec<RunRef>,
    },
    /// Signs of life.
    Beats {
        /// The agent's connection.
        peer: Peer,
        /// From its nodes.
        beats: Vec<Beat>,
    },
    /// What happened to runs.
    Reports {
        /// The agent's connection.
        peer: Peer,
        /// The node.
        node: NodeId,
        /// The agent's name for the batch.
        batch: u64,
        /// The facts.
        reports: Vec<RunReport>,
    },
    /// All that an agent finds wrong with its node. Answered like a batch of reports.
    Conditions {
        /// The agent's connection.
        peer: Peer,
        /// The node.
        node: NodeId,
        /// The registration.
        incarnation: Incarnation,
        /// The agent's number for the set.
        number: u64,
        /// The set.
        conditions: Vec<NodeCondition>,
    },
    /// A health candidate is connected.
    Duty {
        /// Its connection.
        peer: Peer,
        /// The session that competes for the duty.
        session: SessionId,
        /// What its owner drew when it was opened: a stranger does not know it.
        nonce: u64,
    },
    /// The health duty answers beats.
    Answers {
        /// The connection they came over; only the holder of the duty is believed.
        peer: Peer,
        /// By node.
        answers: Vec<(NodeId, BeatAnswer)>,
    },
    /// A connection is over.
    Gone {
        /// Which.
        peer: Peer,
    },
    /// Bytes that another server sent to this one.
    FromServer {
        /// Which server.
        from: u64,
        /// Opaque.
        bytes: Bytes,
    },
    /// Bytes for another server could not be sent.
    Unreachable {
        /// Which server.
        server: u64,
    },
    /// Somebody wants to see everything that was acknowledged anywhere until now. Answered by `Readable`.
    Read {
        /// Comes back with the answer.
        request: RequestId,
    },
    /// Change who belongs to the group of servers. Answered by `MembersChanged`.
    ChangeMembers {
        /// Comes back with the answer.
        request: RequestId,
        /// What is wanted.
        change: MemberChange,
    },
    /// Let another server lead: this one, or whichever is furthest. There is no answer but `Leader`.
    Transfer {
        /// The server.
        to: Option<u64>,
    },
    /// The operator believes the wall clock of a server. There is no answer but the time that follows.
    BelieveClock {
        /// The server.
        server: u64,
    },
    /// A snapshot that was asked for.
    Encoded {
        /// What for.
        purpose: Purpose,
        /// The last entry in it.
        index: Index,
        /// The bytes.
        pieces: Vec<Bytes>,
    },
    /// The process is about to end in order.
    Close,
    /// Time passes, and what came in before is worked off. Shells send this after each bunch of other inputs.
    Flush,
}

/// What became of appended commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendResult {
    /// Committed and applied here.
    Committed {
        /// The entry.
        index: Index,
        /// One per command.
        outcomes: Vec<Outcome>,
    },
    /// Nothing of it will happen.
    Busy(String),
    /// Nothing of it will happen, and nothing else for now, for this reason.
    NotServing(String),
    /// Nobody knows, for this reason.
    Unknown(String),
}

/// Why the members stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ChangeFailure {
    /// Whether the same may be asked again in a moment.
    pub again: bool,
    /// In words.
    pub reason: String,
}

impl From<(bool, String)> for ChangeFailure {
    fn from((again, reason): (bool, String)) -> Self {
        ChangeFailure { again, reason }
    }
}

/// What a server core wants done.
#[derive(Debug)]
pub enum ServerEffect {
    /// The answer to `Append`.
    Appended {
        /// Whose.
        peer: Peer,
        /// The peer's name for them.
        ticket: u64,
        /// What became of them.
        result: AppendResult,
    },
    /// The answer to `Command`.
    Done {
        /// Whose.
        request: RequestId,
        /// What became of it.
        result: AppendResult,
    },
    /// For an agent.
    ToAgent {
        /// Its connection.
        peer: Peer,
        /// The message.
        order: AgentOrder,
    },
    /// A connection that named a session which is not its own: it gets no beats, and is to be ended.
    DutyRefused {
        /// The connection.
        peer: Peer,
        /// The session.
        session: SessionId,
    },
    /// Beats for the holder of the health duty.
    ToDuty {
        /// Its connection.
        peer: Peer,
        /// From all nodes.
        beats: Vec<Beat>,
    },
    /// Bytes for another server, which takes them as `FromServer`. Losing them is allowed; `Unreachable` makes the
    /// repetition come sooner.
    ToServer {
        /// Which server.
        to: u64,
        /// Opaque.
        bytes: Bytes,
    },
    /// The answer to `Read`: the copy is far enough now, or the reason why nobody can say.
    Readable {
        /// Whose.
        request: RequestId,
        /// What became of it.
        result: Result<(), String>,
    },
    /// The answer to `ChangeMembers`.
    MembersChanged {
        /// Whose.
        request: RequestId,
        /// The member that was added, promoted or removed.
        result: Result<u64, ChangeFailure>,
    },
    /// What the copy wants.
    Copy(CopyEffect),
}
