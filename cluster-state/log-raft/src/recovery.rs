//! Puts segments and snapshots together. Reading comes first and changes nothing; only when all of it is right does
//! [`recover`] cut, sync and mark.

use crate::config::RaftConfig;
use crate::error::OpenError;
use crate::identity::{Folder, Identity, inspect, segment_file, snapshot_file};
use crate::mark::{MARK, Mark};
use crate::members::Membership;
use crate::record::Position;
use crate::replay::{Replay, replay};
use crate::snapshots::{self, Shelf, Snapshot};
use crate::storage::Durable;
use crate::wal::Wal;
use ohm_log::{Alarm, Disk};
use ohm_stdx::bug::{Bug, is_planted};

/// A log as it was left.
pub(crate) struct Recovered {
    pub(crate) durable: Durable,
    pub(crate) wal: Wal,
    pub(crate) shelf: Shelf,
    /// The newest snapshot that can be read.
    pub(crate) snapshot: Option<Snapshot>,
    /// Who belonged to the group at that snapshot, or at the beginning.
    pub(crate) membership: Membership,
    pub(crate) alarms: Vec<Alarm>,
}

/// What a folder holds, read without changing it.
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) replay: Replay,
    pub(crate) shelf: Shelf,
    pub(crate) snapshot: Option<Snapshot>,
    /// Whether the snapshot voids all entries, and the log must be told so.
    pub(crate) restart: bool,
    pub(crate) alarms: Vec<Alarm>,
}

/// Reads a folder whose log is as whole as a crash may leave it.
pub(crate) fn find(disk: &mut (impl Disk + ?Sized)) -> Result<Found, OpenError> {
    let Folder::Log(identity) = inspect(disk)? else { return Err(OpenError::Empty) };
    let replay = replay(disk, &identity)?;
    let mut found =
        Found { identity, replay, shelf: Shelf::open(disk)?, snapshot: None, restart: false, alarms: Vec::new() };
    found.choose_snapshot(disk)?;
    found.check_commit()?;
    if let Some(segment) = found.replay.segments.back()
        && found.replay.torn_bytes > 0
    {
        found.alarms.push(Alarm::TailCut { file: segment_file(segment.sequence), bytes: found.replay.torn_bytes });
    }
    Ok(found)
}

/// Opens a folder for writing.
pub(crate) fn recover(
    disk: &mut (impl Disk + ?Sized),
    config: &RaftConfig,
    mark: Option<&Mark>,
) -> Result<Recovered, OpenError> {
    if let Folder::Log(identity) = inspect(disk)? {
        identity.check(config.cell, config.member, &config.founders)?;
    }
    let found = find(disk)?;
    mark.map_or(Ok(()), |mark| found.check_mark(mark))?;
    let Found { identity, mut replay, shelf, snapshot, restart, alarms } = found;
    let mut wal = Wal::open(disk, &identity, config.segment_bytes, &replay)?;
    let position = snapshot.as_ref().map_or(Position::default(), |snapshot| snapshot.header.position());
    if restart {
        let (last, state) = (replay.last(), replay.state.clone());
        wal.append(disk, last, &state, |batch| {
            batch.restart(position);
            batch.state(&state);
        })?;
        replay.entries.clear();
        replay.base = position;
    }
    while replay.entries.front().is_some_and(|entry| entry.index <= position.index) {
        replay.entries.pop_front();
        replay.base = position;
    }
    let membership = snapshot
        .as_ref()
        .map_or_else(|| Membership::founded(&identity.founders), |found| found.header.membership(&identity.founders));
    if !restart {
        replay.state.commit = committed_alone(&membership, config.member, &replay).max(replay.state.commit);
    }
    let durable = Durable::new(replay.state, membership.conf_state(), replay.base, replay.entries, position);
    Ok(Recovered { durable, wal, shelf, snapshot, membership, alarms })
}

/// How far a lone voter has committed: all of it was synced when the log was opened, and it needs nobody's word. A
/// leader's own entry would say so too, but a full disk does not take one. Up to the change that makes others voters.
fn committed_alone(membership: &Membership, member: u64, replay: &Replay) -> u64 {
    let mut membership = membership.clone();
    let mut committed = 0;
    for entry in &replay.entries {
        if entry.index > replay.state.commit && membership.voters != [member] {
            break;
        }
        membership.replay(entry);
        committed = entry.index;
    }
    committed
}

impl Found {
    /// Takes the newest snapshot that can be read and that the entries go on from.
    fn choose_snapshot(&mut self, disk: &mut (impl Disk + ?Sized)) -> Result<(), OpenError> {
        let mut first_error = None;
        for index in self.shelf.kept().to_vec().into_iter().rev() {
            match snapshots::read(disk, self.identity.cell, index) {
                Ok(snapshot) if index < self.replay.base.index => {
                    drop(snapshot);
                    break;
                }
                Ok(snapshot) => return self.take_snapshot(snapshot),
                Err(OpenError::Damaged { file, offset, reason }) => {
                    self.alarms.push(Alarm::SnapshotDamaged { file: file.clone(), offset });
                    self.shelf.disregard(index);
                    first_error.get_or_insert(OpenError::Damaged { file, offset, reason });
                }
                Err(error) => return Err(error),
            }
        }
        if self.replay.base.index == 0 {
            return Ok(());
        }
        let reason = format!("entries begin after {}, and no snapshot reaches that far", self.replay.base.index);
        let oldest = self.replay.segments.front().map_or(1, |segment| segment.sequence);
        Err(first_error.unwrap_or_else(|| OpenError::damaged(&segment_file(oldest), 0, reason)))
    }

    /// Checks that snapshot and entries fit together. A snapshot from another member may be ahead of the log, or
    /// against it, when a crash came between its file and its mark in the log; one that was made here may not.
    fn take_snapshot(&mut self, snapshot: Snapshot) -> Result<(), OpenError> {
        let position = snapshot.header.position();
        let known = self.replay.term(position.index);
        if known != Some(position.term) {
            if !snapshot.header.received {
                let newest = self.replay.segments.back().map_or(1, |segment| segment.sequence);
                let reason = format!(
                    "the log ends at entry {}, snapshot {} was made from more",
                    self.replay.last().index,
                    snapshot_file(position.index)
                );
                return Err(OpenError::damaged(&segment_file(newest), 0, reason));
            }
            self.restart = true;
        }
        // A snapshot is of committed entries only, whatever the last state that was written says.
        self.replay.state.commit = self.replay.state.commit.max(position.index);
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// The last entry that is there.
    pub(crate) fn last(&self) -> u64 {
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.header.position().index);
        if self.restart { snapshot } else { self.replay.last().index.max(snapshot) }
    }

    /// What was durable and committed stays where it was for ever.
    pub(crate) fn check_mark(&self, mark: &Mark) -> Result<(), OpenError> {
        let (Position { index, term }, last) = (mark.position(), self.last());
        // Of entries that a snapshot stands for, terms need not be known.
        let found = self.replay.term(index).filter(|found| !self.restart && *found > 0 && term > 0);
        let reason = match found {
            _ if is_planted(Bug::TrustShortLog) => return Ok(()),
            _ if index > last => {
                format!("it ends at entry {last}, and {MARK} beside it says that there was entry {index}")
            }
            Some(found) if found != term => {
                format!("entry {index} is of term {found}, and {MARK} beside it says that it was of term {term}")
            }
            _ => return Ok(()),
        };
        Err(OpenError::Short { member: mark.member, reason })
    }

    /// Raft would panic on a commit beyond the end.
    fn check_commit(&self) -> Result<(), OpenError> {
        let (commit, last) = (self.replay.state.commit, self.last());
        if commit > last {
            let newest = self.replay.segments.back().map_or(1, |segment| segment.sequence);
            let reason = format!("entries up to {commit} were committed, the log ends at {last}");
            return Err(OpenError::damaged(&segment_file(newest), 0, reason));
        }
        Ok(())
    }
}
