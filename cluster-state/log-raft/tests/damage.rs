//! Damage, gaps and strange folders: the open says which file is wrong, and leaves all of them as they were.

use crate::world;

use ohm_log::{Alarm, Disk, MemDisk};
use ohm_log_raft::{OpenError, RaftConfig, RaftLog, Remarks, open_read_only};
use ohm_model::Index;
use std::cell::RefCell;
use std::rc::Rc;
use world::{disk_with, open};

fn files(disk: &mut MemDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().unwrap();
    names.into_iter().map(|file| (file.name.clone(), disk.peek(&file.name).unwrap().to_vec())).collect()
}

/// Opens `disk`, which must fail without a change to any file.
fn refused(disk: MemDisk) -> OpenError {
    let shared = Rc::new(RefCell::new(disk));
    let before = files(&mut shared.borrow_mut());
    let error = open(Rc::clone(&shared)).err().expect("the open must fail");
    assert_eq!(files(&mut shared.borrow_mut()), before, "{error}");
    assert!(open_read_only(&mut *shared.borrow_mut()).is_err(), "{error}");
    error
}

fn names(disk: &mut MemDisk, start: &str) -> Vec<String> {
    disk.list().unwrap().into_iter().map(|file| file.name).filter(|name| name.starts_with(start)).collect()
}

/// Where each frame of a segment begins.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    while let Ok((_, taken)) = ohm_stdx::codec::unframe(0xa1, &bytes[*starts.last().unwrap()..]) {
        starts.push(starts.last().unwrap() + taken);
    }
    starts.pop();
    starts
}

#[test]
fn a_flipped_bit_before_the_last_write_is_found_wherever_it_is() {
    let mut whole = disk_with(40, false);
    let segments = names(&mut whole, "wal-");
    assert!(segments.len() > 3);
    for (place, segment) in segments.iter().enumerate() {
        let newest = place + 1 == segments.len();
        let bytes = whole.peek(segment).unwrap();
        let last_frame = *frames(bytes).last().unwrap();
        let durable = if newest { last_frame } else { bytes.len() };
        for byte in 0..durable {
            let mut disk = whole.clone();
            assert!(disk.flip_bit(segment, byte as u64 * 8 + byte as u64 % 8));
            match refused(disk) {
                OpenError::Damaged { file, offset, .. } => {
                    assert_eq!(&file, segment, "byte {byte}");
                    assert!(
                        offset as usize <= byte && byte - (offset as usize) < 200,
                        "byte {byte}, found at {offset}"
                    );
                }
                other => panic!("{segment}, byte {byte}: {other}"),
            }
        }
    }
}

#[test]
fn damage_in_the_last_write_is_a_torn_tail() {
    let mut whole = disk_with(40, false);
    let newest = names(&mut whole, "wal-").pop().unwrap();
    let bytes = whole.peek(&newest).unwrap().to_vec();
    let last_frame = *frames(&bytes).last().unwrap();
    for byte in last_frame..bytes.len() {
        let mut disk = whole.clone();
        disk.flip_bit(&newest, byte as u64 * 8);
        let mut copy = open(disk).unwrap();
        copy.rest().unwrap();
        let cut = Alarm::TailCut { file: newest.clone(), bytes: (bytes.len() - last_frame) as u64 };
        assert_eq!(copy.alarms, [cut]);
        assert_eq!(copy.list, (0..39).collect::<Vec<u64>>());
    }
}

#[test]
fn a_missing_or_shortened_segment_is_found() {
    let mut whole = disk_with(40, false);
    let segments = names(&mut whole, "wal-");
    for segment in &segments[..segments.len() - 1] {
        let mut disk = whole.clone();
        disk.remove(segment).unwrap();
        assert!(matches!(refused(disk), OpenError::Damaged { .. }), "{segment} is missing");
        let mut disk = whole.clone();
        let bytes = disk.peek(segment).unwrap();
        let last_frame = *frames(bytes).last().unwrap() as u64;
        disk.truncate(segment, last_frame).unwrap();
        assert!(matches!(refused(disk), OpenError::Damaged { .. }), "{segment} has lost its last frame");
    }
    for segment in &segments {
        whole.remove(segment).unwrap();
    }
    assert!(matches!(refused(whole), OpenError::Damaged { .. }));
}

#[test]
fn a_segment_of_another_member_is_found() {
    let mut whole = disk_with(40, false);
    let config = RaftConfig { member: 2, founders: vec![2], ..world::config() };
    let other = RaftLog::create(MemDisk::new(), config, Remarks::none()).unwrap().into_disk();
    let segments = names(&mut whole, "wal-");
    whole.place(&segments[0], other.peek("wal-00000000000000000001.log").unwrap());
    assert!(matches!(refused(whole), OpenError::Damaged { file, .. } if file == segments[0]));
}

#[test]
fn strange_folders_are_left_alone() {
    assert_eq!(refused(MemDisk::new()), OpenError::Empty);
    let mut foreign = MemDisk::new();
    foreign.place("database.db", b"not ours");
    assert_eq!(refused(foreign), OpenError::Foreign { file: "database.db".into() });
    let mut lost = disk_with(40, false);
    lost.remove("log.identity").unwrap();
    assert!(matches!(refused(lost), OpenError::Damaged { file, .. } if file == "log.identity"));
    let mut newer = disk_with(40, false);
    let segment = names(&mut newer, "wal-").pop().unwrap();
    let mut bytes = newer.peek(&segment).unwrap().to_vec();
    ohm_stdx::codec::frame(0xa2, b"from the future", &mut bytes);
    newer.place(&segment, &bytes);
    assert_eq!(refused(newer), OpenError::Newer { file: segment, found: 0xa2, known: 0xa1 });
    let other = RaftConfig { cell: 1, ..world::config() };
    let error = RaftLog::open(disk_with(3, false), other, Remarks::none()).err().unwrap();
    assert!(matches!(error, OpenError::Identity { what: "cell", .. }), "{error}");
    let error = RaftLog::create(disk_with(3, false), world::config(), Remarks::none()).err().unwrap();
    assert!(matches!(error, OpenError::NotEmpty { .. }), "{error}");
}

#[test]
fn a_damaged_snapshot_gives_way_to_the_one_before() {
    let mut whole = disk_with(65, true);
    let snapshots = names(&mut whole, "snapshot-");
    assert_eq!(snapshots.len(), 2);
    let length = whole.peek(&snapshots[1]).unwrap().len() as u64;
    for byte in (0..length).step_by(7) {
        let mut disk = whole.clone();
        disk.flip_bit(&snapshots[1], byte * 8);
        let archive = open_read_only(&mut disk).unwrap();
        assert!(matches!(&archive.alarms[..], [Alarm::SnapshotDamaged { file, .. }] if *file == snapshots[1]));
        let mut copy = open(disk).unwrap();
        copy.rest().unwrap();
        assert!(matches!(&copy.alarms[..], [Alarm::SnapshotDamaged { file, .. }] if *file == snapshots[1]));
        assert_eq!(copy.list, (0..65).collect::<Vec<u64>>(), "byte {byte}");
        assert_eq!(copy.installed.len(), 1);
    }
    for snapshot in &snapshots {
        whole.flip_bit(snapshot, 8 * 50);
    }
    assert!(matches!(refused(whole), OpenError::Damaged { file, .. } if file == snapshots[1]));
}

#[test]
fn a_log_without_the_entries_that_its_snapshot_was_made_from_is_found() {
    let mut disk = disk_with(61, true);
    let segments = names(&mut disk, "wal-");
    for newer in &segments[1..] {
        disk.remove(newer).unwrap();
    }
    let fewer = refused(disk);
    assert!(matches!(&fewer, OpenError::Damaged { .. }), "{fewer}");
    assert!(fewer.to_string().contains("the log ends at"), "{fewer}");
}

#[test]
fn the_archive_shows_the_oldest_snapshot_and_all_after_it_and_changes_nothing() {
    let mut disk = disk_with(65, true);
    let before = files(&mut disk);
    let archive = open_read_only(&mut disk).unwrap();
    let (index, pieces) = archive.snapshot.clone().unwrap();
    assert_eq!(world::numbers(&pieces), (0..40).collect::<Vec<u64>>());
    let entries: Vec<(Index, u64)> =
        archive.entries().map(|(index, bytes)| (index, u64::from_le_bytes(bytes[..8].try_into().unwrap()))).collect();
    assert_eq!(entries.iter().map(|(_, number)| *number).collect::<Vec<_>>(), (40..65).collect::<Vec<u64>>());
    assert!(entries[0].0 > index && entries.is_sorted());
    assert_eq!(archive.committed, entries[24].0);
    assert_eq!((archive.identity.cell, archive.alarms.len()), (world::CELL, 0));
    assert_eq!(files(&mut disk), before);
}
