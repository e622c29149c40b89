//! Recorded logs of small cells, which every later version must replay to the same state: from their first entry, and
//! from their snapshot. One folder per version of a format; `expected` holds the last index, the running hash and the
//! digest.
//!
//! A folder is added when a format or the apply version changes, and never changed once a version that wrote it is
//! released. `OHM_BLESS=1` writes `expected` of folders that have none.

use ohm_cell::{Applied, Cell, restore};
use ohm_log::{Disk, Log, LogEvent, MemDisk};
use ohm_log_raft::{Archive, RaftConfig, RaftLog, Remarks, open_read_only};
use ohm_model::{Entry, Index};
use std::fs;
use std::path::{Path, PathBuf};

fn folders() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut folders: Vec<PathBuf> = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// The files of a folder as a disk; the folder itself is never written to.
fn disk(folder: &Path, snapshots: bool) -> MemDisk {
    let mut disk = MemDisk::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name != "expected" && (snapshots || !name.starts_with("snapshot-")) {
            disk.place(name, &fs::read(&path).unwrap());
        }
    }
    disk
}

fn apply(cell: &mut Cell, index: Index, bytes: &[u8]) {
    cell.apply(index, &Entry::decode(bytes).unwrap(), &mut Applied::default());
    assert_eq!(cell.invariants(), Vec::<String>::new(), "after entry {index}");
}

fn replay(archive: &Archive) -> Cell {
    let mut cell = match &archive.snapshot {
        Some((_, pieces)) => restore(&pieces.concat()).unwrap(),
        None => Cell::new(),
    };
    archive.entries().for_each(|(index, bytes)| apply(&mut cell, index, bytes));
    cell
}

/// The state that a server would begin with.
fn opened(folder: &Path) -> Cell {
    let mut disk = disk(folder, true);
    let identity = open_read_only(&mut disk).unwrap().identity;
    let config = RaftConfig::group(identity.cell, identity.member, identity.founders);
    let mut log = RaftLog::open(disk, config, Remarks::none()).unwrap();
    let mut cell = Cell::new();
    while log.wake_ms().is_some_and(|wake_ms| wake_ms == 0) {
        let mut events = Vec::new();
        log.poll(0, &mut events).unwrap();
        for event in events {
            match event {
                LogEvent::InstallSnapshot { pieces, .. } => cell = restore(&pieces.concat()).unwrap(),
                LogEvent::Committed { index, bytes, .. } => apply(&mut cell, index, &bytes),
                _ => {}
            }
        }
    }
    cell
}

#[test]
fn recorded_logs_replay_to_the_state_they_had() {
    let folders = folders();
    assert!(folders.len() >= 2);
    for folder in folders {
        let name = folder.display();
        let archive = open_read_only(&mut disk(&folder, true)).unwrap();
        assert!(archive.snapshot.is_some() && archive.entries().count() > 10, "{name}");
        let cell = replay(&archive);
        let said = format!("{} {:016x} {:016x}\n", cell.applied(), cell.chain(), cell.digest());
        let path = folder.join("expected");
        if !path.exists() && std::env::var_os("OHM_BLESS").is_some() {
            fs::write(&path, &said).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), said, "{name}: from its snapshot");
        let from_the_first = replay(&open_read_only(&mut disk(&folder, false)).unwrap());
        assert_eq!(from_the_first.digest(), cell.digest(), "{name}: from its first entry");
        assert_eq!(opened(&folder).digest(), cell.digest(), "{name}: as a server opens it");
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let folder = folders().pop().unwrap();
    let mut disk = disk(&folder, false);
    let wal = disk.list().unwrap().into_iter().find(|file| file.name.starts_with("wal-")).unwrap();
    assert!(disk.flip_bit(&wal.name, wal.bytes * 4));
    assert!(open_read_only(&mut disk).is_err());
}
