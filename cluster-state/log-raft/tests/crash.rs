//! A crash after each single call to the disk, with everything that was not synced lost, kept or torn by seed.

use crate::world;

use ohm_log::{Disk, ENTRY_BYTES_MAX, Log, LogFailure, LogRequest, MemDisk};
use ohm_log_raft::{FileDisk, Folder, OpenError, RaftLog, Remarks, inspect, open_read_only};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::rc::Rc;
use world::{Copy, create, open};

/// What had happened when the power went.
#[derive(Default)]
struct Before {
    applied: Vec<u64>,
    acknowledged: Vec<u64>,
    submitted: Vec<u64>,
    saved: Option<u64>,
}

/// Appends in batches of changing size, with snapshots and trims in between, until the disk fails.
fn work<D: Disk>(mut copy: Copy<D>, first: u64, before: &mut Before) -> (Copy<D>, Result<(), LogFailure>) {
    let mut next = first;
    let mut run = |copy: &mut Copy<D>| {
        copy.rest()?;
        for round in 0..8u64 {
            for _ in 0..=round % 3 {
                copy.append(next).unwrap();
                before.submitted.push(next);
                next += 1;
            }
            copy.poll()?;
            if round % 3 == 2 {
                copy.save_snapshot();
                copy.append(next).unwrap();
                before.submitted.push(next);
                next += 1;
                copy.rest()?;
                copy.trim(copy.applied);
                copy.poll()?;
            }
        }
        Ok(())
    };
    let result = run(&mut copy);
    before.applied = copy.list.clone();
    before.acknowledged.extend(&copy.acknowledged);
    before.saved = copy.saved.last().map(|index| index.0).or(before.saved);
    (copy, result)
}

fn check(copy: &Copy<MemDisk>, before: &Before, label: &str) {
    assert!(copy.list.starts_with(&before.applied), "{label}: applied {:?}, now {:?}", before.applied, copy.list);
    assert!(
        before.acknowledged.iter().all(|number| copy.list.contains(number)),
        "{label}: an acknowledged one is gone"
    );
    assert!(
        before.submitted.starts_with(&copy.list),
        "{label}: {:?} were submitted, {:?} are there",
        before.submitted,
        copy.list
    );
    let installed = copy.installed.first().map(|index| index.0);
    assert!(installed >= before.saved, "{label}: snapshot {:?} was saved, {installed:?} came back", before.saved);
}

/// Opens after a crash, in the middle of which the power may go again.
fn reopen(mut disk: MemDisk, dice: &mut Prng) -> Copy<MemDisk> {
    if dice.chance(500) {
        let mut failing = disk.clone();
        failing.power_off_after(failing.calls() + dice.below(20));
        let shared = Rc::new(RefCell::new(failing));
        match open(Rc::clone(&shared)) {
            Ok(mut copy) => drop(copy.rest()),
            Err(error) => assert!(matches!(error, OpenError::Disk(_)), "{error}"),
        }
        disk = shared.borrow().clone();
        disk.crash(dice);
    }
    open(disk).unwrap()
}

#[test]
fn every_crash_point_restarts_with_all_that_was_acknowledged() {
    let base = create(MemDisk::new());
    let first_call = base.log.into_disk().calls();
    let (whole, result) = work(create(MemDisk::new()), 0, &mut Before::default());
    result.unwrap();
    let last_call = whole.log.into_disk().calls();
    assert!(last_call > first_call + 40, "the work is too small to prove anything");
    let (mut cut_tails, mut kept_more) = (0, 0);
    for (calls, seed) in (first_call..=last_call).flat_map(|calls| (0..12).map(move |seed| (calls, seed))) {
        let label = format!("crash after call {calls}, seed {seed}");
        let mut dice = Prng::new(calls * 1000 + seed);
        let mut disk = create(MemDisk::new()).log.into_disk();
        disk.power_off_after(calls);
        let mut before = Before::default();
        let Ok(copy) = open(std::mem::take(&mut disk)) else { continue };
        let (copy, _) = work(copy, 0, &mut before);
        let mut disk = copy.log.into_disk();
        disk.crash(&mut dice);
        let archive = open_read_only(&mut disk).unwrap_or_else(|error| panic!("{label}: {error}"));
        let mut archived = archive.snapshot.as_ref().map_or(Vec::new(), |(_, pieces)| world::numbers(pieces));
        archived.extend(archive.entries().map(|(_, bytes)| u64::from_le_bytes(bytes[..8].try_into().unwrap())));

        let mut copy = reopen(disk, &mut dice);
        copy.rest().unwrap();
        check(&copy, &before, &label);
        assert!(archived.starts_with(&copy.list), "{label}: the archive shows {archived:?}, the log {:?}", copy.list);
        cut_tails += usize::from(!copy.alarms.is_empty());
        kept_more += usize::from(copy.list.len() > before.applied.len());

        // Goes on working, crashes again at the end, and is still right.
        before.submitted.clone_from(&copy.list);
        copy.acknowledged.clear();
        copy.saved.clear();
        let (copy, result) = work(copy, 1000, &mut before);
        result.unwrap_or_else(|failure| panic!("{label}: {failure}"));
        let mut disk = copy.log.into_disk();
        disk.crash(&mut dice);
        let mut copy = open(disk).unwrap_or_else(|error| panic!("{label}, again: {error}"));
        copy.rest().unwrap();
        check(&copy, &before, &format!("{label}, again"));
    }
    assert!(cut_tails > 20 && kept_more > 20, "{cut_tails} torn tails, {kept_more} unacknowledged writes kept");
}

#[test]
fn what_was_shown_after_a_kill_survives_the_power_cut_that_follows() {
    let whole = work(create(MemDisk::new()), 0, &mut Before::default()).0.log.into_disk().calls();
    for (calls, seed) in (0..=whole).flat_map(|calls| (0..4).map(move |seed| (calls, seed))) {
        let label = format!("kill after call {calls}, power cut with seed {seed}");
        let shared = Rc::new(RefCell::new(MemDisk::new()));
        shared.borrow_mut().power_off_after(calls);
        if let Ok(log) = RaftLog::create(Rc::clone(&shared), world::config(), Remarks::none()) {
            let (copy, _) = work(Copy::new(log), 0, &mut Before::default());
            drop(copy);
        }
        // The process is gone, the machine is not: what was written is still there, synced or not.
        shared.borrow_mut().power_on();
        let folder = inspect(&mut *shared.borrow_mut()).unwrap();
        let mut killed = match folder {
            Folder::Log(_) => open(Rc::clone(&shared)).unwrap_or_else(|error| panic!("{label}: {error}")),
            Folder::Empty | Folder::Unfinished => create(Rc::clone(&shared)),
        };
        killed.rest().unwrap();
        shared.borrow_mut().crash(&mut Prng::new(seed));
        let mut again = open(Rc::clone(&shared)).unwrap_or_else(|error| panic!("{label}: {error}"));
        again.rest().unwrap();
        assert_eq!(again.list, killed.list, "{label}");
    }
}

#[test]
fn of_a_long_batch_a_crash_keeps_a_beginning() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let disk = Rc::new(RefCell::new(MemDisk::new()));
        let mut copy = create(Rc::clone(&disk));
        copy.rest().unwrap();
        for number in 0..10u64 {
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(ENTRY_BYTES_MAX, 0xa1);
            copy.log.submit(0, LogRequest::Append { token: number, bytes: bytes.into() }).unwrap();
        }
        // The power goes between the write and its sync.
        let calls = disk.borrow().calls();
        disk.borrow_mut().power_off_after(calls + 1);
        assert!(copy.poll().is_err() && copy.acknowledged.is_empty());
        disk.borrow_mut().crash(&mut Prng::new(seed));
        let mut again = open(disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        again.rest().unwrap();
        assert_eq!(again.list, (0..again.list.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        lengths.insert(again.list.len());
    }
    assert!(lengths.len() > 2, "{lengths:?}");
}

#[test]
fn a_creation_that_was_cut_short_opens_or_can_be_repeated() {
    let whole = create(MemDisk::new()).log.into_disk().calls();
    for (calls, seed) in (0..=whole).flat_map(|calls| (0..20).map(move |seed| (calls, seed))) {
        let shared = Rc::new(RefCell::new(MemDisk::new()));
        shared.borrow_mut().power_off_after(calls);
        drop(RaftLog::create(Rc::clone(&shared), world::config(), Remarks::none()));
        shared.borrow_mut().crash(&mut Prng::new(seed));
        let folder = inspect(&mut *shared.borrow_mut()).unwrap();
        let mut copy = match folder {
            Folder::Log(_) => open(shared).unwrap_or_else(|error| panic!("call {calls}, seed {seed}: {error}")),
            Folder::Empty | Folder::Unfinished => create(shared),
        };
        copy.append(1).unwrap();
        copy.rest().unwrap();
        assert_eq!(copy.acknowledged, [1]);
    }
}

#[test]
fn a_real_folder_that_loses_its_tail_byte_by_byte_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut copy = create(FileDisk::open(folder.path()).unwrap());
    copy.rest().unwrap();
    for number in 0..5 {
        copy.append(number).unwrap();
        copy.poll().unwrap();
    }
    drop(copy);
    let segment = folder.path().join("wal-00000000000000000001.log");
    let whole = std::fs::read(&segment).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for length in (whole.len() - 120..=whole.len()).rev() {
        let torn = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), torn.path().join(file.file_name())).unwrap();
        }
        std::fs::write(torn.path().join("wal-00000000000000000001.log"), &whole[..length]).unwrap();
        let mut copy = open(FileDisk::open(torn.path()).unwrap()).unwrap();
        copy.rest().unwrap();
        let kept: Vec<u64> = (0..copy.list.len() as u64).collect();
        assert_eq!(copy.list, kept, "cut to {length}");
        lengths.insert(copy.list.len());
        copy.append(77).unwrap();
        copy.rest().unwrap();
        assert_eq!((copy.list.last(), copy.acknowledged.as_slice()), (Some(&77), [77].as_slice()));
    }
    assert!(lengths.contains(&5) && lengths.contains(&4), "{lengths:?}");
}
