//! Reads a log without opening it: for `ohm log verify` and `ohm log dump`. Nothing on disk changes.

use crate::error::OpenError;
use crate::identity::{Folder, Identity, inspect, snapshot_file};
use crate::mark::Mark;
use crate::members::Membership;
use crate::recovery::{Found, find};
use crate::snapshots;
use bytes::Bytes;
use ohm_log::{Alarm, Disk, Members};
use ohm_model::Index;
use raft::eraftpb::{Entry, EntryType};

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
    /// The last entry that is there, raft's own included.
    pub last: Index,
    /// Who belongs to the group, as far as it is known to be committed.
    pub members: Members,
    entries: Vec<(Index, Bytes)>,
    uncommitted: Vec<(Index, Bytes)>,
}

/// Whether somebody appended it: changes of members are raft's own matter.
fn is_appended(entry: &Entry) -> bool {
    entry.get_entry_type() == EntryType::EntryNormal
}

impl Archive {
    /// The committed entries after the snapshot, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Index, &Bytes)> {
        self.entries.iter().map(|(index, bytes)| (*index, bytes))
    }

    /// What is written here after that, and may or may not have been committed: a majority would know. Whoever starts a
    /// new cell from what a lost majority has left takes these too, for one of them may have been acknowledged.
    pub fn uncommitted(&self) -> impl Iterator<Item = (Index, &Bytes)> {
        self.uncommitted.iter().map(|(index, bytes)| (*index, bytes))
    }
}

/// Reads and checks everything that is in the folder, and looks at the mark beside it. With the log comes why a server
/// would not open it, if the mark forbids that: it lacks what was durable, or is another's.
pub fn open_marked_read_only(
    disk: &mut (impl Disk + ?Sized),
    marks: &mut (impl Disk + ?Sized),
) -> Result<(Archive, Option<OpenError>), OpenError> {
    // The mark first: the log of a server that runs only grows.
    let mark = Mark::read(marks);
    if let (Folder::Empty | Folder::Unfinished, Ok(Some(mark))) = (inspect(disk)?, &mark)
        && mark.forbids()
    {
        return Err(mark.gone());
    }
    let archive = open_read_only(disk)?;
    let judge = |mark: Mark| {
        mark.check(archive.identity.cell, archive.identity.member)?;
        find(disk)?.check_mark(&mark)
    };
    let forbidden = mark.and_then(|mark| mark.map_or(Ok(()), judge)).err();
    Ok((archive, forbidden))
}

/// Reads and checks everything that is in the folder, whatever stands beside it.
pub fn open_read_only(disk: &mut (impl Disk + ?Sized)) -> Result<Archive, OpenError> {
    if matches!(inspect(disk)?, Folder::Empty | Folder::Unfinished) {
        return Err(OpenError::Empty);
    }
    let found = find(disk)?;
    let last = Index(found.last());
    let Found { identity, replay, shelf, snapshot: newest, restart, mut alarms } = found;
    let mut membership = newest
        .as_ref()
        .map_or_else(|| Membership::founded(&identity.founders), |found| found.header.membership(&identity.founders));
    let from = newest.as_ref().map_or(0, |found| found.header.position().index);
    let mut oldest = newest;
    for &index in shelf.kept().iter().rev().skip(1) {
        match snapshots::read(disk, identity.cell, index) {
            // One that the entries do not reach back to is of no use, and being replaced.
            Ok(_) if restart || index < replay.base.index => {}
            Ok(snapshot) => oldest = Some(snapshot),
            Err(OpenError::Damaged { offset, .. }) => {
                alarms.push(Alarm::SnapshotDamaged { file: snapshot_file(index), offset });
            }
            Err(error) => return Err(error),
        }
    }
    for entry in replay.entries.iter().filter(|entry| entry.index > from && entry.index <= replay.state.commit) {
        membership.replay(entry);
    }
    let committed = match membership.voters.len() {
        1 if !restart => replay.last().index.max(replay.state.commit),
        _ => replay.state.commit,
    };
    let after = oldest.as_ref().map_or(0, |snapshot| snapshot.header.position().index);
    let wanted = |entry: &Entry| entry.index > after && !entry.data.is_empty() && !restart;
    let entries = replay.entries.into_iter().filter(|entry| wanted(entry) && is_appended(entry));
    let (entries, uncommitted): (Vec<Entry>, Vec<Entry>) = entries.partition(|entry| entry.index <= committed);
    Ok(Archive {
        identity,
        snapshot: oldest.map(|snapshot| (snapshot.header.applied(), snapshot.pieces)),
        alarms,
        committed: Index(committed),
        last,
        members: membership.members(),
        entries: entries.into_iter().map(|entry| (Index(entry.index), entry.data)).collect(),
        uncommitted: uncommitted.into_iter().map(|entry| (Index(entry.index), entry.data)).collect(),
    })
}
