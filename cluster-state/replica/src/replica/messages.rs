//! What a replica is told, and what it wants done.

use crate::followers::{FollowFrame, FollowerId};
use crate::proposal::{ProposeError, Ticket};
use crate::time::TimeWord;
use ohm_cell::{Applied, Cell};
use ohm_log::{Alarm, Bytes, Delivery, LogFailure, MemberChange, Members, Refusal};
use ohm_model::{Index, Outcome};

/// Sizes and paces.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaConfig {
    /// As soon as so many bytes of commands wait to be appended, more is answered Busy.
    pub waiting_bytes_max: usize,
    /// Entries that may be on their way at once.
    pub entries_in_flight_max: usize,
    /// Bytes of entries kept in memory for followers.
    pub kept_bytes_max: usize,
    /// Events kept in memory for people.
    pub events_max: usize,
    /// A snapshot is taken after this many bytes of entries.
    pub snapshot_every_bytes: u64,
    /// And after this many entries, whatever their size.
    pub snapshot_every_entries: u64,
}

impl Default for ReplicaConfig {
    fn default() -> Self {
        ReplicaConfig {
            waiting_bytes_max: 16 << 20,
            entries_in_flight_max: 4,
            kept_bytes_max: 32 << 20,
            events_max: 20_000,
            snapshot_every_bytes: 64 << 20,
            snapshot_every_entries: 100_000,
        }
    }
}

/// What a snapshot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be kept by the log.
    Keep,
    /// For all followers that are too far behind; this is one of them.
    Follower(FollowerId),
}

/// What a replica is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// Commands to be put into the log together, each as [`ohm_model::Envelope::encode`] gives it.
    Propose {
        /// Comes back with the outcomes.
        ticket: Ticket,
        /// The commands.
        commands: Vec<Bytes>,
    },
    /// Somebody wants to keep a copy.
    Follow {
        /// The stream.
        follower: FollowerId,
        /// What it has applied already; 0 for nothing.
        from: Index,
    },
    /// A follower has taken in this many bytes, as [`FollowFrame::bytes`] counts them.
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
    /// How far must this copy be to show everything acknowledged until now? Answered by `Readable` or `Refused`, once
    /// it is that far.
    Read {
        /// Comes back with the answer.
        ticket: Ticket,
    },
    /// Change who belongs to the group of servers. Answered by `MembersChanged`, `Refused` or `Unknown`.
    ChangeMembers {
        /// Comes back with the answer.
        ticket: Ticket,
        /// What is wanted.
        change: MemberChange,
    },
    /// Let another server lead: this one, or whichever is furthest.
    Transfer {
        /// The member.
        to: Option<u64>,
    },
    /// The network brought something for the log.
    Deliver(Delivery),
    /// A snapshot that was asked for by [`CopyEffect::Encode`].
    Encoded {
        /// What for.
        purpose: Purpose,
        /// The last entry in it.
        index: Index,
        /// The bytes, cut into pieces; see [`crate::Replica::encode`]. None when it could not be encoded.
        pieces: Vec<Bytes>,
    },
    /// The process is about to end in order.
    Close,
    /// Append what waits, and see what the log says. Shells send this after each bunch of other inputs.
    Flush,
}

/// What a replica wants done.
#[derive(Debug)]
pub enum Effect {
    /// The commands of a proposal are committed and applied, or refused for good because no entry can hold them.
    Answered {
        /// Whose.
        ticket: Ticket,
        /// The entry they are in.
        index: Index,
        /// One per command.
        outcomes: Vec<Outcome>,
    },
    /// The proposal was not taken in; nothing of it will happen.
    Turned {
        /// Whose.
        ticket: Ticket,
        /// Why.
        error: ProposeError,
    },
    /// The log refused the proposal; nothing of it will happen.
    Refused {
        /// Whose.
        ticket: Ticket,
        /// Why.
        reason: Refusal,
    },
    /// Nobody knows whether the proposal will happen; sessions make asking again safe.
    Unknown {
        /// Whose.
        ticket: Ticket,
    },
    /// The copy was replaced by a snapshot.
    Restored {
        /// Its last entry.
        index: Index,
    },
    /// This copy shows everything that was acknowledged anywhere before the read was asked for.
    Readable {
        /// Whose read.
        ticket: Ticket,
    },
    /// The change of members is in the log.
    MembersChanged {
        /// Whose change.
        ticket: Ticket,
        /// The member that was added, promoted or removed.
        member: u64,
    },
    /// Bytes for another member of the log.
    Send {
        /// The member.
        to: u64,
        /// Opaque.
        bytes: Bytes,
    },
    /// What whoever wraps the copy passes on as it is.
    Copy(CopyEffect),
}

/// What a copy of the truth wants done by the shell, whatever stands between the two.
#[derive(Debug)]
pub enum CopyEffect {
    /// An entry was applied here. The shell looks at what changed and tells whoever must know.
    Applied {
        /// The entry.
        index: Index,
        /// The entry as it stands in the log.
        bytes: Bytes,
        /// What it caused.
        applied: Box<Applied>,
        /// The copy's running hash after it.
        chain: u64,
    },
    /// For a follower.
    ToFollower {
        /// The stream.
        follower: FollowerId,
        /// The message.
        frame: FollowFrame,
    },
    /// Encode this clone (elsewhere, it may take long) and hand the pieces in as `Encoded`.
    Encode {
        /// What for.
        purpose: Purpose,
        /// The clone.
        cell: Box<Cell>,
    },
    /// Who belongs to the group of servers.
    Members(Members),
    /// Who takes appends.
    Leader {
        /// The member, if known.
        member: Option<u64>,
        /// Whether it is this one.
        here: bool,
    },
    /// What time it is: to be noted for the next process, and to be told when time is held.
    Time(TimeWord),
    /// For the operator.
    Alarm(Alarm),
    /// A snapshot is kept by the log.
    SnapshotSaved {
        /// Its last entry.
        index: Index,
    },
}

/// Why a replica is over. The process must end and start again from what is on disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaFailure {
    /// The log is over.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// An entry or snapshot can't be read by this version.
    #[error("entry {index} can't be applied: {reason}")]
    Unreadable {
        /// Where it stands.
        index: Index,
        /// What is wrong.
        reason: String,
    },
    /// This copy is not like the others. It serves no more; what it holds is evidence.
    #[error(
        "this copy differs from the others since entry {index} at the latest (hash {own:016x}, theirs {others:016x}): \
         it stops. Keep its data folder as evidence and replace this server by a new one"
    )]
    Diverged {
        /// Where it was noticed.
        index: Index,
        /// The running hash here.
        own: u64,
        /// The running hash that most others have.
        others: u64,
    },
}
