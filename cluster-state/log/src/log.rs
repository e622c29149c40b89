//! The seam between a copy of the cell and its engine: requests in, events out.

use crate::alarm::Alarm;
use crate::failure::{DeliverError, LogFailure, Refusal, SubmitError};
use crate::members::{MemberChange, Members};
use bytes::Bytes;
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

    /// The process is about to end in order: writes down what the next start should find.
    fn close(&mut self) -> Result<(), LogFailure> {
        Ok(())
    }

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
