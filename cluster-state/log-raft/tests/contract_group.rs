//! The contract of the log, kept by a member of a group of three: the others go on while it crashes and comes back.

use crate::world;

use ohm_log::contract::{self, Engine};
use ohm_log::{DeliverError, Delivery, Log, LogEvent, LogFailure, LogRequest, MemDisk, SubmitError};
use ohm_log_raft::{Folder, RaftConfig, RaftLog, Remarks, inspect};
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const VOTERS: [u64; 3] = [1, 2, 3];
/// Virtual time that passes in one poll of whichever member.
const POLL_MS: u64 = 10;

/// The three of them. Their own time goes on with each poll of one that is looked at.
struct Group {
    now_ms: u64,
    running: BTreeMap<u64, RaftLog<MemDisk>>,
    disks: BTreeMap<u64, MemDisk>,
    /// What was yielded by members that nobody polled yet.
    events: BTreeMap<u64, Vec<LogEvent>>,
    dice: Prng,
}

impl Group {
    fn start(&mut self, member: u64) {
        let mut disk = self.disks.remove(&member).unwrap_or_default();
        let found = inspect(&mut disk).unwrap();
        let group = RaftConfig::group(world::CELL, member, VOTERS.to_vec());
        let config = RaftConfig { segment_bytes: 4000, batch_bytes: 1000, seed: self.dice.u64(), ..group };
        let log = match found {
            Folder::Log(_) => RaftLog::open(disk, config, Remarks::none()).unwrap(),
            Folder::Empty | Folder::Unfinished => RaftLog::create(disk, config, Remarks::none()).unwrap(),
        };
        self.running.insert(member, log);
        self.events.insert(member, Vec::new());
    }

    fn stop(&mut self, member: u64) {
        let mut disk = self.running.remove(&member).unwrap().into_disk();
        disk.crash(&mut self.dice);
        self.disks.insert(member, disk);
        self.events.remove(&member);
    }

    /// Lets some time pass for everybody.
    fn pass(&mut self) -> Result<(), LogFailure> {
        self.now_ms += POLL_MS;
        let mut mail = Vec::new();
        for (&member, log) in &mut self.running {
            let mut polls = 0;
            while polls == 0 || (log.wake_ms().is_some_and(|wake_ms| wake_ms <= self.now_ms) && polls < 100) {
                let mut events = Vec::new();
                log.poll(self.now_ms, &mut events)?;
                polls += 1;
                for event in events {
                    match event {
                        LogEvent::Send { to, bytes } => mail.push((to, bytes)),
                        event => self.events.entry(member).or_default().push(event),
                    }
                }
            }
        }
        for (to, bytes) in mail {
            if let Some(log) = self.running.get_mut(&to) {
                log.deliver(self.now_ms, Delivery::Message(bytes)).ok();
            }
        }
        self.lead_here();
        Ok(())
    }

    /// The member under test is the one that appends: whoever else leads hands over to it.
    fn lead_here(&mut self) {
        let leader = self.running.iter().find(|(_, log)| log.status().leads).map(|(member, _)| *member);
        let furthest = self.running.values().map(|log| log.status().committed).max();
        let here = self.running.get(&1).map(|log| log.status().committed);
        if let Some(leader) = leader.filter(|leader| *leader != 1 && here == furthest) {
            let request = LogRequest::Transfer { to: Some(1) };
            self.running.get_mut(&leader).unwrap().submit(self.now_ms, request).unwrap();
        }
    }
}

/// One member of the group, as the contract sees it.
struct Member(Rc<RefCell<Group>>, u64);

impl Log for Member {
    fn submit(&mut self, _now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        let mut group = self.0.borrow_mut();
        let now_ms = group.now_ms;
        group.running.get_mut(&self.1).unwrap().submit(now_ms, request)
    }

    fn deliver(&mut self, _now_ms: u64, _delivery: Delivery) -> Result<(), DeliverError> {
        Err(DeliverError::Ended)
    }

    fn poll(&mut self, _now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let mut group = self.0.borrow_mut();
        group.pass()?;
        out.append(group.events.get_mut(&self.1).unwrap());
        Ok(())
    }

    fn wake_ms(&self) -> Option<u64> {
        None
    }
}

struct OfThree {
    group: Rc<RefCell<Group>>,
}

impl OfThree {
    fn new(seed: u64) -> Self {
        let (running, disks, events) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut group = Group { now_ms: 0, running, disks, events, dice: Prng::new(seed) };
        VOTERS.into_iter().skip(1).for_each(|member| group.start(member));
        OfThree { group: Rc::new(RefCell::new(group)) }
    }
}

impl Engine for OfThree {
    type Log = Member;

    fn start(&mut self) -> Member {
        let mut group = self.group.borrow_mut();
        group.start(1);
        // Until it can append; what it yields meanwhile waits for the first poll.
        for _ in 0..2000 {
            group.pass().unwrap();
            if group.running[&1].status().leads {
                break;
            }
        }
        Member(Rc::clone(&self.group), 1)
    }

    fn stop(&mut self, log: Member) {
        if log.1 == 1 {
            self.group.borrow_mut().stop(1);
        }
    }

    fn start_another(&mut self) -> Option<Member> {
        Some(Member(Rc::clone(&self.group), 2))
    }
}

#[test]
fn a_member_of_three_keeps_the_contract() {
    contract::check(0..6, OfThree::new);
}
