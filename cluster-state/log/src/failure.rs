//! Why something is not in the log, was not taken in, or ended the log.

use crate::disk::DiskError;
use crate::members::ChangeRefusal;
use ohm_model::Index;

/// Why an append is not in the log, a read is not possible, or a change of members did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another member takes appends.
    #[error("this member does not lead; append at {leader:?}")]
    NotLeader {
        /// The member to ask, if one is known.
        leader: Option<u64>,
    },
    /// A newer leader put another entry in its place.
    #[error("another entry took the place of this one; append it again")]
    Superseded,
    /// More is waiting to be committed than the engine allows; later there will be room.
    #[error("too much waits to be committed; append it again later")]
    Overloaded,
    /// The disk has no room for more entries.
    #[error("the disk of the log is full; appends are taken again once there is room")]
    DiskFull,
    /// No majority answered in time, so nobody can say what was acknowledged elsewhere.
    #[error("no majority of the servers answers; try again, or ask for what this server knows (stale)")]
    NoMajority,
    /// The change of members is not possible.
    #[error(transparent)]
    Change(#[from] ChangeRefusal),
}

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full: poll, then submit again.
    #[error("the log has {queued} requests waiting, which is its limit; poll it and submit again")]
    Busy {
        /// Requests waiting.
        queued: usize,
    },
    /// An entry or a piece of a snapshot is empty or too long.
    #[error("{length} bytes in one piece; 1 to {limit} are right")]
    Length {
        /// Bytes handed in.
        length: usize,
        /// The most that is right.
        limit: usize,
    },
    /// A snapshot needs at least one piece.
    #[error("a snapshot of no pieces; at least one is needed")]
    NoPieces,
    /// The log has failed before.
    #[error("the log has ended after a failure; start the process again")]
    Ended,
}

/// Why bytes from the network were not taken. All of them leave the log as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// Not a message, or one that was damaged on its way.
    #[error("not a message of this log: {0}")]
    Malformed(String),
    /// From another cell.
    #[error("the message is from cell {found:016x}, this is cell {expected:016x}")]
    Cell {
        /// The cell in the message.
        found: u64,
        /// The cell of this log.
        expected: u64,
    },
    /// Not for this member, or from itself.
    #[error("the message goes from member {from} to member {to}; this is member {here}")]
    Member {
        /// The sender that the message names.
        from: u64,
        /// The receiver that the message names.
        to: u64,
        /// This member.
        here: u64,
    },
    /// The queue is full. The sender repeats what matters.
    #[error("{queued} messages wait, which is the limit")]
    Busy {
        /// Messages waiting.
        queued: usize,
    },
    /// The log has failed before, or has no other members.
    #[error("the log takes no messages")]
    Ended,
}

/// Why a log is over. The process must end; what is on disk is left as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFailure {
    /// The disk failed; nothing after that is known to be durable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// This member has lost entries that it had acknowledged, so it must not vote or acknowledge any more.
    #[error(
        "entries up to {acknowledged} were acknowledged here, the log ends at {last}: replace this member by a new one"
    )]
    Lost {
        /// What the leader knows to be here.
        acknowledged: Index,
        /// What is here.
        last: Index,
    },
    /// This member was removed from the group.
    #[error(
        "member {member} was removed from the group: it votes and stores no more. To take part again, start it with an \
         empty data folder under a new id"
    )]
    Removed {
        /// This member.
        member: u64,
    },
    /// The log holds something that this version does not know.
    #[error("entry {index} is of kind {kind}, which this version does not know; start a newer version")]
    UnknownKind {
        /// Where it stands.
        index: Index,
        /// The kind, in the words of the engine.
        kind: String,
    },
    /// A term or an index would be a higher number than any that is read again.
    #[error("the log would count to {count}, which no log does: replace this member by a new one")]
    CountsEnd {
        /// The number that was not written.
        count: u64,
    },
    /// The engine stopped working in a way that should not happen.
    #[error("the engine failed: {0}")]
    Engine(String),
}
