//! Whose folder this is, and the names of the files in it.

use crate::error::OpenError;
use crate::record::{Batch, COUNT_MAX, FORMAT, Position, SegmentHeader};
use ohm_log::Disk;
use ohm_stdx::codec::{self, DecodeError};
use raft::eraftpb::HardState;
use serde::{Deserialize, Serialize};

pub(crate) const IDENTITY: &str = "log.identity";
const IDENTITY_NEW: &str = "log.identity.new";
/// A snapshot that is being written.
pub(crate) const SNAPSHOT_NEW: &str = "snapshot.new";
/// A snapshot that is coming from another member.
pub(crate) const SNAPSHOT_RECEIVED: &str = "snapshot.received";
const PURPOSE: &str = "ohm log";
/// No identity is longer.
const IDENTITY_BYTES_MAX: usize = 4096;

/// Whose log a folder holds. It is written once, last of all when a log is created, so a log without it is unfinished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    purpose: String,
    /// The cell.
    pub cell: u64,
    /// The member whose log it is.
    pub member: u64,
    /// The voters that the cell was created with, ascending: the same in the folders of all members.
    pub founders: Vec<u64>,
}

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Nothing.
    Empty,
    /// A log whose creation was cut short before anything could be acknowledged: it can be created again.
    Unfinished,
    /// A log.
    Log(Identity),
}

/// Looks at a folder and changes nothing.
pub fn inspect(disk: &mut (impl Disk + ?Sized)) -> Result<Folder, OpenError> {
    let files = disk.list()?;
    if files.iter().any(|file| file.name == IDENTITY) {
        return read(disk).map(Folder::Log);
    }
    let Some(first) = files.first() else { return Ok(Folder::Empty) };
    if let Some(foreign) = files.iter().find(|file| !is_ours(&file.name)) {
        return Err(OpenError::Foreign { file: foreign.name.clone() });
    }
    let mut batch = Batch::default();
    let nothing_yet = first_segment(&mut batch, 0, 0, Position::default()).len() as u64;
    let begun = |name: &str, bytes: u64| name == IDENTITY_NEW || (name == segment_file(1) && bytes <= nothing_yet);
    match files.iter().all(|file| begun(&file.name, file.bytes)) {
        true => Ok(Folder::Unfinished),
        false => Err(OpenError::damaged(IDENTITY, 0, format!("it is missing, though {} is there", first.name))),
    }
}

/// Makes an empty or unfinished folder a log of this identity.
pub(crate) fn create(
    disk: &mut (impl Disk + ?Sized),
    cell: u64,
    member: u64,
    founders: &[u64],
    base: Position,
) -> Result<Identity, OpenError> {
    match inspect(disk)? {
        Folder::Empty => {}
        Folder::Unfinished => {
            for file in disk.list()? {
                disk.remove(&file.name)?;
            }
            disk.sync_folder()?;
        }
        Folder::Log(_) => return Err(OpenError::NotEmpty { file: IDENTITY.into() }),
    }
    let mut batch = Batch::default();
    let segment = segment_file(1);
    disk.append(&segment, first_segment(&mut batch, cell, member, base))?;
    disk.sync(&segment)?;
    disk.sync_folder()?;
    let identity = Identity { purpose: PURPOSE.into(), cell, member, founders: founders.to_vec() };
    let mut bytes = Vec::new();
    codec::encode_frame(FORMAT, &identity, &mut bytes);
    disk.append(IDENTITY_NEW, &bytes)?;
    disk.sync(IDENTITY_NEW)?;
    disk.rename(IDENTITY_NEW, IDENTITY)?;
    disk.sync_folder()?;
    Ok(identity)
}

impl Identity {
    /// Whether the folder is the one that this configuration means.
    pub(crate) fn check(&self, cell: u64, member: u64, founders: &[u64]) -> Result<(), OpenError> {
        let other = |what, found: String, expected: String| Err(OpenError::Identity { what, found, expected });
        if self.cell != cell {
            return other("cell", format!("{:016x}", self.cell), format!("{cell:016x}"));
        }
        if self.member != member {
            return other("member", self.member.to_string(), member.to_string());
        }
        if self.founders != founders {
            return other("founders", format!("{:?}", self.founders), format!("{founders:?}"));
        }
        Ok(())
    }
}

fn read(disk: &mut (impl Disk + ?Sized)) -> Result<Identity, OpenError> {
    let bytes = disk.read(IDENTITY, 0, IDENTITY_BYTES_MAX)?;
    match codec::decode_frame::<Identity>(FORMAT, &bytes) {
        Ok((identity, taken)) if taken == bytes.len() && identity.purpose == PURPOSE => Ok(identity),
        Ok(_) => Err(OpenError::Foreign { file: IDENTITY.into() }),
        Err(DecodeError::Format { found, expected }) => {
            Err(OpenError::Newer { file: IDENTITY.into(), found, known: expected })
        }
        Err(error) => Err(OpenError::damaged(IDENTITY, 0, error.to_string())),
    }
}

/// The bytes of a log without entries.
fn first_segment(batch: &mut Batch, cell: u64, member: u64, base: Position) -> &[u8] {
    batch.begin(0);
    let header = SegmentHeader { cell, member, sequence: 1, base, previous_bytes: 0 };
    batch.segment(&header);
    batch.state(&HardState { term: base.term, commit: base.index, ..HardState::default() });
    batch.finish()
}

fn is_ours(name: &str) -> bool {
    [IDENTITY, IDENTITY_NEW, SNAPSHOT_NEW, SNAPSHOT_RECEIVED].contains(&name)
        || segment_sequence(name).is_some()
        || snapshot_index(name).is_some()
}

/// The name of a segment of the write-ahead log.
pub(crate) fn segment_file(sequence: u64) -> String {
    format!("wal-{sequence:020}.log")
}

/// The sequence in the name of a segment.
pub(crate) fn segment_sequence(name: &str) -> Option<u64> {
    numbered(name, "wal-", ".log")
}

/// The name of a snapshot.
pub(crate) fn snapshot_file(index: u64) -> String {
    format!("snapshot-{index:020}.ohm")
}

/// The index in the name of a snapshot.
pub(crate) fn snapshot_index(name: &str) -> Option<u64> {
    numbered(name, "snapshot-", ".ohm")
}

fn numbered(name: &str, before: &str, after: &str) -> Option<u64> {
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number <= COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_log::MemDisk;
    use ohm_stdx::Prng;

    #[test]
    fn a_folder_is_named_for_what_it_is() {
        let mut disk = MemDisk::new();
        assert_eq!(inspect(&mut disk), Ok(Folder::Empty));
        disk.place("holiday.jpg", b"sun");
        assert_eq!(inspect(&mut disk), Err(OpenError::Foreign { file: "holiday.jpg".into() }));
        assert!(matches!(create(&mut disk, 7, 1, &[1], Position::default()), Err(OpenError::Foreign { .. })));

        let mut disk = MemDisk::new();
        let identity = create(&mut disk, 7, 1, &[1], Position::default()).unwrap();
        assert_eq!(inspect(&mut disk), Ok(Folder::Log(identity.clone())));
        assert_eq!(
            create(&mut disk, 7, 1, &[1], Position::default()),
            Err(OpenError::NotEmpty { file: IDENTITY.into() })
        );
        assert!(matches!(identity.check(8, 1, &[1]), Err(OpenError::Identity { what: "cell", .. })));
        assert!(matches!(identity.check(7, 2, &[1]), Err(OpenError::Identity { what: "member", .. })));
        assert!(matches!(identity.check(7, 1, &[1, 2]), Err(OpenError::Identity { what: "founders", .. })));

        let mut newer = Vec::new();
        codec::encode_frame(FORMAT + 1, &identity, &mut newer);
        disk.place(IDENTITY, &newer);
        assert!(matches!(inspect(&mut disk), Err(OpenError::Newer { found: 0xa2, known: 0xa1, .. })));
        disk.flip_bit(IDENTITY, 90);
        assert!(matches!(inspect(&mut disk), Err(OpenError::Damaged { .. })));
        disk.remove(IDENTITY).unwrap();
        disk.append(&segment_file(1), b"entries").unwrap();
        assert!(matches!(inspect(&mut disk), Err(OpenError::Damaged { .. })));
    }

    #[test]
    fn a_creation_that_was_cut_short_can_be_repeated() {
        let mut whole = MemDisk::new();
        create(&mut whole, 7, 1, &[1], Position::default()).unwrap();
        for (calls, seed) in (0..=whole.calls()).flat_map(|calls| (0..10).map(move |seed| (calls, seed))) {
            let mut disk = MemDisk::new();
            disk.power_off_after(calls);
            let created = create(&mut disk, 7, 1, &[1], Position::default()).is_ok();
            disk.crash(&mut Prng::new(seed));
            match inspect(&mut disk).unwrap() {
                Folder::Log(identity) => identity.check(7, 1, &[1]).unwrap(),
                Folder::Empty | Folder::Unfinished => {
                    assert!(!created, "a created log is gone, crash after {calls} calls, seed {seed}");
                    create(&mut disk, 7, 1, &[1], Position::default()).unwrap();
                }
            }
        }
    }
}
