//! Groups of three and five on a hostile network, on disks that tear, with members that die, come, go and are replaced.
//! Each seed draws its own weather. `OHM_RAFT_SEEDS=FROM..TO` runs others than the few that every test run takes.

#![allow(clippy::disallowed_methods, reason = "which seeds to run comes from the environment")]

use crate::cluster;

use cluster::{Group, Weather};
use ohm_log::{Log, LogRequest, MemberChange};
use ohm_model::Index;
use std::ops::Range;

fn seeds() -> Range<u64> {
    let asked = std::env::var("OHM_RAFT_SEEDS").ok();
    let range = asked.as_ref().and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    range.unwrap_or(0..60)
}

/// What one seed did, for the sake of showing that the faults happened.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    snapshots_installed: usize,
    removals: usize,
    promotions: usize,
    reads: usize,
    committed: usize,
}

fn rounds(seed: u64) -> Tally {
    let size = if seed.is_multiple_of(2) { 3 } else { 5 };
    let mut group = Group::new(seed, size);
    let kills = faults(&mut group, size);
    group.check(&format!("seed {seed}"));
    let mut tally = Tally { kills, ..Tally::default() };
    tally.removals = group.removed.len();
    tally.reads = group.reads_answered;
    tally.committed = group.acknowledged.len();
    for copy in group.alive.values() {
        tally.snapshots_installed += copy.installed.len();
        let added = |member: &u64| *member > size;
        tally.promotions = tally.promotions.max(copy.members.voters.iter().filter(|member| added(member)).count());
    }
    assert!(tally.committed > 0, "seed {seed}: nothing was ever committed");
    tally
}

/// Forty rounds of whatever the seed draws; how many members were killed.
fn faults(group: &mut Group, size: u64) -> u64 {
    let mut kills = 0;
    let may = |group: &mut Group, permille: u64, most: u64| match group.dice.chance(permille) {
        true => group.dice.below(most + 1),
        false => 0,
    };
    group.weather = Weather {
        loss_permille: may(group, 600, 150),
        repeat_permille: may(group, 400, 200),
        delay_ms_max: may(group, 500, 80),
    };
    let changes = group.dice.chance(600);
    let mut next_member = size + 1;
    for _ in 0..40 {
        let everybody: Vec<u64> = group.alive.keys().chain(group.dead.keys()).copied().collect();
        let member = *group.dice.pick(&everybody).unwrap();
        match group.dice.below(12) {
            0 | 1 if group.alive.contains_key(&member) && group.dead.len() < everybody.len() / 2 => {
                group.kill(member);
                kills += 1;
            }
            2..=4 => {
                if let Some(member) = group.dead.keys().next().copied() {
                    group.revive(member);
                }
            }
            5 => group.isolate(member),
            6 => {
                let other = *group.dice.pick(&everybody).unwrap();
                group.cuts.insert((member, other));
            }
            7 | 8 => group.cuts.clear(),
            9 => {
                for copy in group.alive.values_mut().filter(|copy| copy.applied > Index(0)) {
                    copy.save_snapshot();
                    copy.trim(copy.applied);
                }
            }
            10 if changes => change(group, member, &mut next_member),
            11 => {
                if let Some(leader) = group.leader() {
                    let now_ms = group.now_ms;
                    group
                        .alive
                        .get_mut(&leader)
                        .unwrap()
                        .log
                        .submit(now_ms, LogRequest::Transfer { to: None })
                        .unwrap();
                }
            }
            _ => {}
        }
        group.read(member);
        let (appends, pause) = (group.dice.below(15), group.dice.below(60));
        group.append(appends);
        group.steps(pause);
    }
    kills
}

/// A member joins, or one is removed, or one whose disk is gone is replaced by another.
fn change(group: &mut Group, member: u64, next_member: &mut u64) {
    let Some(leader) = group.leader() else { return };
    let members = group.alive[&leader].members.clone();
    match group.dice.below(3) {
        0 if members.all().count() < 7 => {
            let added = *next_member;
            *next_member += 1;
            group.create(added);
            group.change(leader, MemberChange::Add { member: added, address: format!("at {added}"), key: added });
        }
        1 if members.voters.len() > 3 => {
            group.change(leader, MemberChange::Remove { member });
        }
        2 if group.dead.contains_key(&member) && members.voters.len() > 2 => {
            // Its disk is gone for good. Only once the group knows may it count on the others alone.
            let others = members.voters.iter().filter(|voter| **voter != member && group.alive.contains_key(voter));
            if others.count() * 2 > members.voters.len() {
                group.change(leader, MemberChange::Remove { member });
            }
        }
        _ => {}
    }
}

#[test]
fn every_seed_leaves_one_truth() {
    let mut sum = Tally::default();
    for seed in seeds() {
        let tally = rounds(seed);
        sum.kills += tally.kills;
        sum.snapshots_installed += tally.snapshots_installed;
        sum.removals += tally.removals;
        sum.promotions += tally.promotions;
        sum.reads += tally.reads;
        sum.committed += tally.committed;
    }
    println!("{:?}: {sum:?}", seeds());
    let happened = [sum.kills as usize, sum.snapshots_installed, sum.removals, sum.promotions, sum.reads];
    assert!(happened.iter().all(|count| *count > 0), "some fault never happened: {sum:?}");
}

#[test]
fn a_seed_is_a_history() {
    let run = || {
        let mut group = Group::new(9, 5);
        group.weather = Weather { loss_permille: 100, repeat_permille: 50, delay_ms_max: 40 };
        group.append(300);
        let leader = group.wait_for_leader();
        group.kill(leader);
        group.append(300);
        (group.history, group.acknowledged, group.next, group.now_ms)
    };
    assert_eq!(run(), run());
}
