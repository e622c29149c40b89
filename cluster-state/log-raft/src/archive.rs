//! Reads a log without opening it: for `ohm log verify` and `ohm log dump`. Nothing on disk changes.

use crate::error::OpenError;
use crate::identity::{Folder, Identity, inspect, snapshot_file};
use crate::recovery::{Found, find};
use crate::snapshots;
use bytes::Bytes;
use ohm_log::{Alarm, Disk};
use ohm_model::Index;

/// A log at rest.
pub struct Archive {
    /// Whose it is.
    pub identity: Identity,
    /// The oldest snapshot that is kept and can be read, with its pieces.
    pub snapshot: Option<(Index, Vec<Bytes>)>,
    /// What the next open would repair or complain about.
    pub alarms: Vec<Alarm>,
    /// The last entry that is known to be committed. A lone voter commits what it has written; one of several learns
    /// of the last commits from its leader only.
    pub committed: Index,
    entries: Vec<(Index, Bytes)>,
}

impl Archive {
    /// The committed entries after the snapshot, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Index, &Bytes)> {
        self.entries.iter().map(|(index, bytes)| (*index, bytes))
    }
}

/// Reads and checks everything that is in the folder.
pub fn open_read_only(disk: &mut (impl Disk + ?Sized)) -> Result<Archive, OpenError> {
    if matches!(inspect(disk)?, Folder::Empty | Folder::Unfinished) {
        return Err(OpenError::Empty);
    }
    let Found { identity, replay, shelf, snapshot: newest, restart, mut alarms } = find(disk)?;
    let mut oldest = newest.map(|snapshot| (snapshot.header.position(), snapshot.pieces));
    for &index in shelf.kept().iter().rev().skip(1) {
        match snapshots::read(disk, identity.cell, index) {
            // One that the entries do not reach back to is of no use, and being replaced.
            Ok(_) if restart || index < replay.base.index => {}
            Ok(snapshot) => oldest = Some((snapshot.header.position(), snapshot.pieces)),
            Err(OpenError::Damaged { offset, .. }) => {
                alarms.push(Alarm::SnapshotDamaged { file: snapshot_file(index), offset });
            }
            Err(error) => return Err(error),
        }
    }
    let committed = match identity.voters.len() {
        1 if !restart => replay.last().index.max(replay.state.commit),
        _ => replay.state.commit,
    };
    let after = oldest.as_ref().map_or(0, |(position, _)| position.index);
    let wanted = |index: u64| index > after && index <= committed && !restart;
    let entries = replay.entries.into_iter().filter(|entry| wanted(entry.index) && !entry.data.is_empty());
    Ok(Archive {
        identity,
        snapshot: oldest.map(|(position, pieces)| (Index(position.index), pieces)),
        alarms,
        committed: Index(committed),
        entries: entries.map(|entry| (Index(entry.index), entry.data)).collect(),
    })
}
