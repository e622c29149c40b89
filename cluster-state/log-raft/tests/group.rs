//! Three voters in one thread, their messages carried by hand: leaders die, links break, members catch up.

mod world;

use ohm_log::{Bytes, Delivery, Log, LogFailure, LogRequest, MemDisk};
use ohm_log_raft::{RaftConfig, RaftLog, Remarks, open_read_only};
use ohm_model::Index;
use ohm_stdx::Prng;
use std::collections::{BTreeMap, VecDeque};
use world::Copy;

const VOTERS: [u64; 3] = [1, 2, 3];

fn config(member: u64) -> RaftConfig {
    RaftConfig { segment_bytes: 2000, ..RaftConfig::group(world::CELL, member, VOTERS.to_vec()) }
}

/// The group, and the network between its members.
struct Group {
    alive: BTreeMap<u64, Copy<MemDisk>>,
    dead: BTreeMap<u64, MemDisk>,
    network: VecDeque<(u64, u64, Bytes, bool)>,
    /// Messages from and to these members are lost.
    cut: Vec<u64>,
    loss_permille: u64,
    dice: Prng,
    now_ms: u64,
    /// What each index was, whoever said it.
    history: BTreeMap<Index, u64>,
    acknowledged: Vec<u64>,
    next: u64,
}

impl Group {
    fn new(seed: u64) -> Self {
        let member = |member| {
            let log = RaftLog::create(MemDisk::new(), config(member), Remarks::none()).unwrap();
            (member, Copy::new(log))
        };
        Group {
            alive: VOTERS.into_iter().map(member).collect(),
            dead: BTreeMap::new(),
            network: VecDeque::new(),
            cut: Vec::new(),
            loss_permille: 0,
            dice: Prng::new(seed),
            now_ms: 0,
            history: BTreeMap::new(),
            acknowledged: Vec::new(),
            next: 0,
        }
    }

    /// Ten milliseconds go by.
    fn step(&mut self) {
        self.now_ms += 10;
        for _ in 0..self.network.len() {
            let Some((from, to, bytes, snapshot)) = self.network.pop_front() else { break };
            let lost = self.cut.contains(&from) || self.cut.contains(&to) || self.dice.chance(self.loss_permille);
            let arrived = !lost && self.alive.contains_key(&to);
            if arrived {
                let copy = self.alive.get_mut(&to).unwrap();
                copy.log.deliver(self.now_ms, Delivery::Message(bytes)).unwrap();
            }
            if let Some(sender) = self.alive.get_mut(&from) {
                if snapshot {
                    sender.log.deliver(self.now_ms, Delivery::SnapshotSent { member: to, arrived }).unwrap();
                } else if !arrived {
                    sender.log.deliver(self.now_ms, Delivery::Unreachable { member: to }).unwrap();
                }
            }
        }
        for (member, copy) in &mut self.alive {
            copy.now_ms = self.now_ms;
            copy.rest().unwrap();
            self.network.extend(copy.sent.drain(..).map(|(to, bytes, snapshot)| (*member, to, bytes, snapshot)));
            self.acknowledged.append(&mut copy.acknowledged);
            if let Some(number) = copy.list.last() {
                assert_eq!(
                    self.history.entry(copy.applied).or_insert(*number),
                    number,
                    "two truths at {}",
                    copy.applied
                );
            }
        }
    }

    fn steps(&mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
    }

    fn leader(&self) -> Option<u64> {
        let leads = |member: &&u64| self.alive[*member].leads && !self.cut.contains(member);
        self.alive.keys().find(leads).copied()
    }

    /// Waits for a leader that can commit.
    fn wait_for_leader(&mut self) -> u64 {
        for _ in 0..2000 {
            self.step();
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("20 s without a leader");
    }

    fn append(&mut self, count: u64) {
        for _ in 0..count {
            if let Some(leader) = self.leader() {
                let next = self.next;
                self.alive.get_mut(&leader).unwrap().append(next).ok();
                self.next += 1;
            }
            self.step();
        }
    }

    fn kill(&mut self, member: u64) {
        let mut disk = self.alive.remove(&member).unwrap().log.into_disk();
        disk.crash(&mut self.dice);
        self.dead.insert(member, disk);
    }

    fn revive(&mut self, member: u64) {
        let disk = self.dead.remove(&member).unwrap();
        let log = RaftLog::open(disk, config(member), Remarks::none()).unwrap();
        self.alive.insert(member, Copy::new(log));
    }

    /// All members end with the same list, which holds all that was acknowledged, once.
    fn check(&mut self, label: &str) {
        self.cut.clear();
        self.loss_permille = 0;
        for member in self.dead.keys().copied().collect::<Vec<_>>() {
            self.revive(member);
        }
        self.wait_for_leader();
        self.append(3);
        self.steps(300);
        let lists: Vec<&Vec<u64>> = self.alive.values().map(|copy| &copy.list).collect();
        assert!(lists.iter().all(|list| *list == lists[0]), "{label}: {lists:?}");
        let mut sorted = lists[0].clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), lists[0].len(), "{label}: an append is there twice");
        for number in &self.acknowledged {
            assert!(sorted.binary_search(number).is_ok(), "{label}: {number} was acknowledged and is gone");
        }
    }
}

#[test]
fn acknowledged_entries_survive_the_death_of_each_leader() {
    let mut group = Group::new(1);
    for round in 0..6 {
        let leader = group.wait_for_leader();
        group.append(20);
        assert!(group.acknowledged.len() as u64 > round * 10, "round {round}: {:?}", group.acknowledged.len());
        // Some more that nobody has answered yet.
        let next = group.next;
        (next..next + 5).for_each(|number| group.alive.get_mut(&leader).unwrap().append(number).unwrap());
        group.next += 5;
        group.kill(leader);
        let other = group.wait_for_leader();
        assert_ne!(other, leader);
        group.append(5);
        group.revive(leader);
    }
    group.check("deaths");
    assert!(group.acknowledged.len() > 120);
}

#[test]
fn a_leader_that_is_cut_off_steps_down_and_its_appends_stay_unknown() {
    let mut group = Group::new(2);
    let old = group.wait_for_leader();
    group.append(10);
    group.steps(20);
    group.cut = vec![old];
    let copy = group.alive.get_mut(&old).unwrap();
    (900..905).for_each(|number| copy.append(number).unwrap());
    copy.rest().unwrap();
    let uncommitted = copy.log.status().last;
    assert!(uncommitted > copy.applied);
    let early = LogRequest::SaveSnapshot { index: uncommitted, pieces: vec![Bytes::from_static(b"too early")] };
    copy.log.submit(group.now_ms, early).unwrap();
    copy.rest().unwrap();
    assert_eq!(copy.snapshots_failed, [uncommitted], "a snapshot of what is not committed was taken");
    let new = group.wait_for_leader();
    assert_ne!(new, old);
    group.append(10);
    group.steps(300);
    let copy = group.alive.get_mut(&old).unwrap();
    assert!(!copy.leads, "a leader without a majority must step down");
    assert_eq!(copy.unknown, [900, 901, 902, 903, 904]);
    copy.append(905).unwrap();
    group.step();
    assert_eq!(group.alive[&old].refused, [905], "a member that does not lead takes no appends");
    let leader = group.leader();
    group.cut.clear();
    group.steps(300);
    assert_eq!(group.leader(), leader, "a member that comes back does not disturb the leader");
    group.check("cut");
    assert!(!group.alive[&old].list.contains(&900), "what never reached a majority is overwritten");
}

#[test]
fn one_of_three_alone_commits_nothing() {
    let mut group = Group::new(3);
    let leader = group.wait_for_leader();
    group.append(10);
    group.steps(20);
    let before = group.acknowledged.len();
    for member in VOTERS.into_iter().filter(|member| *member != leader) {
        group.kill(member);
    }
    group.append(20);
    group.steps(500);
    assert_eq!(group.acknowledged.len(), before);
    assert_eq!(group.leader(), None);
    let list = group.alive[&leader].list.clone();
    group.kill(leader);
    let archive = open_read_only(&mut group.dead[&leader].clone()).unwrap();
    let shown: Vec<u64> = archive.entries().map(|(_, bytes)| world::numbers(&[bytes.slice(..8)])[0]).collect();
    assert!(list.starts_with(&shown), "the archive shows what was never committed: {shown:?}, {list:?}");
    group.check("alone");
}

#[test]
fn a_member_that_was_away_too_long_gets_a_snapshot() {
    let mut group = Group::new(4);
    let leader = group.wait_for_leader();
    let away = VOTERS.into_iter().find(|member| *member != leader).unwrap();
    group.append(10);
    group.kill(away);
    for _ in 0..3 {
        group.append(60);
        for copy in group.alive.values_mut() {
            copy.save_snapshot();
            copy.rest().unwrap();
            copy.trim(copy.applied);
            copy.rest().unwrap();
        }
    }
    group.append(10);
    group.revive(away);
    group.steps(300);
    assert!(!group.alive[&away].installed.is_empty(), "no snapshot came");
    group.check("snapshot");
    // What was installed is there after a restart, too.
    group.kill(away);
    group.revive(away);
    group.check("snapshot and restart");
}

#[test]
fn a_crash_between_an_installed_snapshot_and_its_mark_is_repaired() {
    let mut group = Group::new(6);
    let leader = group.wait_for_leader();
    let away = VOTERS.into_iter().find(|member| *member != leader).unwrap();
    group.append(10);
    group.kill(away);
    let old = group.dead[&away].clone();
    group.append(60);
    let copy = group.alive.get_mut(&leader).unwrap();
    copy.save_snapshot();
    copy.rest().unwrap();
    copy.trim(copy.applied);
    copy.rest().unwrap();
    group.revive(away);
    group.steps(200);
    let index = group.alive[&away].installed[0];
    group.kill(away);
    // The snapshot is there, and the log is as it was before.
    let mut torn = old;
    let file = format!("snapshot-{:020}.ohm", index.0);
    torn.place(&file, group.dead[&away].peek(&file).unwrap());
    let archive = open_read_only(&mut torn).unwrap();
    assert_eq!((archive.snapshot.as_ref().unwrap().0, archive.entries().count()), (index, 0));
    group.dead.insert(away, torn);
    for _ in 0..3 {
        group.revive(away);
        group.alive.get_mut(&away).unwrap().rest().unwrap();
        assert_eq!(group.alive[&away].installed, [index]);
        group.append(10);
        group.steps(100);
        group.kill(away);
    }
    group.check("installed, not marked");
}

#[test]
fn a_member_that_lost_its_log_says_so_and_stops() {
    let mut group = Group::new(5);
    let leader = group.wait_for_leader();
    group.append(30);
    let member = VOTERS.into_iter().find(|member| *member != leader).unwrap();
    group.kill(member);
    group.dead.remove(&member);
    let log = RaftLog::create(MemDisk::new(), config(member), Remarks::none()).unwrap();
    let mut copy = Copy::new(log);
    let mut failure = None;
    for _ in 0..300 {
        group.step();
        group.network.retain(|(_, to, bytes, _)| {
            if *to == member {
                copy.log.deliver(group.now_ms, Delivery::Message(bytes.clone())).unwrap();
            }
            *to != member
        });
        copy.now_ms = group.now_ms;
        if let Err(error) = copy.poll() {
            failure = Some(error);
            break;
        }
        copy.sent.clear();
    }
    assert!(matches!(failure, Some(LogFailure::Lost { .. })), "{failure:?}");
}

#[test]
fn random_deaths_cuts_and_losses_leave_one_truth() {
    for seed in 0..25 {
        let mut group = Group::new(seed);
        group.loss_permille = group.dice.below(200);
        for _ in 0..60 {
            let member = VOTERS[group.dice.below(3) as usize];
            match group.dice.below(8) {
                0 if group.alive.len() > 1 && group.alive.contains_key(&member) => group.kill(member),
                1 | 2 if group.dead.contains_key(&member) => group.revive(member),
                3 => group.cut = vec![member],
                4 => group.cut.clear(),
                5 => {
                    for copy in group.alive.values_mut().filter(|copy| copy.applied > Index(0)) {
                        copy.save_snapshot();
                        copy.trim(copy.applied);
                    }
                }
                _ => {}
            }
            let (appends, pause) = (group.dice.below(20), group.dice.below(100));
            group.append(appends);
            group.steps(pause);
        }
        group.check(&format!("seed {seed}"));
        assert!(!group.acknowledged.is_empty(), "seed {seed}: nothing was ever committed");
    }
}

#[test]
fn a_seed_is_a_history() {
    let run = || {
        let mut group = Group::new(9);
        group.loss_permille = 100;
        group.append(300);
        let leader = group.wait_for_leader();
        group.kill(leader);
        group.append(300);
        (group.history, group.acknowledged, group.next)
    };
    assert_eq!(run(), run());
}
