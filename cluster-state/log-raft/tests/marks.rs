//! Marks that follow their log, and logs that end before their mark.

use crate::world;

use ohm_log::{Disk, Log, LogRequest, MemDisk};
use ohm_log_raft::{Mark, OpenError, RaftLog, Remarks, open_read_only};
use ohm_model::Index;
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::rc::Rc;
use world::Copy;

type Shared = Rc<RefCell<MemDisk>>;

fn create(log: &Shared, marks: &Shared) -> Copy<Shared> {
    let created = RaftLog::create_marked(Rc::clone(log), Rc::clone(marks), world::config(), Remarks::none());
    Copy::new(created.unwrap())
}

fn open(log: &Shared, marks: &Shared) -> Result<Copy<Shared>, OpenError> {
    RaftLog::open_marked(Rc::clone(log), Rc::clone(marks), world::config(), Remarks::none()).map(Copy::new)
}

fn marked(marks: &Shared) -> Index {
    Mark::read(&mut *marks.borrow_mut()).unwrap().unwrap().index()
}

fn append(copy: &mut Copy<Shared>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        copy.append(number).unwrap();
        copy.rest().unwrap();
    }
}

#[test]
fn a_mark_follows_seldom_and_at_the_end() {
    let (log, marks) = (Shared::default(), Shared::default());
    let mut copy = create(&log, &marks);
    append(&mut copy, 0..1);
    let (first, calls) = (marked(&marks), marks.borrow().calls());
    assert!(first > Index(0), "the first entries are marked at once");
    append(&mut copy, 1..200);
    copy.now_ms += 9_999;
    append(&mut copy, 200..220);
    assert_eq!((marked(&marks), marks.borrow().calls()), (first, calls + 1), "only this test has read it");
    copy.now_ms += 1;
    append(&mut copy, 220..221);
    let second = marked(&marks);
    assert!(second >= Index(220));
    append(&mut copy, 221..230);
    copy.log.close().unwrap();
    assert_eq!(marked(&marks), copy.applied);
    // A full disk keeps the former mark and ends nothing.
    marks.borrow_mut().set_capacity_bytes(Some(0));
    copy.now_ms += 60_000;
    append(&mut copy, 230..240);
    copy.log.close().unwrap();
    assert!(marked(&marks) < copy.applied);
    drop(copy);
    let mut again = open(&log, &marks).unwrap();
    again.rest().unwrap();
    assert_eq!(again.list, (0..240).collect::<Vec<u64>>());
}

/// A log of some segments with its mark: entries in it, the marked one, the disks.
fn history(seed: u64) -> (MemDisk, Shared) {
    let (log, marks) = (Shared::default(), Shared::default());
    let mut copy = create(&log, &marks);
    append(&mut copy, 0..10 + seed % 20);
    if seed.is_multiple_of(2) {
        copy.save_snapshot();
        copy.poll_until(|copy| !copy.saved.is_empty());
        copy.log.submit(copy.now_ms, LogRequest::Trim { below: copy.applied }).unwrap();
    }
    append(&mut copy, 100..130);
    copy.log.close().unwrap();
    append(&mut copy, 200..200 + seed % 7);
    drop(copy);
    (log.take(), marks)
}

#[test]
fn a_log_that_ends_before_its_mark_is_not_opened_and_any_other_is() {
    let (mut refused, mut opened) = (0, 0);
    for seed in 0..8 {
        let (mut whole, marks) = history(seed);
        let mark = marked(&marks);
        let files = whole.list().unwrap();
        let segments: Vec<_> = files.iter().filter(|file| file.name.starts_with("wal-")).collect();
        for (place, segment) in segments.iter().enumerate() {
            for length in 0..=segment.bytes {
                let mut cut = whole.clone();
                segments[place + 1..].iter().for_each(|file| cut.remove(&file.name).unwrap());
                cut.truncate(&segment.name, length).unwrap();
                let Ok(found) = open_read_only(&mut cut.clone()) else { continue };
                let log = Rc::new(RefCell::new(cut));
                let before = log.borrow_mut().list().unwrap();
                match open(&log, &marks) {
                    Ok(_) => opened += 1,
                    Err(OpenError::Short { member: 1, reason }) => {
                        assert!(found.last < mark && reason.contains(&format!("ends at entry {}", found.last)));
                        assert_eq!(log.borrow_mut().list().unwrap(), before, "nothing is changed");
                        refused += 1;
                        continue;
                    }
                    Err(error) => panic!("seed {seed}, {} cut at {length}: {error}", segment.name),
                }
                assert!(found.last >= mark, "seed {seed}, {} cut at {length}: {} is gone", segment.name, mark);
            }
        }
    }
    assert!(refused > 1_000 && opened > 100, "{refused} refused, {opened} opened");
}

#[test]
fn a_log_with_another_past_is_not_opened() {
    let (log, marks) = (Shared::default(), Shared::default());
    let mut copy = create(&log, &marks);
    append(&mut copy, 0..5);
    drop(copy);
    let fork = log.borrow().clone();
    // Each start is another term: entry 8 of the one life is not that of the other.
    for start in 0..3 {
        let mut copy = open(&log, &marks).unwrap();
        append(&mut copy, 10 * start..10 * start + 3);
        copy.log.close().unwrap();
    }
    let other = Rc::new(RefCell::new(fork));
    let mut copy = Copy::new(RaftLog::open(Rc::clone(&other), world::config(), Remarks::none()).unwrap());
    append(&mut copy, 0..60);
    drop(copy);
    assert!(matches!(open(&other, &marks).err(), Some(OpenError::Short { reason, .. }) if reason.contains("term")));
    open(&log, &marks).unwrap();
}

#[test]
fn no_crash_leaves_a_mark_ahead_of_its_log() {
    let run = |calls: Option<u64>, of_marks: bool, seed: u64| {
        let (log, marks) = (Shared::default(), Shared::default());
        let mut copy = create(&log, &marks);
        let struck = if of_marks { &marks } else { &log };
        if let Some(calls) = calls {
            struck.borrow_mut().power_off_after(calls);
        }
        for number in 0..12 {
            copy.now_ms += 10_000;
            if copy.append(number).is_err() || copy.rest().is_err() {
                break;
            }
            if number == 6 {
                copy.save_snapshot();
            }
        }
        let (done, acknowledged) = (struck.borrow().calls(), copy.acknowledged.clone());
        drop(copy);
        let mut dice = Prng::new(seed);
        [&log, &marks].into_iter().for_each(|disk| disk.borrow_mut().crash(&mut dice));
        let mut again = open(&log, &marks).unwrap_or_else(|error| panic!("{calls:?}, seed {seed}: {error}"));
        again.rest().unwrap();
        assert!(again.list.starts_with(&acknowledged), "{calls:?}, seed {seed}");
        done
    };
    for of_marks in [false, true] {
        let (whole, created) = (run(None, of_marks, 1), 20);
        assert!(whole > created);
        for calls in created..whole {
            for seed in 0..6 {
                run(Some(calls), of_marks, seed);
            }
        }
    }
}
