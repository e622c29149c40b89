//! What a member of the embedded log finds on its disk: identity, segments and records of the write-ahead log,
//! snapshot files, and the mark beside them.
//!
//! Each part of the input is appended to a file: the low bits of its kind say to which, and with [`FRAMED`] it is the
//! body of a frame whose length and checksum are right, so that what is wrong is inside. Besides that nothing panics: a
//! folder that is refused is left as it was; one that is opened takes an append, and holds it when it is opened again.

use crate::pieces::{pieces, push_piece};
use bytes::Bytes;
use ohm_log::{Disk, Log, LogEvent, LogFailure, LogRequest, MemDisk};
use ohm_log_raft::{MARK, RaftConfig, RaftLog, Remarks, open_read_only};
use ohm_model::Index;
use ohm_stdx::codec;
use std::cell::RefCell;
use std::rc::Rc;

/// The part is the body of a frame.
const FRAMED: u8 = 0x80;
/// The format of most frames, and that of headers of snapshots.
const FORMATS: [u8; 2] = [0xa1, 0xa2];
/// The other one of them.
const OTHER_FORMAT: u8 = 0x40;
/// The founders are three.
const GROUP: u8 = 0x20;
const FILES: [&str; 8] = [
    "wal-00000000000000000001.log",
    "wal-00000000000000000002.log",
    "wal-00000000000000000003.log",
    "snapshot-00000000000000000006.ohm",
    "snapshot-00000000000000000010.ohm",
    IDENTITY,
    MARK,
    "snapshot.received",
];
const IDENTITY: &str = "log.identity";
const CELL: u64 = 7;
const NOW_MS: u64 = 1_000;
const APPENDED: &[u8] = b"appended by the target";

fn config(is_group: bool) -> RaftConfig {
    let founders = if is_group { vec![1, 2, 3] } else { vec![1] };
    RaftConfig { segment_bytes: 640, ..RaftConfig::group(CELL, 1, founders) }
}

pub(crate) fn run(input: &[u8]) {
    let (mut log, mut marks) = (MemDisk::new(), MemDisk::new());
    let config = config(input.first().is_some_and(|kind| kind & GROUP != 0));
    for (kind, bytes) in pieces(input) {
        let file = FILES[usize::from(kind & 7)];
        let disk = if file == MARK { &mut marks } else { &mut log };
        let mut framed = Vec::new();
        if kind & FRAMED != 0 {
            codec::frame(FORMATS[usize::from(kind & OTHER_FORMAT != 0)], bytes, &mut framed);
        }
        disk.append(file, if framed.is_empty() { bytes } else { &framed }).expect("the disk in memory takes it");
    }
    if log.peek(IDENTITY).is_none() {
        log.place(IDENTITY, &identity(&config));
    }
    if let Ok(archive) = open_read_only(&mut log.clone()) {
        assert!(archive.entries().map(|(index, _)| index).is_sorted(), "entries are out of order");
    }
    let before = contents(&mut log);
    let (log, marks) = (shared(log), shared(marks));
    match RaftLog::open_marked(log.clone(), marks.clone(), config.clone(), Remarks::none()) {
        Ok(opened) => assert_works(opened, (log, marks), config),
        Err(error) => assert_eq!(contents(&mut log.borrow_mut()), before, "refused ({error}), and changed"),
    }
}

type Shared = Rc<RefCell<MemDisk>>;

fn shared(disk: MemDisk) -> Shared {
    Rc::new(RefCell::new(disk))
}

fn contents(disk: &mut MemDisk) -> Vec<(String, Vec<u8>)> {
    let files = disk.list().expect("the disk in memory lists");
    files.into_iter().map(|file| (file.name.clone(), disk.peek(&file.name).unwrap_or_default().to_vec())).collect()
}

/// A lone voter takes an append, unless its numbers are at their end, and has it after the next start.
fn assert_works(mut log: RaftLog<Shared>, (disk, marks): (Shared, Shared), config: RaftConfig) {
    let (events, at_start) = polled(&mut log);
    let is_alone = log.members().voters == [config.member];
    let request = LogRequest::Append { token: 1, bytes: Bytes::from_static(APPENDED) };
    let is_taken = log.submit(NOW_MS, request).is_ok();
    let committed = |events: &[LogEvent]| {
        let is_it = |event: &&LogEvent| matches!(event, LogEvent::Committed { bytes, .. } if bytes == APPENDED);
        events.iter().filter(is_it).count()
    };
    let before = committed(&events);
    let (events, later) = polled(&mut log);
    let stopped = [at_start, later].iter().flatten().any(|failure| matches!(failure, LogFailure::CountsEnd { .. }));
    let appended = committed(&events);
    assert!(!is_alone || !is_taken || stopped || appended == 1, "a lone voter takes an append");
    drop(log);
    let mut log = RaftLog::open_marked(disk, marks, config, Remarks::none()).expect("what was opened opens again");
    let again = committed(&polled(&mut log).0);
    let expected = before + appended;
    assert!(!is_alone || stopped || again == expected, "{again} of {expected} entries are there after a restart");
}

/// What a few polls tell, and why the log stopped.
fn polled(log: &mut RaftLog<Shared>) -> (Vec<LogEvent>, Option<LogFailure>) {
    let mut events = Vec::new();
    let failure = (0..20).find_map(|turn| log.poll(NOW_MS + turn, &mut events).err());
    (events, failure)
}

/// The identity of a log that is created.
fn identity(config: &RaftConfig) -> Vec<u8> {
    let disk = shared(MemDisk::new());
    RaftLog::create(disk.clone(), config.clone(), Remarks::none()).expect("an empty folder");
    let disk = disk.borrow();
    disk.peek(IDENTITY).expect("it has one").to_vec()
}

/// Folders as real logs leave them: fresh, with entries in several segments, with a snapshot and a trimmed beginning.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (entries, saved) in [(0, 0), (3, 0), (9, 0), (12, 6), (14, 10)] {
        let (disk, marks) = (shared(MemDisk::new()), shared(MemDisk::new()));
        let config = config(false);
        let mut log = RaftLog::create_marked(disk.clone(), marks.clone(), config, Remarks::none()).expect("it is new");
        for token in 1..=entries {
            polled(&mut log);
            let bytes = Bytes::from(vec![token as u8; 40]);
            log.submit(NOW_MS, LogRequest::Append { token, bytes }).expect("there is room");
            if token == saved {
                polled(&mut log);
                let pieces = vec![Bytes::from_static(b"state"), Bytes::from_static(b"more state")];
                log.submit(NOW_MS, LogRequest::SaveSnapshot { index: Index(saved), pieces }).expect("there is room");
                polled(&mut log);
                log.submit(NOW_MS, LogRequest::Trim { below: Index(saved) }).expect("there is room");
            }
        }
        polled(&mut log);
        log.close().expect("the disk works");
        seeds.extend([true, false].map(|framed| parts(&[&disk, &marks], framed)));
    }
    seeds
}

/// The files of both folders as parts: frame by frame, or as they are.
fn parts(disks: &[&Shared], framed: bool) -> Vec<u8> {
    let mut parts = Vec::new();
    let files = disks.iter().flat_map(|disk| contents(&mut disk.borrow_mut()));
    for (name, bytes) in files {
        let Some(file) = FILES.iter().position(|file| *file == name) else { continue };
        let mut rest = &bytes[..];
        while framed && !rest.is_empty() {
            let other = rest[0] == FORMATS[1];
            let (body, taken) = codec::unframe(rest[0], rest).expect("a log is made of frames");
            push_piece(&mut parts, file as u8 | FRAMED | if other { OTHER_FORMAT } else { 0 }, body);
            rest = &rest[taken..];
        }
        if !rest.is_empty() {
            push_piece(&mut parts, file as u8, rest);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_folders_that_open() {
        for seed in seeds() {
            let mut disk = MemDisk::new();
            for (kind, bytes) in pieces(&seed) {
                let mut framed = Vec::new();
                let format = FORMATS[usize::from(kind & OTHER_FORMAT != 0)];
                if kind & FRAMED == 0 {
                    framed.extend_from_slice(bytes)
                } else {
                    codec::frame(format, bytes, &mut framed)
                }
                if FILES[usize::from(kind & 7)] != MARK {
                    disk.append(FILES[usize::from(kind & 7)], &framed).unwrap();
                }
            }
            open_read_only(&mut disk).unwrap();
        }
    }
}
