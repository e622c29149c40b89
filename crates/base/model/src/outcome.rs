//! Answers to commands. They are kept per session until acknowledged, so a retried command gets the first answer.

use crate::ids::{Epoch, Incarnation, Index, JobId, NodeId, SessionId};
use crate::transaction::Verdict;
use serde::{Deserialize, Serialize};

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done, or was so already.
    Done,
    /// The session is open.
    Session(SessionId),
    /// The lease is held under this epoch.
    Lease(Epoch),
    /// The node is registered.
    Node {
        /// Its slot.
        node: NodeId,
        /// Its registration.
        incarnation: Incarnation,
    },
    /// One answer per submitted job, in order.
    Jobs(Vec<JobOutcome>),
    /// What became of a transaction.
    Verdict(Verdict),
    /// It was refused; nothing changed.
    Refused(Refusal),
}

/// The answer to one submitted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOutcome {
    /// It is in the cell.
    Accepted(JobId),
    /// A job with this name and the same content is in the cell already.
    Unchanged(JobId),
    /// It was refused; nothing changed.
    Refused(Refusal),
    /// A job with this name is in the cell and has this content now.
    Updated(JobId),
}

/// Why a command was refused. The text is for people and says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The session is not open (any more).
    #[error("session {0} is not open; open a new one")]
    SessionGone(SessionId),
    /// Too many answers wait to be acknowledged.
    #[error("{kept} answers of this session wait to be acknowledged; at most {limit} may")]
    Busy {
        /// How many are kept.
        kept: u32,
        /// The bound.
        limit: u32,
    },
    /// The command was answered and acknowledged before; its answer is forgotten.
    #[error("this command was answered and acknowledged before")]
    Acknowledged,
    /// The lease is held by somebody else, or moved since it was seen.
    #[error("the lease moved on: epoch {epoch} now")]
    LeaseMoved {
        /// The epoch now.
        epoch: Epoch,
    },
    /// Nothing of this kind has this name.
    #[error("no {kind} is called \"{name}\"")]
    NotFound {
        /// `job`, `node`, `queue`, `topology`, `priority class`.
        kind: String,
        /// The name.
        name: String,
    },
    /// The name is taken by something else.
    #[error("{kind} \"{name}\" exists with other content; {hint}")]
    NameTaken {
        /// `job`, `node`, `queue`, `topology`, `priority class`.
        kind: String,
        /// The name.
        name: String,
        /// What to do instead.
        hint: String,
    },
    /// The thing is in a state that does not allow it.
    #[error("{kind} \"{name}\" is {state}; {hint}")]
    WrongState {
        /// `job`, `node`, `queue`, `topology`, `priority class`.
        kind: String,
        /// The name.
        name: String,
        /// Its state.
        state: String,
        /// What to do instead.
        hint: String,
    },
    /// The content breaks a rule.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field, as a path.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A newer registration or holder exists; the sender must stop.
    #[error("superseded by incarnation {incarnation}")]
    Superseded {
        /// The incarnation now.
        incarnation: Incarnation,
    },
    /// The command needs an apply version this copy does not have.
    #[error("needs apply version {needed}; this one has {known}")]
    Version {
        /// What it needs.
        needed: u32,
        /// What is here.
        known: u32,
    },
    /// It is no longer what the sender looked at.
    #[error("{kind} \"{name}\" changed meanwhile; its version is {version} now")]
    Changed {
        /// `job`.
        kind: String,
        /// The name.
        name: String,
        /// Its version now.
        version: Index,
    },
    /// As many jobs of the queue wait as may.
    #[error(
        "queue \"{queue}\" is full: waiting jobs {waiting}, at most {limit} (maxWaitingJobs); \
         submit it again when fewer wait, name another queue, or raise the bound"
    )]
    QueueFull {
        /// The queue.
        queue: String,
        /// How many wait.
        waiting: u32,
        /// How many may.
        limit: u32,
    },
}
