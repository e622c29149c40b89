//! Members of one group in one thread, and the network between them: it loses, delays, repeats, reorders and cuts.
#![allow(unreachable_pub)]

use crate::world::{self, Copy};
use ohm_log::{Bytes, Delivery, Log, LogFailure, LogRequest, MemDisk, MemberChange};
use ohm_log_raft::{RaftConfig, RaftLog, Remarks};
use ohm_model::Index;
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// Virtual milliseconds in one step.
pub const STEP_MS: u64 = 10;

/// How unkind the network is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub loss_permille: u64,
    pub repeat_permille: u64,
    pub delay_ms_max: u64,
}

pub struct Group {
    pub founders: Vec<u64>,
    pub alive: BTreeMap<u64, Copy<MemDisk>>,
    pub dead: BTreeMap<u64, MemDisk>,
    /// By the time they are due: from, to, bytes.
    network: BTreeMap<(u64, u64), (u64, u64, Bytes)>,
    sent: u64,
    pub weather: Weather,
    /// Nothing goes from the first to the second.
    pub cuts: BTreeSet<(u64, u64)>,
    pub dice: Prng,
    pub now_ms: u64,
    /// What each index was, whoever said it.
    pub history: BTreeMap<Index, (u64, usize)>,
    pub acknowledged: Vec<u64>,
    pub next: u64,
    /// Members that ended because they were removed.
    pub removed: BTreeSet<u64>,
    tokens: u64,
    /// Reads: by token, the highest index acknowledged when they were asked.
    reads: BTreeMap<u64, Index>,
    pub reads_answered: usize,
    acknowledged_to: Index,
    starts: u64,
}

impl Group {
    pub fn new(seed: u64, size: u64) -> Self {
        let founders: Vec<u64> = (1..=size).collect();
        let mut group = Group {
            founders,
            alive: BTreeMap::new(),
            dead: BTreeMap::new(),
            network: BTreeMap::new(),
            sent: 0,
            weather: Weather::default(),
            cuts: BTreeSet::new(),
            dice: Prng::new(seed),
            now_ms: 0,
            history: BTreeMap::new(),
            acknowledged: Vec::new(),
            next: 0,
            removed: BTreeSet::new(),
            tokens: world::CHANGES,
            reads: BTreeMap::new(),
            reads_answered: 0,
            acknowledged_to: Index(0),
            starts: 0,
        };
        (1..=size).for_each(|member| group.create(member));
        group
    }

    pub fn config(&mut self, member: u64) -> RaftConfig {
        self.starts += 1;
        RaftConfig {
            segment_bytes: 2000,
            // Small, so that a snapshot is several pieces.
            batch_bytes: 700,
            seed: self.dice.u64(),
            ..RaftConfig::group(world::CELL, member, self.founders.clone())
        }
    }

    /// A member with an empty disk.
    pub fn create(&mut self, member: u64) {
        let config = self.config(member);
        let log = RaftLog::create(MemDisk::new(), config, Remarks::none()).unwrap();
        self.alive.insert(member, Copy::new(log));
    }

    /// Some time goes by.
    pub fn step(&mut self) {
        self.now_ms += STEP_MS;
        while let Some(first) = self.network.first_entry()
            && first.key().0 <= self.now_ms
        {
            let (from, to, bytes) = first.remove();
            self.arrive(from, to, bytes);
        }
        let members: Vec<u64> = self.alive.keys().copied().collect();
        for member in members {
            let copy = self.alive.get_mut(&member).unwrap();
            copy.now_ms = self.now_ms;
            match copy.rest() {
                Ok(()) => self.collect(member),
                Err(LogFailure::Removed { .. }) => {
                    self.collect(member);
                    self.alive.remove(&member);
                    self.removed.insert(member);
                }
                Err(failure) => panic!("member {member}: {failure}"),
            }
        }
    }

    fn arrive(&mut self, from: u64, to: u64, bytes: Bytes) {
        let lost = self.cuts.contains(&(from, to)) || self.dice.chance(self.weather.loss_permille);
        match self.alive.get_mut(&to).filter(|_| !lost) {
            Some(copy) => copy.log.deliver(self.now_ms, Delivery::Message(bytes)).unwrap(),
            None => {
                if let Some(sender) = self.alive.get_mut(&from) {
                    sender.log.deliver(self.now_ms, Delivery::Unreachable { member: to }).unwrap();
                }
            }
        }
    }

    /// Takes what a member sent and said.
    fn collect(&mut self, member: u64) {
        let copy = self.alive.get_mut(&member).unwrap();
        let sent: Vec<(u64, Bytes)> = copy.sent.drain(..).collect();
        self.acknowledged.append(&mut copy.acknowledged);
        for (token, index, _) in copy.readable.drain(..) {
            let least = self.reads.remove(&token).expect("a read is answered once");
            assert!(index >= least, "read at {index}, acknowledged up to {least} before");
            assert!(copy.applied >= index, "the read comes after what it covers");
            self.reads_answered += 1;
        }
        if let Some(number) = copy.list.last() {
            let seen = (*number, copy.list.len());
            let known = self.history.entry(copy.applied).or_insert(seen);
            assert_eq!(*known, seen, "two truths at {}", copy.applied);
        }
        if let Some((index, _)) = self.history.iter().next_back() {
            // Whatever one copy was given is acknowledged to whoever asked there.
            self.acknowledged_to = self.acknowledged_to.max(*index);
        }
        for (to, bytes) in sent {
            let copies = 1 + u64::from(self.dice.chance(self.weather.repeat_permille));
            for _ in 0..copies {
                let due_ms = self.now_ms + 1 + self.dice.below(self.weather.delay_ms_max + 1);
                self.sent += 1;
                self.network.insert((due_ms, self.sent), (member, to, bytes.clone()));
            }
        }
    }

    /// What is on its way to `member`, taken out.
    pub fn take_for(&mut self, member: u64) -> Vec<Bytes> {
        let (own, others) = std::mem::take(&mut self.network).into_iter().partition(|(_, (_, to, _))| *to == member);
        self.network = others;
        let own: BTreeMap<(u64, u64), (u64, u64, Bytes)> = own;
        own.into_values().map(|(_, _, bytes)| bytes).collect()
    }

    pub fn steps(&mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    /// Whoever leads and is not cut off from the others.
    pub fn leader(&self) -> Option<u64> {
        let isolated = |member: u64| {
            let all: Vec<u64> = self.alive.keys().chain(self.dead.keys()).copied().collect();
            let reaches =
                |other: &&u64| !self.cuts.contains(&(**other, member)) && !self.cuts.contains(&(member, **other));
            all.iter().filter(reaches).count() * 2 <= all.len()
        };
        self.alive.iter().filter(|(member, copy)| copy.leads && !isolated(**member)).map(|(member, _)| *member).last()
    }

    /// Waits for a leader that can commit.
    pub fn wait_for_leader(&mut self) -> u64 {
        for _ in 0..2000 {
            self.step();
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("20 s without a leader");
    }

    pub fn wait_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("30 s and still not: {what}");
    }

    /// Appends at whoever thinks that it leads.
    pub fn append(&mut self, count: u64) {
        for _ in 0..count {
            if let Some(leader) = self.leader() {
                let next = self.next;
                self.alive.get_mut(&leader).unwrap().append(next).ok();
                self.next += 1;
            }
            self.step();
        }
    }

    /// Asks `member` how far a copy must be now.
    pub fn read(&mut self, member: u64) {
        self.tokens += 1;
        let token = self.tokens;
        if let Some(copy) = self.alive.get_mut(&member) {
            copy.log.submit(self.now_ms, LogRequest::Read { token }).unwrap();
            self.reads.insert(token, self.acknowledged_to);
        }
    }

    /// Asks `member` for a change; the token tells the answer.
    pub fn change(&mut self, member: u64, change: MemberChange) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        let request = LogRequest::ChangeMembers { token, change };
        self.alive.get_mut(&member).unwrap().log.submit(self.now_ms, request).ok();
        token
    }

    /// Asks the leader for a change and waits for the answer.
    pub fn changed(&mut self, change: MemberChange) -> Result<u64, ohm_log::Refusal> {
        let leader = self.wait_for_leader();
        let token = self.change(leader, change);
        for _ in 0..500 {
            self.step();
            let answers = self.alive.get(&leader).map(|copy| copy.changed.clone()).unwrap_or_default();
            if let Some((_, answer)) = answers.into_iter().find(|(asked, _)| *asked == token) {
                return answer;
            }
        }
        panic!("the change is not answered");
    }

    pub fn kill(&mut self, member: u64) {
        let mut disk = self.alive.remove(&member).unwrap().log.into_disk();
        disk.crash(&mut self.dice);
        self.dead.insert(member, disk);
    }

    pub fn revive(&mut self, member: u64) {
        let disk = self.dead.remove(&member).unwrap();
        let config = self.config(member);
        let log = RaftLog::open(disk, config, Remarks::none()).unwrap();
        self.alive.insert(member, Copy::new(log));
    }

    /// Cuts `member` off from all others, both ways.
    pub fn isolate(&mut self, member: u64) {
        let others: Vec<u64> = self.alive.keys().chain(self.dead.keys()).copied().collect();
        for other in others.into_iter().filter(|other| *other != member) {
            self.cuts.extend([(member, other), (other, member)]);
        }
    }

    /// All members end with the same list, which holds all that was acknowledged, once.
    pub fn check(&mut self, label: &str) {
        self.cuts.clear();
        self.weather = Weather::default();
        for member in self.dead.keys().copied().collect::<Vec<_>>() {
            self.revive(member);
        }
        self.steps(200);
        self.wait_for_leader();
        self.append(3);
        self.steps(300);
        let leader = self.leader().expect("somebody leads");
        let members = self.alive[&leader].members.clone();
        for (member, copy) in &self.alive {
            // One that was never added waits for ever; one that was removed has ended.
            let stranger = copy.list.is_empty() && !members.removed.contains(member);
            assert!(members.contains(*member) || stranger, "{label}: member {member} was removed and does not end");
        }
        let inside = self.alive.iter().filter(|(member, _)| members.contains(**member));
        let lists: Vec<(&u64, &Vec<u64>)> = inside.map(|(member, copy)| (member, &copy.list)).collect();
        for (member, list) in &lists {
            assert_eq!(*list, lists[0].1, "{label}: members {} and {member} differ", lists[0].0);
        }
        let mut sorted = lists[0].1.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), lists[0].1.len(), "{label}: an append is there twice");
        for number in &self.acknowledged {
            assert!(sorted.binary_search(number).is_ok(), "{label}: {number} was acknowledged and is gone");
        }
    }
}
