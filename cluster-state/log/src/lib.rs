//! The ordered log of a cell, as data: requests in, events out. The engines (`ohm-log-raft`, `ohm-log-etcd`) and the
//! hostile [`MemLog`] keep one contract, which [`contract`] checks on each of them.
//!
//! ```text
//!            submit ─▶ ┌─────┐ ─▶ Committed, InstallSnapshot   the stream: in order, nothing left out
//!   poll, wake_ms ───▶ │ Log │ ─▶ Refused, Unknown, Readable   answers to appends, reads, changes of members
//!  deliver (network) ▶ └─────┘ ─▶ Send                         effects for the shell
//! ```
//!
//! Invariants:
//! - What was `Committed` is durable on a majority and stays at its index with its bytes for ever.
//! - Indices rise but may skip; a copy asserts no more than `index > applied`.
//! - Each accepted append gets exactly one of `Committed` with its token, `Refused` and `Unknown`, unless the process
//!   ends first. A refused one is never in the log; an unknown one is in it once or never.
//! - A read that is answered with an index covers everything that was acknowledged anywhere before it was asked.
//! - A log that starts yields the newest snapshot (if there is one), then each committed entry after it, then goes on.
//! - No queue grows without a limit: a log that nobody polls answers [`SubmitError::Busy`].
//! - No clock, no socket, no thread and no hidden dice in here. Nothing in here leads; see [`LogEvent::Leader`].
#![forbid(unsafe_code)]

pub mod contract;
pub mod disk;
mod mem_disk;
mod mem_log;
mod members;

pub use bytes::Bytes;
pub use disk::{Disk, DiskError, FileStatus};
pub use mem_disk::{Fault, MemDisk};
pub use mem_log::{MemFaults, MemLog, MemStore};
pub use members::{ChangeRefusal, MemberChange, Members};

use ohm_model::Index;

/// An entry is at most this many bytes long, in every engine.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// One piece of a snapshot is at most this many bytes long.
pub const SNAPSHOT_PIECE_BYTES_MAX: usize = 4 << 20;

/// The seam between a copy of the cell and the engine that orders its entries.
pub trait Log {
    /// Hands in a request. It is answered by events of later polls; an error means that it was not accepted at all.
    fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError>;

    /// Hands in what the network brought or failed to bring. Foreign or damaged bytes are refused and change nothing.
    fn deliver(&mut self, now_ms: u64, delivery: Delivery) -> Result<(), DeliverError>;

    /// Does the work that is due at `now_ms` and adds what came of it to `out`. One call adds a bounded amount of
    /// bytes, whole snapshots apart; there is more as long as [`Log::wake_ms`] is not above `now_ms`.
    ///
    /// After an error the log is over: the process must end, and start again from what is on disk.
    fn poll(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure>;

    /// When to poll next, even if nothing is submitted or delivered before, in the milliseconds of `now_ms`.
    fn wake_ms(&self) -> Option<u64>;
}

/// What a copy asks of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRequest {
    /// Put `bytes` in order. Appends submitted before the answer of an earlier one may be ordered before it.
    Append {
        /// Comes back in the answer; the caller keeps tokens distinct.
        token: u64,
        /// 1 to [`ENTRY_BYTES_MAX`] bytes.
        bytes: Bytes,
    },
    /// Keep the state as of `index` durably. Answered by `SnapshotSaved` or `SnapshotFailed`.
    SaveSnapshot {
        /// The last entry in the snapshot: one that this log has yielded, above that of the former snapshot unless
        /// [`LogEvent::SnapshotWanted`] asked for it.
        index: Index,
        /// The bytes, in at least one piece, each 1 to [`SNAPSHOT_PIECE_BYTES_MAX`] long; they come back cut alike.
        pieces: Vec<Bytes>,
    },
    /// Entries below `below` may be forgotten. Never reaches past what the kept snapshots cover.
    Trim {
        /// The lowest index that is still wanted.
        below: Index,
    },
    /// How far must a copy be to show everything that was acknowledged until now? Answered by `Readable` or `Refused`.
    Read {
        /// Comes back in the answer; distinct from those of appends, too.
        token: u64,
    },
    /// Change who belongs to the group. Answered by `MembersChanged`, `Refused` or `Unknown`.
    ChangeMembers {
        /// Comes back in the answer; distinct from those of appends, too.
        token: u64,
        /// What is wanted.
        change: MemberChange,
    },
    /// Let another member lead: `to`, or whoever is furthest. There is no answer but [`LogEvent::Leader`]; where nobody
    /// leads, nothing happens.
    Transfer {
        /// The member.
        to: Option<u64>,
    },
}

/// What a log tells its copy and its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The next entry of the log: durable on a majority.
    Committed {
        /// Above that of every entry yielded before.
        index: Index,
        /// What was appended, by this copy or another.
        bytes: Bytes,
        /// The token of the append, if this log was asked for it and has not answered it yet.
        token: Option<u64>,
    },
    /// The copy must be replaced by this state; entries go on after `index`.
    InstallSnapshot {
        /// The last entry in the snapshot.
        index: Index,
        /// The pieces as they were saved.
        pieces: Vec<Bytes>,
    },
    /// The append is not in the log and never will be.
    Refused {
        /// Whose append.
        token: u64,
        /// Why.
        reason: Refusal,
    },
    /// The append is in the log once or never; which of the two, only the log itself will show.
    Unknown {
        /// Whose append.
        token: u64,
    },
    /// The snapshot survives the loss of this process.
    SnapshotSaved {
        /// The last entry in it.
        index: Index,
    },
    /// The snapshot is not there; the former ones still are.
    SnapshotFailed {
        /// The index asked for.
        index: Index,
        /// Why, in words for the operator.
        reason: String,
    },
    /// Where appends are taken, as far as this log knows. Engines without a leader say so once, with `here: true`.
    Leader {
        /// The member that leads, if one is known.
        member: Option<u64>,
        /// Whether appends submitted here have a chance.
        here: bool,
    },
    /// A copy that has reached `index` shows everything that was acknowledged before the read was asked for. This log
    /// has yielded that index, or will.
    Readable {
        /// Whose read.
        token: u64,
        /// How far the copy must be.
        index: Index,
    },
    /// The change of members is in the log.
    MembersChanged {
        /// Whose change.
        token: u64,
        /// The member that was added, promoted or removed.
        member: u64,
    },
    /// Who belongs to the group, at the start and after each change. An engine that needs no group names whoever runs.
    Members(Members),
    /// Another member needs a snapshot and none that is kept will do (it must know the new member): save one now, even
    /// if nothing was applied since the last one.
    SnapshotWanted,

    /// Bytes for another member, at most some megabytes. Losing them is allowed; mixing them up is not.
    Send {
        /// The member.
        to: u64,
        /// Opaque; the other side hands them to [`Log::deliver`].
        bytes: Bytes,
    },
    /// Something that an operator should see; the log goes on.
    Alarm(Alarm),
}

/// What the network brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Bytes that another member sent.
    Message(Bytes),
    /// Bytes for `member` could not be sent.
    Unreachable {
        /// The member.
        member: u64,
    },
}

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
    /// The engine stopped working in a way that should not happen.
    #[error("the engine failed: {0}")]
    Engine(String),
}

/// What an operator should know about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Alarm {
    /// Appends wait until there is room again.
    #[error("no room to write {file}: appends wait until there is room again")]
    DiskFull {
        /// The file that could not grow.
        file: String,
    },
    /// There is room again.
    #[error("there is room on the disk again")]
    DiskRoom,
    /// A write was cut short by a crash. None of it had been acknowledged.
    #[error("{bytes} bytes of an unfinished write were cut from the end of {file}")]
    TailCut {
        /// The file.
        file: String,
        /// How many bytes were cut.
        bytes: u64,
    },
    /// A snapshot cannot be read; an older one and the entries after it took its place.
    #[error("snapshot {file} is damaged at byte {offset}: an older one was used; move this one away")]
    SnapshotDamaged {
        /// The file.
        file: String,
        /// Where the damage begins.
        offset: u64,
    },
    /// The engine is a process of its own, and of a version with known faults.
    #[error("etcd {version} has known faults that can show stale or missing entries: update it to {wanted}")]
    OldEngine {
        /// The version that runs.
        version: String,
        /// The first safe one.
        wanted: String,
    },
    /// The engine is a process of its own, and does not answer.
    #[error("etcd does not answer, and nothing is ordered until it does: {reason}")]
    EngineLost {
        /// What the last attempt said.
        reason: String,
    },
    /// The engine answers again.
    #[error("etcd answers again")]
    EngineBack,
    /// The engine has left out entries; they are read again.
    #[error("the watch of etcd left out {missing} entries or more before {at}: they are read again")]
    EventsMissed {
        /// How many, if it says so.
        missing: u64,
        /// The entry that showed it.
        at: Index,
    },
}

/// Checks the sizes in a request; every engine does this first.
pub fn check_lengths(request: &LogRequest) -> Result<(), SubmitError> {
    let (pieces, limit) = match request {
        LogRequest::Append { bytes, .. } => (std::slice::from_ref(bytes), ENTRY_BYTES_MAX),
        LogRequest::SaveSnapshot { pieces, .. } if pieces.is_empty() => return Err(SubmitError::NoPieces),
        LogRequest::SaveSnapshot { pieces, .. } => (pieces.as_slice(), SNAPSHOT_PIECE_BYTES_MAX),
        _ => return Ok(()),
    };
    match pieces.iter().find(|piece| piece.is_empty() || piece.len() > limit) {
        Some(piece) => Err(SubmitError::Length { length: piece.len(), limit }),
        None => Ok(()),
    }
}
