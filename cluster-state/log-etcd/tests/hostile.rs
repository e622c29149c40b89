//! The contract of the log over an etcd in memory that loses answers, breaks watches, leaves events out, compacts and
//! forgets leases; and what becomes of it all when it is restored from a backup.

use crate::current;
use crate::fake;

use current::{Clock, Current};
use fake::{FakeLine, Faults, World};
use ohm_log::contract::{self, Engine};
use ohm_log::{Bytes, Log, LogEvent, LogFailure, LogRequest};
use ohm_log_etcd::core::identity::{Identity, IdentityError, Next};
use ohm_log_etcd::{EtcdConfig, EtcdLog, Note};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::rc::Rc;

const PREFIX: &str = "/ohm";

type Kept = Rc<RefCell<Option<Note>>>;

/// Servers over one etcd: the one under test, and another beside it.
struct Servers {
    world: Rc<RefCell<World>>,
    notes: [Kept; 2],
    starts: u64,
}

impl Servers {
    fn new(seed: u64, faults: Faults) -> Self {
        Servers { world: World::new(seed, faults), notes: Default::default(), starts: 0 }
    }

    fn identify(&mut self, which: usize) -> Result<Note, IdentityError> {
        self.starts += 1;
        let note = self.notes[which].borrow().clone();
        let (mut identity, mut next) = Identity::new(PREFIX, note, [77, 1000 + self.starts], 5);
        loop {
            match next {
                Next::Known(note) => return Ok(note),
                Next::Ask(request) => {
                    let answer = self.world.borrow_mut().store.ask(0, request).unwrap();
                    next = identity.answer(&answer)?;
                }
            }
        }
    }

    fn open(&mut self, which: usize) -> EtcdLog<FakeLine> {
        let note = self.identify(which).unwrap();
        *self.notes[which].borrow_mut() = Some(note.clone());
        let line = FakeLine::open(&self.world, &self.notes[which]);
        let config = EtcdConfig::new(PREFIX, note, "http://here", self.starts);
        EtcdLog::new(EtcdConfig { session_ms: 2_000, give_up_ms: 1_500, ..config }, line)
    }
}

/// Virtual time, the same for all servers.
struct VirtualTime(Rc<RefCell<World>>);

impl Clock for VirtualTime {
    fn now_ms(&self) -> u64 {
        self.0.borrow().now_ms()
    }

    fn pass(&mut self) {
        let now_ms = self.now_ms();
        self.0.borrow_mut().settle(now_ms + 5);
    }
}

impl Engine for Servers {
    type Log = Current<EtcdLog<FakeLine>, VirtualTime>;

    fn start(&mut self) -> Self::Log {
        Current::new(self.open(0), VirtualTime(Rc::clone(&self.world)))
    }

    fn stop(&mut self, log: Self::Log) {
        drop(log);
    }

    fn start_another(&mut self) -> Option<Self::Log> {
        Some(Current::new(self.open(1), VirtualTime(Rc::clone(&self.world))))
    }
}

fn seeds() -> u64 {
    std::env::var("OHM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn a_calm_etcd_keeps_the_contract() {
    contract::check(0..3, |seed| Servers::new(seed, Faults::default()));
}

#[test]
fn a_hostile_etcd_keeps_the_contract() {
    contract::check(0..seeds(), |seed| Servers::new(seed, Faults::drawn(&mut Prng::new(seed))));
}

/// Polls until nothing comes any more; what came.
fn settle(log: &mut EtcdLog<FakeLine>, now_ms: &mut u64) -> Result<Vec<LogEvent>, LogFailure> {
    let (mut events, mut idle) = (Vec::new(), 0);
    while idle < 50 {
        let before = events.len();
        *now_ms += 5;
        log.poll(*now_ms, &mut events)?;
        idle = if events.len() > before { 0 } else { idle + 1 };
    }
    Ok(events)
}

fn append(log: &mut EtcdLog<FakeLine>, now_ms: &mut u64, count: u64) {
    for token in 0..count {
        let bytes = Bytes::from(format!("{token} at {now_ms}"));
        log.submit(*now_ms, LogRequest::Append { token: *now_ms * 1000 + token, bytes }).unwrap();
    }
    settle(log, now_ms).unwrap();
}

fn save(log: &mut EtcdLog<FakeLine>, now_ms: &mut u64) {
    let index = ohm_model::Index(log.core().note().last.unwrap().0);
    let pieces = vec![Bytes::from(vec![3; 3 << 20]), Bytes::from_static(b"end")];
    log.submit(*now_ms, LogRequest::SaveSnapshot { index, pieces }).unwrap();
    let events = settle(log, now_ms).unwrap();
    assert!(events.contains(&LogEvent::SnapshotSaved { index }), "{events:?}");
    log.submit(*now_ms, LogRequest::Trim { below: ohm_model::Index(u64::MAX) }).unwrap();
    settle(log, now_ms).unwrap();
}

#[test]
fn what_is_trimmed_is_gone_and_one_snapshot_stays() {
    let mut servers = Servers::new(1, Faults::default());
    let (mut log, mut now_ms) = (servers.open(0), 0);
    append(&mut log, &mut now_ms, 50);
    save(&mut log, &mut now_ms);
    append(&mut log, &mut now_ms, 20);
    save(&mut log, &mut now_ms);
    let count = |prefix: &str| servers.world.borrow().store.count(prefix);
    assert_eq!(count("/ohm/log/entry/"), 20, "what the snapshot before the newest covers is deleted");
    assert_eq!(count("/ohm/snapshot/"), 4, "3 MiB and a little are four chunks, and the former ones are gone");
    assert_eq!(count("/ohm/saving"), 0);
}

#[test]
fn a_restored_etcd_is_noticed_and_counted_once() {
    let mut servers = Servers::new(1, Faults::default());
    let (mut one, mut now_ms) = (servers.open(0), 0);
    let mut other = servers.open(1);
    append(&mut one, &mut now_ms, 10);
    settle(&mut other, &mut now_ms).unwrap();
    let backup = servers.world.borrow().store.revision();
    append(&mut one, &mut now_ms, 10);
    settle(&mut other, &mut now_ms).unwrap();
    for (which, log) in [&one, &other].into_iter().enumerate() {
        *servers.notes[which].borrow_mut() = Some(log.core().note());
    }
    servers.world.borrow_mut().store.restore(backup);
    // A server that goes on is told by its own append, which gets an index that it had seen before.
    one.submit(now_ms, LogRequest::Append { token: 1, bytes: Bytes::from_static(b"new") }).unwrap();
    assert!(matches!(settle(&mut one, &mut now_ms), Err(LogFailure::Engine(_))));
    drop((one, other));
    let (first, second) = (servers.identify(0).unwrap(), servers.identify(1).unwrap());
    assert!(first.cell.incarnation > 1 && first.last.is_none());
    assert_eq!(first.cell, second.cell, "it is counted once");
}

#[test]
fn a_folder_of_another_cell_is_refused() {
    let mut servers = Servers::new(1, Faults::default());
    let note = servers.identify(0).unwrap();
    let mut cell = note.cell;
    cell.cell += 1;
    *servers.notes[0].borrow_mut() = Some(Note { cell, ..note.clone() });
    assert!(matches!(servers.identify(0), Err(IdentityError::OtherCell { .. })));
    let mut empty = Servers::new(1, Faults::default());
    *empty.notes[0].borrow_mut() = Some(note);
    assert!(matches!(empty.identify(0), Err(IdentityError::NoCell(_))));
}

#[test]
fn numbers_are_kept_by_the_folder_and_never_given_twice() {
    let mut servers = Servers::new(1, Faults::default());
    let first = servers.identify(0).unwrap();
    *servers.notes[0].borrow_mut() = Some(first.clone());
    let second = servers.identify(1).unwrap();
    assert_eq!((first.server, second.server), (1, 2));
    assert_eq!(servers.identify(0).unwrap().server, 1);
    *servers.notes[0].borrow_mut() = None;
    assert_eq!(servers.identify(0).unwrap().server, 3, "a folder that is gone is another server");
}
