//! Three voters in one thread, their messages carried by hand: leaders die, links break, members catch up.

use crate::cluster;
use crate::world;

use cluster::Group;
use ohm_log::{Alarm, Bytes, Delivery, Log, LogFailure, LogRequest, MemDisk};
use ohm_log_raft::{RaftLog, Remarks, open_read_only};
use ohm_model::Index;
use world::Copy;

const VOTERS: [u64; 3] = [1, 2, 3];

/// Three members, and the one that leads, cut off and with entries that nobody else has.
fn cut_off_leader(appended: std::ops::Range<u64>) -> (Group, u64) {
    let mut group = Group::new(2, 3);
    let leader = group.wait_for_leader();
    group.append(10);
    group.steps(20);
    group.isolate(leader);
    let copy = group.alive.get_mut(&leader).unwrap();
    appended.for_each(|number| copy.append(number).unwrap());
    copy.rest().unwrap();
    (group, leader)
}

#[test]
fn acknowledged_entries_survive_the_death_of_each_leader() {
    let mut group = Group::new(1, 3);
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
    let (mut group, old) = cut_off_leader(900..905);
    let copy = group.alive.get_mut(&old).unwrap();
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
    group.cuts.clear();
    group.steps(300);
    assert_eq!(group.leader(), leader, "a member that comes back does not disturb the leader");
    group.check("cut");
    assert!(!group.alive[&old].list.contains(&900), "what never reached a majority is overwritten");
}

#[test]
fn a_former_leader_without_room_shows_nothing_that_was_never_committed() {
    // With room for nothing, for the new term, for some of what comes after it.
    for room in (0..1200).step_by(60) {
        let (mut group, old) = cut_off_leader(900..920);
        group.kill(old);
        group.wait_for_leader();
        group.append(30);
        let disk = group.dead.get_mut(&old).unwrap();
        disk.set_capacity_bytes(Some(disk.used_bytes() + room));
        group.cuts.clear();
        group.revive(old);
        group.steps(100);
        let copy = &group.alive[&old];
        assert!(matches!(copy.alarms[..], [Alarm::DiskFull { .. }]), "room {room}: {:?}", copy.alarms);
        assert!(!copy.list.contains(&900), "room {room}: what others overwrite was shown: {:?}", copy.list);
        group.kill(old);
        group.dead.get_mut(&old).unwrap().set_capacity_bytes(None);
        group.check("full");
    }
}

#[test]
fn one_of_three_alone_commits_nothing() {
    let mut group = Group::new(3, 3);
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
    let mut group = Group::new(4, 3);
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
    let mut group = Group::new(6, 3);
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
    let mut group = Group::new(5, 3);
    let leader = group.wait_for_leader();
    group.append(30);
    let member = VOTERS.into_iter().find(|member| *member != leader).unwrap();
    group.kill(member);
    group.dead.remove(&member);
    let config = group.config(member);
    let log = RaftLog::create(MemDisk::new(), config, Remarks::none()).unwrap();
    let mut copy = Copy::new(log);
    let mut failure = None;
    for _ in 0..300 {
        group.step();
        for bytes in group.take_for(member) {
            copy.log.deliver(group.now_ms, Delivery::Message(bytes)).unwrap();
        }
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
        let mut group = Group::new(seed, 3);
        group.weather.loss_permille = group.dice.below(200);
        for _ in 0..60 {
            let member = VOTERS[group.dice.below(3) as usize];
            match group.dice.below(8) {
                0 if group.alive.len() > 1 && group.alive.contains_key(&member) => group.kill(member),
                1 | 2 if group.dead.contains_key(&member) => group.revive(member),
                3 => group.isolate(member),
                4 => group.cuts.clear(),
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
        let mut group = Group::new(9, 3);
        group.weather.loss_permille = 100;
        group.append(300);
        let leader = group.wait_for_leader();
        group.kill(leader);
        group.append(300);
        (group.history, group.acknowledged, group.next)
    };
    assert_eq!(run(), run());
}
