//! An etcd in memory that is as unkind as a real one may be: answers are lost before or after the deed, deeds come late,
//! watches break, arrive in pieces, leave events out, history is compacted under the reader, leases run out.

mod store;

use ohm_log_etcd::core::call::{CallError, CallId, Command, Heard, Request, WatchEvent};
use ohm_log_etcd::{Line, Note};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
pub(crate) use store::Store;

/// How unkind it is, in permille.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) delay_ms_max: u64,
    pub(crate) lost: u64,
    pub(crate) watch_broken: u64,
    pub(crate) event_missed: u64,
    pub(crate) compacted: u64,
    pub(crate) lease_lost: u64,
}

impl Faults {
    pub(crate) fn drawn(dice: &mut Prng) -> Self {
        let mut sometimes = |most: u64| if dice.chance(500) { dice.below(most + 1) } else { 0 };
        Faults {
            delay_ms_max: sometimes(60),
            lost: sometimes(200),
            watch_broken: sometimes(60),
            event_missed: sometimes(20),
            compacted: sometimes(30),
            lease_lost: sometimes(3),
        }
    }
}

/// What all lines share.
pub(crate) struct World {
    pub(crate) store: Store,
    faults: Faults,
    dice: Prng,
    now_ms: u64,
    lines: BTreeMap<u64, Ends>,
    /// By the time they are due, then in the order they came.
    due: BTreeMap<(u64, u64), Due>,
    next: u64,
}

/// What a line has open.
#[derive(Default)]
struct Ends {
    heard: VecDeque<Heard>,
    watches: BTreeMap<u64, Watch>,
}

struct Watch {
    prefix: String,
    next: u64,
    deletions: bool,
}

enum Due {
    /// Do it, and answer unless the answer is lost.
    Do {
        line: u64,
        call: CallId,
        request: Request,
        is_answered: bool,
    },
    Lost {
        line: u64,
        call: CallId,
    },
}

pub(crate) struct FakeLine {
    world: Rc<RefCell<World>>,
    line: u64,
    note: Rc<RefCell<Option<Note>>>,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(World {
            store: Store::default(),
            faults,
            dice: Prng::new(seed),
            now_ms: 0,
            lines: BTreeMap::new(),
            due: BTreeMap::new(),
            next: 0,
        }))
    }

    fn send(&mut self, line: u64, command: Command) {
        match command {
            Command::Call(call, request) => {
                let delay_ms = self.dice.below(self.faults.delay_ms_max + 1);
                let is_lost = self.dice.chance(self.faults.lost);
                if !is_lost || self.dice.chance(500) {
                    let done = Due::Do { line, call, request, is_answered: !is_lost };
                    // What was given up may still be done much later.
                    let late_ms = if is_lost { self.dice.below(200) } else { 0 };
                    self.schedule(delay_ms + late_ms, done);
                }
                if is_lost {
                    self.schedule(delay_ms, Due::Lost { line, call });
                }
            }
            Command::Watch { watch, prefix, from, deletions } => {
                if let Some(ends) = self.lines.get_mut(&line) {
                    ends.watches.insert(watch, Watch { prefix, next: from, deletions });
                }
            }
            Command::Unwatch(watch) => {
                if let Some(ends) = self.lines.get_mut(&line) {
                    ends.watches.remove(&watch);
                }
            }
        }
    }

    fn schedule(&mut self, delay_ms: u64, due: Due) {
        self.next += 1;
        self.due.insert((self.now_ms + delay_ms, self.next), due);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Lets time pass.
    pub(crate) fn settle(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some(first) = self.due.first_entry()
            && first.key().0 <= self.now_ms
        {
            match first.remove() {
                Due::Do { line, call, request, is_answered } => {
                    let answer = self.store.ask(self.now_ms, request);
                    if is_answered {
                        self.tell(line, Heard::Answer(call, answer));
                    }
                }
                Due::Lost { line, call } => {
                    self.tell(line, Heard::Answer(call, Err(CallError::Lost("lost by the test".into()))));
                }
            }
        }
        if self.dice.chance(self.faults.lease_lost) {
            self.store.forget_a_lease(self.dice.u64());
        }
        self.store.expire(self.now_ms);
        if self.dice.chance(self.faults.compacted) {
            self.store.compact_all();
        }
    }

    fn tell(&mut self, line: u64, heard: Heard) {
        if let Some(ends) = self.lines.get_mut(&line) {
            ends.heard.push_back(heard);
        }
    }

    /// Some of what the watches of a line should see: a piece of it, or its end.
    fn look(&mut self, line: u64) -> Option<Heard> {
        let World { store, faults, dice, lines, .. } = self;
        let ends = lines.get_mut(&line)?;
        let numbers: Vec<u64> = ends.watches.keys().copied().collect();
        for watch in numbers {
            let Some(open) = ends.watches.get_mut(&watch) else { continue };
            let compacted = open.next <= store.compacted();
            if compacted || dice.chance(faults.watch_broken) {
                ends.watches.remove(&watch);
                return Some(Heard::WatchEnded { watch, compacted, reason: "broken by the test".into() });
            }
            let (mut events, next) = store.events(&open.prefix, open.next, open.deletions, 1 + dice.below(7) as usize);
            open.next = next;
            if !events.is_empty() && dice.chance(faults.event_missed) {
                leave_out(&mut events, dice);
            }
            if events.is_empty() {
                continue;
            }
            // Cut anywhere, also between what happened at once.
            let rest = events.split_off(dice.below(events.len() as u64 + 1) as usize);
            for part in [events, rest] {
                ends.heard.push_back(Heard::Watched(watch, part));
            }
            return ends.heard.pop_front();
        }
        None
    }
}

/// Leaves out one event, if a later entry can show it: nobody misses the last one before there is another.
fn leave_out(events: &mut Vec<WatchEvent>, dice: &mut Prng) {
    let at = dice.below(events.len() as u64) as usize;
    let revision = |event: &WatchEvent| match event {
        WatchEvent::Put(pair) => pair.modified,
        WatchEvent::Deleted { modified, .. } => *modified,
    };
    let is_head = |event: &WatchEvent| matches!(event, WatchEvent::Put(pair) if pair.key.ends_with("/log/head"));
    let missed = revision(&events[at]);
    if events.iter().any(|event| is_head(event) && revision(event) > missed) {
        events.remove(at);
    }
}

impl FakeLine {
    pub(crate) fn open(world: &Rc<RefCell<World>>, note: &Rc<RefCell<Option<Note>>>) -> Self {
        let mut inner = world.borrow_mut();
        inner.next += 1;
        let line = inner.next;
        inner.lines.insert(line, Ends::default());
        FakeLine { world: Rc::clone(world), line, note: Rc::clone(note) }
    }
}

impl Drop for FakeLine {
    fn drop(&mut self) {
        self.world.borrow_mut().lines.remove(&self.line);
    }
}

impl Line for FakeLine {
    fn send(&mut self, now_ms: u64, command: Command) {
        let mut world = self.world.borrow_mut();
        world.now_ms = world.now_ms.max(now_ms);
        world.send(self.line, command);
    }

    fn receive(&mut self, now_ms: u64, watches: bool) -> Option<Heard> {
        let mut world = self.world.borrow_mut();
        world.settle(now_ms);
        let heard = world.lines.get_mut(&self.line).and_then(|ends| ends.heard.pop_front());
        heard.or_else(|| if watches { world.look(self.line) } else { None })
    }

    fn keep(&mut self, _now_ms: u64, note: &dyn Fn() -> Note) {
        let mut world = self.world.borrow_mut();
        if world.dice.chance(100) {
            *self.note.borrow_mut() = Some(note());
        }
    }
}
