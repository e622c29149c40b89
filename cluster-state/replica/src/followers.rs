//! Followers: schedulers, the health candidates, anybody who keeps a copy. Each gets a snapshot if it needs one, then
//! the entries as they stand in the log, no faster than it takes them in.

use ohm_log::Bytes;
use ohm_model::Index;
use ohm_stdx::define_id;
use std::collections::{BTreeMap, VecDeque};

define_id!(
    /// One follow stream, numbered by the shell.
    FollowerId(u64)
);

/// Bytes that a follower may have unacknowledged.
const WINDOW_BYTES: usize = 8 << 20;
/// Bytes of entries in one frame, at most (one longer entry travels alone).
const FRAME_BYTES: usize = 256 << 10;

/// One message to a follower. Frames arrive in order or the stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowFrame {
    /// A piece of a snapshot; the copy is replaced when the last one has come.
    Snapshot {
        /// The last entry in it.
        index: Index,
        /// The bytes.
        piece: Bytes,
        /// Whether this is the last piece.
        last: bool,
    },
    /// Entries in order, each with its index.
    Entries(Vec<(Index, Bytes)>),
}

impl FollowFrame {
    /// What the frame counts against the window.
    pub fn bytes(&self) -> usize {
        match self {
            FollowFrame::Snapshot { piece, .. } => piece.len(),
            FollowFrame::Entries(entries) => entries.iter().map(|(_, bytes)| bytes.len() + 16).sum(),
        }
    }
}

/// ```text
///  Waiting ──encoded──▶ Sending snapshot ──last piece──▶ Following
///     ▲                                                   │
///     └──────── fell behind the kept entries ◀────────────┘
/// ```
enum Stage {
    WaitingForSnapshot,
    SendingSnapshot { index: Index, pieces: VecDeque<Bytes> },
    Following { sent: Index },
}

struct Follower {
    stage: Stage,
    unacknowledged: usize,
}

/// The kept entries and everybody who reads them.
pub(crate) struct Followers {
    kept: VecDeque<(Index, Bytes)>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    /// Entries up to here are not kept.
    kept_after: Index,
    followers: BTreeMap<FollowerId, Follower>,
}

impl Followers {
    pub(crate) fn new(kept_bytes_max: usize) -> Self {
        Followers {
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max,
            kept_after: Index(0),
            followers: BTreeMap::new(),
        }
    }

    /// A snapshot replaced the copy: nothing before it is kept, and nobody can go on from before it.
    pub(crate) fn reset(&mut self, index: Index) {
        self.kept.clear();
        self.kept_bytes = 0;
        self.kept_after = index;
    }

    pub(crate) fn keep(&mut self, index: Index, bytes: Bytes) {
        self.kept_bytes += bytes.len();
        self.kept.push_back((index, bytes));
        while self.kept_bytes > self.kept_bytes_max
            && let Some((index, bytes)) = self.kept.pop_front()
        {
            self.kept_bytes -= bytes.len();
            self.kept_after = index;
        }
    }

    /// Starts a stream after `from`; returns whether it needs a snapshot first.
    pub(crate) fn add(&mut self, follower: FollowerId, from: Index, applied: Index) -> bool {
        let can_follow = from >= self.kept_after && from <= applied;
        let stage = if can_follow { Stage::Following { sent: from } } else { Stage::WaitingForSnapshot };
        self.followers.insert(follower, Follower { stage, unacknowledged: 0 });
        !can_follow
    }

    pub(crate) fn remove(&mut self, follower: FollowerId) {
        self.followers.remove(&follower);
    }

    pub(crate) fn give_snapshot(&mut self, follower: FollowerId, index: Index, pieces: Vec<Bytes>) {
        if let Some(follower) = self.followers.get_mut(&follower)
            && matches!(follower.stage, Stage::WaitingForSnapshot)
        {
            follower.stage = Stage::SendingSnapshot { index, pieces: pieces.into() };
        }
    }

    pub(crate) fn acknowledge(&mut self, follower: FollowerId, bytes: usize) {
        if let Some(follower) = self.followers.get_mut(&follower) {
            follower.unacknowledged = follower.unacknowledged.saturating_sub(bytes);
        }
    }

    /// Gives every follower what its window allows; `behind` gets those that need a snapshot now.
    pub(crate) fn pump(&mut self, mut send: impl FnMut(FollowerId, FollowFrame), behind: &mut Vec<FollowerId>) {
        for (&id, follower) in &mut self.followers {
            while follower.unacknowledged < WINDOW_BYTES {
                let frame = match &mut follower.stage {
                    Stage::WaitingForSnapshot => break,
                    Stage::SendingSnapshot { index, pieces } => {
                        let Some(piece) = pieces.pop_front() else { break };
                        let (index, last) = (*index, pieces.is_empty());
                        if last {
                            follower.stage = Stage::Following { sent: index };
                        }
                        FollowFrame::Snapshot { index, piece, last }
                    }
                    Stage::Following { sent } if *sent < self.kept_after => {
                        follower.stage = Stage::WaitingForSnapshot;
                        behind.push(id);
                        break;
                    }
                    Stage::Following { sent } => match next_entries(&self.kept, *sent) {
                        entries if entries.is_empty() => break,
                        entries => {
                            *sent = entries.last().map_or(*sent, |(index, _)| *index);
                            FollowFrame::Entries(entries)
                        }
                    },
                };
                follower.unacknowledged += frame.bytes();
                send(id, frame);
            }
        }
    }
}

fn next_entries(kept: &VecDeque<(Index, Bytes)>, sent: Index) -> Vec<(Index, Bytes)> {
    let start = kept.partition_point(|(index, _)| *index <= sent);
    let mut bytes = 0;
    let fits = |(_, entry): &&(Index, Bytes)| {
        let first = bytes == 0;
        bytes += entry.len() + 16;
        first || bytes <= FRAME_BYTES
    };
    kept.range(start..).take_while(fits).cloned().collect()
}
