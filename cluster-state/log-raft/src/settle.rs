//! From `ready` to `advance`: makes durable what raft wants durable, then says what follows from it.

use crate::raft_log::{RaftLog, full_retry_ms};
use crate::record::{COUNT_MAX, Position};
use crate::snapshots::Progress;
use ohm_log::{Alarm, Disk, DiskError, LogEvent, LogFailure};
use ohm_model::Index;
use protobuf::Message as _;
use raft::eraftpb::{ConfChange, Entry, EntryType, HardState};
use raft::{GetEntriesContext, Ready, Storage};
use std::collections::VecDeque;

impl<D: Disk> RaftLog<D> {
    /// Settles `ready`, or keeps it for later if the disk is full.
    pub(crate) fn settle(&mut self, mut ready: Ready, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        match self.persist(&ready, out) {
            Ok(()) => {}
            Err(LogFailure::Disk(DiskError::Full { file, reason })) => {
                if self.full_until_ms.replace(full_retry_ms(self.now_ms)).is_none() {
                    out.push(LogEvent::Alarm(Alarm::DiskFull { file, reason }));
                }
                // What is committed is durable already: nobody has to wait for room to see it.
                self.yield_entries(ready.take_committed_entries(), out)?;
                let kept = self.kept_by(&ready);
                self.staged = Some(ready);
                return self.yield_without_room(kept, out);
            }
            Err(failure) => return Err(failure),
        }
        if self.full_until_ms.take().is_some() {
            out.push(LogEvent::Alarm(Alarm::DiskRoom));
        }
        self.finish(ready, out)
    }

    /// One sync for all of it. Nothing in memory changes here, so that it can be repeated after [`DiskError::Full`].
    fn persist(&mut self, ready: &Ready, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let restart = snapshot_position(ready);
        if let Some(position) = restart
            && !self.shelf.kept().contains(&position.index)
        {
            if let Some(index) = self.shelf.give_up() {
                let reason = "a newer snapshot came from another member".into();
                out.push(LogEvent::SnapshotFailed { index, reason });
            }
            self.shelf.install(&mut self.disk, position.index)?;
        }
        if !ready.must_sync() {
            // A commit that is known to fewer than all is found again after a restart.
            return Ok(());
        }
        let durable = self.node.store();
        let (last, state) = (durable.last(), ready.hs().unwrap_or(&durable.state));
        check_counts(ready, state)?;
        let kept = restart.unwrap_or(last);
        self.wal.append(&mut self.disk, last, &durable.state, |batch| {
            // Term and vote go first and the commit last: of a long batch a crash may keep only the beginning, and
            // there must be no entry of a term that is not known, and no commit of an entry that is not there.
            batch.state(&HardState { commit: durable.state.commit, ..state.clone() });
            restart.into_iter().for_each(|position| batch.restart(position));
            if let Some(first) = ready.entries().first()
                && first.index <= kept.index
            {
                batch.truncate(first.index);
            }
            ready.entries().iter().for_each(|entry| batch.entry(entry));
            batch.state(state);
        })?;
        Ok(())
    }

    fn finish(&mut self, mut ready: Ready, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        if let Some(position) = snapshot_position(&ready) {
            let arrived = self.transfers.take_arrived();
            let snapshot = arrived.ok_or_else(|| LogFailure::Engine("a snapshot that never arrived".into()))?;
            self.membership = snapshot.header.membership(&self.config.founders);
            self.memberships = VecDeque::from([(position.index, self.membership.clone())]);
            self.node.mut_store().restart(position, self.membership.conf_state());
            let index = snapshot.header.applied();
            (self.yielded, self.visible) = (position.index, index.0);
            out.push(LogEvent::InstallSnapshot { index, pieces: snapshot.pieces });
            out.push(LogEvent::Members(self.membership.members()));
        }
        let durable = self.node.mut_store();
        durable.append(ready.take_entries());
        if let Some(state) = ready.hs() {
            durable.state = state.clone();
        }
        self.reads.answer(ready.take_read_states());
        let messages = ready.take_persisted_messages();
        self.send_all(messages, out)?;
        self.yield_entries(ready.take_committed_entries(), out)?;
        let mut light = self.node.advance(ready);
        if let Some(commit) = light.commit_index() {
            self.node.mut_store().state.commit = commit;
        }
        self.send_all(light.take_messages(), out)?;
        self.yield_entries(light.take_committed_entries(), out)?;
        self.node.advance_apply();
        self.tell_leader(out);
        Ok(())
    }

    /// Up to where what is on the disk stays when `ready` is settled: what a former leader alone had appended goes.
    fn kept_by(&self, ready: &Ready) -> u64 {
        let (durable, first) = (self.node.store(), ready.entries().first());
        let last = durable.last().index;
        match snapshot_position(ready) {
            Some(_) => last.min(durable.state.commit),
            None => first.map_or(last, |entry| last.min(entry.index - 1)),
        }
    }

    /// Raft hands out committed entries in batches, and the next one comes only after there is room; of a long log that
    /// was just opened most would be missing until then. Changes of members are raft's: it applies them itself. Goes as
    /// far as `kept`: above it the disk holds what was never committed.
    fn yield_without_room(&mut self, kept: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let committed = self.node.raft.raft_log.committed.min(kept);
        if committed <= self.yielded {
            return Ok(());
        }
        let context = GetEntriesContext::empty(false);
        let entries = self.node.store().entries(self.yielded + 1, committed + 1, None, context);
        let mut entries = entries.map_err(|error| LogFailure::Engine(error.to_string()))?;
        let normal = entries.iter().take_while(|entry| entry.get_entry_type() == EntryType::EntryNormal).count();
        entries.truncate(normal);
        self.yield_entries(entries, out)
    }

    fn yield_entries(&mut self, entries: Vec<Entry>, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let yielded = self.yielded;
        for entry in entries.into_iter().filter(|entry| entry.index > yielded) {
            let token = self.appends.committed(entry.index, entry.term, out);
            self.yielded = entry.index;
            match entry.get_entry_type() {
                EntryType::EntryNormal => self.changes.answer(&entry, None, out),
                EntryType::EntryConfChange => {
                    self.apply_change(&entry, out)?;
                    self.memberships.push_back((entry.index, self.membership.clone()));
                    continue;
                }
                EntryType::EntryConfChangeV2 => {
                    let kind = format!("{:?}", entry.get_entry_type());
                    return Err(LogFailure::UnknownKind { index: Index(entry.index), kind });
                }
            }
            // Each leader starts with an empty entry of its own.
            if !entry.data.is_empty() {
                self.visible = entry.index;
                out.push(LogEvent::Committed { index: Index(entry.index), bytes: entry.data, token });
            }
        }
        Ok(())
    }

    /// An entry that changes the members is committed. Like any other it is judged on every copy, with the same
    /// verdict.
    fn apply_change(&mut self, entry: &Entry, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let change = ConfChange::parse_from_carllerche_bytes(&entry.data)
            .map_err(|error| LogFailure::Engine(format!("entry {}: {error}", entry.index)))?;
        let judged = self.membership.judge(&change);
        if judged.is_ok() {
            self.node.apply_conf_change(&change).map_err(|error| LogFailure::Engine(error.to_string()))?;
            self.membership.apply(&change);
            self.transfers.forget(change.node_id, &self.membership);
        }
        self.changes.answer(entry, judged.err(), out);
        if judged.is_ok() {
            out.push(LogEvent::Members(self.membership.members()));
            if self.membership.is_removed(self.config.member) {
                return Err(LogFailure::Removed { member: self.config.member });
            }
        }
        Ok(())
    }

    /// Goes on with the snapshot that is being written, if there is one.
    pub(crate) fn step_snapshot(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let writing = self.shelf.writing();
        match self.shelf.step(&mut self.disk) {
            Ok(Progress::Idle | Progress::More) => Ok(()),
            Ok(Progress::Saved { position, applied, members }) => {
                self.node.mut_store().snapshot_saved(position, members.conf_state());
                while self.memberships.get(1).is_some_and(|(from, _)| *from <= position.index) {
                    self.memberships.pop_front();
                }
                out.push(LogEvent::SnapshotSaved { index: applied });
                Ok(())
            }
            Err(error @ DiskError::Full { .. }) => {
                let index = writing.unwrap_or_default();
                self.node.mut_store().ask_again();
                out.push(LogEvent::SnapshotFailed { index, reason: error.to_string() });
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What is written can be read again: a log whose numbers are at their end stops before it counts on.
fn check_counts(ready: &Ready, state: &HardState) -> Result<(), LogFailure> {
    let last = ready.entries().last().map_or(0, |entry| entry.index);
    let count = state.term.max(last);
    if count > COUNT_MAX { Err(LogFailure::CountsEnd { count }) } else { Ok(()) }
}

fn snapshot_position(ready: &Ready) -> Option<Position> {
    let metadata = ready.snapshot().get_metadata();
    (!ready.snapshot().is_empty()).then_some(Position { index: metadata.index, term: metadata.term })
}
