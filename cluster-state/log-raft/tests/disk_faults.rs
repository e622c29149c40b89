//! Group commit, full disks, and disks that fail.

use crate::world;

use ohm_log::{Alarm, Disk, DiskError, Fault, Log, LogFailure, LogRequest, MemDisk, SubmitError};
use ohm_log_raft::RaftLog;
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::rc::Rc;
use world::{Copy, create, open};

type Shared = Rc<RefCell<MemDisk>>;

fn shared() -> (Shared, Copy<Shared>) {
    let disk = Rc::new(RefCell::new(MemDisk::new()));
    let mut copy = create(Rc::clone(&disk));
    copy.rest().unwrap();
    (disk, copy)
}

#[test]
fn appends_that_are_handed_in_together_share_one_sync() {
    let config = ohm_log_raft::RaftConfig::single(world::CELL, 1);
    let disk = Rc::new(RefCell::new(MemDisk::new()));
    let mut copy = Copy::new(RaftLog::create(Rc::clone(&disk), config, ohm_log_raft::Remarks::none()).unwrap());
    copy.rest().unwrap();
    for batch in [1, 64, 1024] {
        let (syncs, acknowledged) = (disk.borrow().syncs(), copy.acknowledged.len());
        for number in 0..batch {
            copy.append(number).unwrap();
        }
        copy.poll().unwrap();
        assert_eq!(copy.acknowledged.len() - acknowledged, batch as usize);
        assert_eq!(disk.borrow().syncs() - syncs, 1, "a batch of {batch}");
    }
}

#[test]
fn nothing_is_acknowledged_that_a_crash_can_take() {
    let (disk, mut copy) = shared();
    for number in 0..30 {
        copy.append(number).unwrap();
        copy.poll().unwrap();
        let mut worst = disk.borrow().clone();
        worst.crash(&mut Prng::new(number));
        let mut again = open(worst).unwrap();
        again.rest().unwrap();
        assert_eq!(again.list, copy.list);
        assert_eq!(again.list.len(), number as usize + 1);
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_once_there_is_room() {
    let (disk, mut copy) = shared();
    disk.borrow_mut().set_capacity_bytes(Some(2000));
    let mut next = 0;
    while copy.alarms.is_empty() {
        copy.append(next).unwrap();
        copy.poll().unwrap();
        next += 1;
        assert!(next < 100, "the disk never fills");
    }
    assert!(matches!(copy.alarms[..], [Alarm::DiskFull { .. }]));
    let acknowledged = copy.acknowledged.clone();
    copy.append(500).unwrap();
    copy.poll().unwrap();
    assert_eq!(copy.refused, [500], "what cannot be written is refused, not kept waiting");
    for _ in 0..10 {
        copy.now_ms += 200;
        copy.poll().unwrap();
    }
    assert_eq!((copy.alarms.len(), &copy.acknowledged), (1, &acknowledged), "one alarm, and nothing acknowledged");

    // A crash while it is full loses nothing, and everything is there again although it still is.
    let mut crashed = disk.borrow().clone();
    crashed.crash(&mut Prng::new(1));
    for capacity in [Some(2000), None] {
        let mut disk = crashed.clone();
        disk.set_capacity_bytes(capacity);
        let mut again = open(disk).unwrap();
        for _ in 0..10 {
            again.now_ms += 200;
            again.poll().unwrap();
        }
        assert_eq!(again.list, acknowledged, "with room for {capacity:?}");
        assert_readable(&mut again);
    }
    assert_readable(&mut copy);

    disk.borrow_mut().set_capacity_bytes(None);
    copy.now_ms += 200;
    copy.rest().unwrap();
    assert!(matches!(copy.alarms[..], [_, Alarm::DiskRoom]));
    copy.append(501).unwrap();
    copy.rest().unwrap();
    assert_eq!(copy.acknowledged.len(), acknowledged.len() + 2, "the one that waited, and the new one");
    let mut after = disk.borrow().clone();
    after.crash(&mut Prng::new(2));
    let mut again = open(after).unwrap();
    again.rest().unwrap();
    assert_eq!(again.list, copy.list);
}

/// A lone voter answers reads, whether its disk has room or not.
fn assert_readable<D: Disk>(copy: &mut Copy<D>) {
    let token = world::CHANGES + copy.readable.len() as u64;
    copy.log.submit(copy.now_ms, LogRequest::Read { token }).unwrap();
    for _ in 0..2 {
        copy.now_ms += 200;
        copy.poll().unwrap();
    }
    assert_eq!(copy.readable.last(), Some(&(token, copy.applied, copy.applied)));
}

#[test]
fn a_snapshot_that_finds_no_room_fails_alone() {
    let (disk, mut copy) = shared();
    for number in 0..30 {
        copy.append(number).unwrap();
        copy.rest().unwrap();
    }
    let calls = disk.borrow().calls();
    for piece in 0..6 {
        disk.borrow_mut().fail_at(calls + 1 + piece * 4, Fault::Full);
    }
    while copy.snapshots_failed.is_empty() {
        copy.save_snapshot();
        copy.rest().unwrap();
    }
    assert!(copy.saved.is_empty() && disk.borrow().peek("snapshot.new").is_none());
    while copy.saved.is_empty() {
        copy.save_snapshot();
        copy.rest().unwrap();
    }
    copy.append(30).unwrap();
    copy.rest().unwrap();
    assert_eq!(copy.list, (0..=30).collect::<Vec<u64>>());
}

#[test]
fn trim_frees_room_on_a_full_disk() {
    let (disk, mut copy) = shared();
    for number in 0..60 {
        copy.append(number).unwrap();
        copy.rest().unwrap();
    }
    for number in 60..62 {
        copy.save_snapshot();
        copy.rest().unwrap();
        copy.append(number).unwrap();
        copy.rest().unwrap();
    }
    let used: u64 = disk.borrow_mut().list().unwrap().iter().map(|file| file.bytes).sum();
    disk.borrow_mut().set_capacity_bytes(Some(used));
    copy.append(70).unwrap();
    copy.poll().unwrap();
    assert!(matches!(copy.alarms[..], [Alarm::DiskFull { .. }]));
    copy.trim(copy.applied);
    copy.now_ms += 200;
    copy.rest().unwrap();
    assert!(matches!(copy.alarms[..], [_, Alarm::DiskRoom]));
    assert_eq!(copy.list.last(), Some(&70));
}

#[test]
fn a_failed_sync_ends_the_log_for_good() {
    let (disk, mut copy) = shared();
    copy.append(1).unwrap();
    copy.rest().unwrap();
    copy.append(2).unwrap();
    let calls = disk.borrow().calls();
    disk.borrow_mut().fail_at(calls + 2, Fault::Failed);
    let failure = copy.poll().unwrap_err();
    assert!(matches!(failure, LogFailure::Disk(DiskError::Failed { operation: "sync", .. })), "{failure}");
    assert_eq!(copy.acknowledged, [1]);
    let calls = disk.borrow().calls();
    assert!(copy.poll().is_err());
    let append = LogRequest::Append { token: 3, bytes: vec![3].into() };
    assert_eq!(copy.log.submit(0, append), Err(SubmitError::Ended));
    assert_eq!((disk.borrow().calls(), copy.log.wake_ms()), (calls, None), "the disk is not touched any more");
    disk.borrow_mut().crash(&mut Prng::new(3));
    let mut again = open(Rc::clone(&disk)).unwrap();
    again.rest().unwrap();
    assert_eq!(again.list[0], 1);
}

#[test]
fn every_call_may_fail_and_the_next_start_is_right() {
    let base = create(MemDisk::new()).log.into_disk();
    for call in base.calls() + 1..base.calls() + 120 {
        let disk = Rc::new(RefCell::new(base.clone()));
        disk.borrow_mut().fail_at(call, Fault::Failed);
        let mut acknowledged = Vec::new();
        if let Ok(mut copy) = open(Rc::clone(&disk)) {
            for number in 0..20 {
                let failed = copy.append(number).is_err() || copy.rest().is_err();
                if failed {
                    break;
                }
                if number % 6 == 5 {
                    copy.save_snapshot();
                    copy.trim(copy.applied);
                }
            }
            acknowledged = copy.acknowledged;
        }
        disk.borrow_mut().crash(&mut Prng::new(call));
        let mut again = open(Rc::clone(&disk)).unwrap_or_else(|error| panic!("call {call}: {error}"));
        again.rest().unwrap();
        assert!(again.list.starts_with(&acknowledged), "call {call}: {acknowledged:?}, now {:?}", again.list);
    }
}
