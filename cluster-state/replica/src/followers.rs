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
/// While a snapshot is made or sent, entries behind it are kept up to so many times the usual bytes: a follower that is
/// slow under load would else need the next snapshot before it has the first.
const KEPT_FACTOR: usize = 4;
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
    /// The last entry of the snapshot that is being made for those who wait.
    encoding: Option<Index>,
    followers: BTreeMap<FollowerId, Follower>,
}

impl Followers {
    pub(crate) fn new(kept_bytes_max: usize) -> Self {
        Followers {
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max,
            kept_after: Index(0),
            encoding: None,
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
        let needed_after = if self.kept_bytes > self.kept_bytes_max { self.needed_after() } else { Index(u64::MAX) };
        while let Some(&(index, ref bytes)) = self.kept.front() {
            let limit = if index > needed_after { self.kept_bytes_max * KEPT_FACTOR } else { self.kept_bytes_max };
            if self.kept_bytes <= limit {
                break;
            }
            self.kept_bytes -= bytes.len();
            self.kept_after = index;
            self.kept.pop_front();
        }
    }

    /// The last entry of the oldest snapshot under way: its receiver goes on from there.
    fn needed_after(&self) -> Index {
        let sending = self.followers.values().filter_map(|follower| match &follower.stage {
            Stage::SendingSnapshot { index, .. } => Some(*index),
            Stage::WaitingForSnapshot | Stage::Following { .. } => None,
        });
        sending.chain(self.encoding).min().unwrap_or(Index(u64::MAX))
    }

    /// Starts a stream after `from`.
    pub(crate) fn add(&mut self, follower: FollowerId, from: Index, applied: Index) {
        let can_follow = from >= self.kept_after && from <= applied;
        let stage = if can_follow { Stage::Following { sent: from } } else { Stage::WaitingForSnapshot };
        self.followers.insert(follower, Follower { stage, unacknowledged: 0 });
    }

    pub(crate) fn remove(&mut self, follower: FollowerId) {
        self.followers.remove(&follower);
    }

    /// Whether a snapshot as of `applied` has to be made, and for whom first: one serves all who wait.
    pub(crate) fn begin_encoding(&mut self, applied: Index) -> Option<FollowerId> {
        let waits = |(_, follower): &(&FollowerId, &Follower)| matches!(follower.stage, Stage::WaitingForSnapshot);
        let (first, _) = self.followers.iter().find(waits).filter(|_| self.encoding.is_none())?;
        self.encoding = Some(applied);
        Some(*first)
    }

    /// Gives a snapshot to all who wait. One of no pieces could not be made: the next one will be.
    pub(crate) fn give_snapshot(&mut self, index: Index, pieces: &[Bytes]) {
        self.encoding = None;
        if pieces.is_empty() || index < self.kept_after {
            return;
        }
        for follower in self.followers.values_mut() {
            if let Stage::WaitingForSnapshot = follower.stage {
                follower.stage = Stage::SendingSnapshot { index, pieces: pieces.iter().cloned().collect() };
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, follower: FollowerId, bytes: usize) {
        if let Some(follower) = self.followers.get_mut(&follower) {
            follower.unacknowledged = follower.unacknowledged.saturating_sub(bytes);
        }
    }

    /// Gives every follower what its window allows.
    pub(crate) fn pump(&mut self, mut send: impl FnMut(FollowerId, FollowFrame)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Bytes {
        Bytes::from(vec![7; 1000])
    }

    #[test]
    fn one_snapshot_serves_all_who_wait_and_what_follows_it_is_kept_for_them() {
        let mut followers = Followers::new(10_000);
        (1..=50).for_each(|index| followers.keep(Index(index), entry()));
        (1..=3).for_each(|id| followers.add(FollowerId(id), Index(0), Index(50)));
        assert_eq!(followers.begin_encoding(Index(50)), Some(FollowerId(1)));
        assert_eq!(followers.begin_encoding(Index(50)), None, "one at a time");
        // More than is usually kept passes while the snapshot is made and sent.
        (51..=70).for_each(|index| followers.keep(Index(index), entry()));
        let piece = Bytes::from(vec![1; WINDOW_BYTES]);
        followers.give_snapshot(Index(50), &[piece.clone(), piece]);
        let mut got: Vec<(FollowerId, FollowFrame)> = Vec::new();
        followers.pump(|id, frame| got.push((id, frame)));
        (71..=80).for_each(|index| followers.keep(Index(index), entry()));
        for id in 1..=3 {
            followers.acknowledge(FollowerId(id), WINDOW_BYTES);
        }
        followers.pump(|id, frame| got.push((id, frame)));
        for id in 1..=3 {
            followers.acknowledge(FollowerId(id), WINDOW_BYTES);
        }
        followers.pump(|id, frame| got.push((id, frame)));
        for id in 1..=3 {
            let entries = got.iter().filter_map(|(to, frame)| match frame {
                FollowFrame::Entries(entries) if to.0 == id => Some(entries.iter().map(|(index, _)| index.0)),
                _ => None,
            });
            assert_eq!(entries.flatten().collect::<Vec<_>>(), (51..=80).collect::<Vec<_>>(), "follower {id}");
        }
        assert_eq!(followers.begin_encoding(Index(80)), None);
        (81..=200).for_each(|index| followers.keep(Index(index), entry()));
        assert!(followers.kept_bytes <= 10_000, "nobody needs more any longer");
    }

    #[test]
    fn a_snapshot_that_could_not_be_made_is_asked_for_again() {
        let mut followers = Followers::new(10);
        followers.keep(Index(1), entry());
        followers.add(FollowerId(1), Index(0), Index(1));
        assert_eq!(followers.begin_encoding(Index(1)), Some(FollowerId(1)));
        followers.give_snapshot(Index(1), &[]);
        assert_eq!(followers.begin_encoding(Index(1)), Some(FollowerId(1)));
    }
}
