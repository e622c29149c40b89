//! What raft reads: the part of the log that is durable, kept in memory. Only [`crate::RaftLog`] writes to it, and only
//! what the write-ahead log has synced.

use crate::record::Position;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, StorageError};
use std::cell::Cell;
use std::collections::VecDeque;

/// What an entry costs besides its bytes, roughly.
const ENTRY_OVERHEAD_BYTES: u64 = 24;

/// The durable log and state of this member.
pub(crate) struct Durable {
    pub(crate) state: HardState,
    /// Who belonged to the group at the newest snapshot: where raft starts from, and what it tells with a snapshot.
    members: ConfState,
    /// The place before the first entry.
    base: Position,
    entries: VecDeque<Entry>,
    entry_bytes: u64,
    /// The newest snapshot.
    snapshot: Position,
    /// A member that the newest snapshot does not know needs one.
    wanted: Cell<Wanted>,
}

/// Whether another snapshot is needed, and whether that was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    No,
    Yes,
    Said,
}

impl Durable {
    pub(crate) fn new(
        state: HardState,
        members: ConfState,
        base: Position,
        entries: VecDeque<Entry>,
        snapshot: Position,
    ) -> Self {
        let entry_bytes = entries.iter().map(cost).sum();
        Durable { state, members, base, entries, entry_bytes, snapshot, wanted: Cell::default() }
    }

    /// The place of the last entry.
    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.base, |entry| Position { index: entry.index, term: entry.term })
    }

    /// The place of `index`, if it is known.
    pub(crate) fn position(&self, index: u64) -> Option<Position> {
        let term = match index.checked_sub(self.base.index)? {
            0 => self.base.term,
            distance => self.entries.get(distance as usize - 1)?.term,
        };
        Some(Position { index, term })
    }

    /// Bytes of entries in memory.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.entry_bytes
    }

    pub(crate) fn snapshot_position(&self) -> Position {
        self.snapshot
    }

    /// Adds entries, which replace those from the first one's index on.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else { return };
        while self.last().index >= first.index {
            self.entry_bytes -= self.entries.pop_back().map_or(0, |entry| cost(&entry));
        }
        self.entry_bytes += entries.iter().map(cost).sum::<u64>();
        self.entries.extend(entries);
    }

    /// A snapshot of `position` exists, with these members.
    pub(crate) fn snapshot_saved(&mut self, position: Position, members: ConfState) {
        (self.snapshot, self.members) = (position, members);
        self.wanted.set(Wanted::No);
    }

    /// Whether a snapshot is needed that knows more members than the newest one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.get() != Wanted::No
    }

    /// The same, once.
    pub(crate) fn ask_wanted(&mut self) -> bool {
        self.wanted.get() == Wanted::Yes && self.wanted.replace(Wanted::Said) == Wanted::Yes
    }

    /// The snapshot that was asked for did not come.
    pub(crate) fn ask_again(&mut self) {
        if self.wanted.get() == Wanted::Said {
            self.wanted.set(Wanted::Yes);
        }
    }

    /// A snapshot took the place of all entries.
    pub(crate) fn restart(&mut self, position: Position, members: ConfState) {
        self.entries.clear();
        self.entry_bytes = 0;
        (self.base, self.snapshot, self.members) = (position, position, members);
    }

    /// Forgets the entries up to `bound`, but none that the newest snapshot does not cover.
    pub(crate) fn trim(&mut self, bound: u64) {
        while let Some(first) = self.entries.front()
            && first.index <= bound.min(self.snapshot.index)
        {
            self.base = Position { index: first.index, term: first.term };
            self.entry_bytes -= cost(first);
            self.entries.pop_front();
        }
    }
}

fn cost(entry: &Entry) -> u64 {
    entry.data.len() as u64 + ENTRY_OVERHEAD_BYTES
}

impl raft::Storage for Durable {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(self.state.clone(), self.members.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low <= self.base.index {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.last().index + 1 {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let place = |index: u64| (index - self.base.index - 1) as usize;
        let mut room = max_size.into().unwrap_or(u64::MAX);
        let fits = |entry: &&Entry| {
            let first = entry.index == low;
            let enough = first || room >= cost(entry);
            room = room.saturating_sub(cost(entry));
            enough
        };
        Ok(self.entries.range(place(low)..place(high)).take_while(fits).cloned().collect())
    }

    fn term(&self, index: u64) -> Result<u64> {
        match self.position(index) {
            Some(position) => Ok(position.term),
            None if index < self.base.index => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.base.index + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last().index)
    }

    /// The place of the newest snapshot only: its bytes are read from disk when the message is sent.
    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        // Raft takes no snapshot in which the receiver is no member, and a new one is in none yet.
        let is_known = self.members.voters.contains(&to) || self.members.learners.contains(&to);
        if !is_known && self.snapshot.index > 0 {
            if self.wanted.get() == Wanted::No {
                self.wanted.set(Wanted::Yes);
            }
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        if self.snapshot.index == 0 || self.snapshot.index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = self.snapshot.index;
        metadata.term = self.snapshot.term;
        metadata.set_conf_state(self.members.clone());
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::Storage;

    fn known() -> ConfState {
        (vec![1, 2], vec![]).into()
    }

    fn entries(indices: std::ops::RangeInclusive<u64>, term: u64) -> Vec<Entry> {
        let entry = |index| Entry { index, term, data: vec![0; 76].into(), ..Entry::default() };
        indices.map(entry).collect()
    }

    fn indices(durable: &Durable, low: u64, high: u64, size: u64) -> Vec<u64> {
        let found = durable.entries(low, high, size, GetEntriesContext::empty(false)).unwrap();
        found.iter().map(|entry| entry.index).collect()
    }

    #[test]
    fn entries_replace_are_limited_and_forgotten() {
        let base = Position { index: 10, term: 1 };
        let mut durable = Durable::new(HardState::default(), known(), base, VecDeque::new(), base);
        durable.append(entries(11..=20, 2));
        durable.append(entries(18..=19, 3));
        assert_eq!((durable.last(), durable.entry_bytes()), (Position { index: 19, term: 3 }, 900));
        assert_eq!(indices(&durable, 12, 20, 300), [12, 13, 14]);
        assert_eq!(indices(&durable, 12, 14, 0), [12]);
        assert_eq!((durable.term(10).unwrap(), durable.term(17).unwrap(), durable.term(18).unwrap()), (1, 2, 3));
        durable.trim(15);
        assert_eq!(durable.first_index().unwrap(), 11, "no snapshot covers entry 11");
        durable.snapshot_saved(Position { index: 14, term: 2 }, known());
        durable.trim(15);
        assert_eq!((durable.first_index().unwrap(), durable.entry_bytes()), (15, 500));
        assert_eq!(durable.term(13), Err(Error::Store(StorageError::Compacted)));
        assert_eq!(durable.term(20), Err(Error::Store(StorageError::Unavailable)));
        assert_eq!(durable.snapshot(14, 2).unwrap().get_metadata().index, 14);
        assert!(durable.snapshot(15, 2).is_err());
        assert!(!durable.ask_wanted() && durable.snapshot(14, 3).is_err());
        assert!(durable.ask_wanted() && !durable.ask_wanted(), "said once");
        durable.restart(Position { index: 40, term: 5 }, known());
        assert_eq!((durable.first_index().unwrap(), durable.last_index().unwrap()), (41, 40));
    }
}
