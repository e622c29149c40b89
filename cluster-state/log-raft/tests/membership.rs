//! Members that join, vote, leave and are replaced; leaders that hand over; reads.

use crate::cluster;

use cluster::Group;
use ohm_log::{ChangeRefusal, Log, LogRequest, MemberChange, Refusal};

fn add(member: u64) -> MemberChange {
    MemberChange::Add { member, address: format!("http://server-{member}"), key: member }
}

#[test]
fn a_lone_server_grows_to_three_and_back() {
    let mut group = Group::new(1, 1);
    group.append(30);
    for member in [2, 3] {
        assert_eq!(group.changed(add(member)), Ok(member));
        assert_eq!(group.changed(add(member)), Ok(member), "the same key is the same member");
        group.create(member);
        group.wait_until("it votes", |group| group.alive[&1].members.voters.contains(&member));
        let again = group.changed(add(member));
        assert_eq!(again, Err(ChangeRefusal::HadLog(member).into()), "whoever asks again has lost its log");
        group.append(10);
    }
    assert_eq!(group.alive[&3].members.addresses[&2], "http://server-2");
    group.steps(50);
    assert_eq!(group.alive[&3].list, group.alive[&1].list);
    // Two of three go on without the third.
    let leader = group.wait_for_leader();
    group.kill(leader);
    let before = group.acknowledged.len();
    group.wait_for_leader();
    group.append(10);
    group.steps(50);
    assert!(group.acknowledged.len() > before);
    group.revive(leader);
    group.steps(100);
    for gone in [2, 3] {
        let mut answer = group.changed(MemberChange::Remove { member: gone });
        while matches!(answer, Err(Refusal::NotLeader { .. } | Refusal::Change(ChangeRefusal::Pending))) {
            group.steps(200);
            answer = group.changed(MemberChange::Remove { member: gone });
        }
        assert_eq!(answer, Ok(gone));
        group.steps(100);
        assert!(group.removed.contains(&gone), "a removed server says so and ends");
    }
    assert_eq!(group.alive.keys().collect::<Vec<_>>(), [&1]);
    group.append(10);
    group.kill(1);
    group.revive(1);
    group.check("grown and shrunk");
}

#[test]
fn what_is_not_possible_is_refused_with_a_reason() {
    let mut group = Group::new(2, 3);
    group.append(20);
    let leader = group.wait_for_leader();
    let refused = |group: &mut Group, change| group.changed(change).unwrap_err();
    assert_eq!(refused(&mut group, add(2)), ChangeRefusal::Used(2).into());
    assert_eq!(refused(&mut group, MemberChange::Remove { member: 9 }), ChangeRefusal::NoMember(9).into());
    assert_eq!(refused(&mut group, MemberChange::Promote { member: 2 }), ChangeRefusal::VotesAlready(2).into());
    // Nobody answers under the number 4, so it learns for ever, and never votes.
    assert_eq!(group.changed(add(4)), Ok(4));
    group.steps(300);
    assert_eq!(group.alive[&leader].members.learners, [4]);
    assert_eq!(refused(&mut group, MemberChange::Promote { member: 4 }), ChangeRefusal::Behind(4).into());
    // Two at a time: the second one is refused, whatever it is.
    let (first, second) = (group.change(leader, add(5)), group.change(leader, add(6)));
    group.steps(50);
    let answers = &group.alive[&leader].changed;
    assert!(answers.contains(&(first, Ok(5))), "{answers:?}");
    assert!(answers.contains(&(second, Err(ChangeRefusal::Pending.into()))), "{answers:?}");
    // With one of three dead, the other two are needed.
    let followers: Vec<u64> = (1..=3).filter(|member| *member != leader).collect();
    group.kill(followers[0]);
    group.steps(300);
    let lost = MemberChange::Remove { member: followers[1] };
    assert_eq!(refused(&mut group, lost), ChangeRefusal::MajorityLost(followers[1]).into());
    assert_eq!(group.changed(MemberChange::Remove { member: followers[0] }), Ok(followers[0]));
    assert_eq!(refused(&mut group, add(followers[0])), ChangeRefusal::Used(followers[0]).into());
    let other = followers[1];
    let token = group.change(other, add(9));
    group.steps(20);
    let answer = group.alive[&other].changed.iter().find(|(asked, _)| *asked == token).map(|(_, answer)| *answer);
    assert_eq!(answer, Some(Err(Refusal::NotLeader { leader: Some(leader) })));
}

#[test]
fn a_removed_server_that_was_away_is_told_and_disturbs_nobody() {
    let mut group = Group::new(3, 3);
    group.append(20);
    let leader = group.wait_for_leader();
    let away = (1..=3).find(|member| *member != leader).unwrap();
    group.kill(away);
    assert_eq!(group.changed(MemberChange::Remove { member: away }), Ok(away));
    group.append(20);
    let term = group.alive[&leader].log.status().term;
    group.revive(away);
    group.wait_until("it ends", |group| group.removed.contains(&away));
    assert_eq!((group.leader(), group.alive[&leader].log.status().term), (Some(leader), term));
    group.check("removed while away");
}

#[test]
fn a_server_without_its_disk_is_replaced_by_one_with_another_number() {
    let mut group = Group::new(4, 3);
    group.append(120);
    group.steps(50);
    for copy in group.alive.values_mut() {
        copy.save_snapshot();
        copy.rest().unwrap();
        copy.trim(copy.applied);
    }
    group.append(30);
    let leader = group.wait_for_leader();
    let lost = (1..=3).find(|member| *member != leader).unwrap();
    group.kill(lost);
    group.dead.remove(&lost);
    group.create(4);
    assert_eq!(group.changed(add(4)), Ok(4));
    group.wait_until("the new one votes", |group| group.alive[&leader].members.voters.contains(&4));
    assert!(!group.alive[&4].installed.is_empty(), "it began with a snapshot, in pieces");
    assert_eq!(group.changed(MemberChange::Remove { member: lost }), Ok(lost));
    group.append(10);
    group.kill(leader);
    group.wait_for_leader();
    group.append(10);
    group.check("replaced");
}

#[test]
fn the_leader_hands_over_and_is_removed_only_afterwards() {
    let mut group = Group::new(5, 3);
    group.append(20);
    let leader = group.wait_for_leader();
    let now_ms = group.now_ms;
    group.alive.get_mut(&leader).unwrap().log.submit(now_ms, LogRequest::Transfer { to: None }).unwrap();
    group.steps(20);
    let second = group.leader().unwrap();
    assert_ne!(second, leader, "another one leads, sooner than any time-out");
    let answer = group.changed(MemberChange::Remove { member: second });
    assert_eq!(answer, Err(Refusal::NotLeader { leader: None }));
    group.steps(50);
    assert_ne!(group.leader().unwrap(), second);
    assert_eq!(group.changed(MemberChange::Remove { member: second }), Ok(second));
    group.wait_until("it ends", |group| group.removed.contains(&second));
    group.check("handed over");
}

#[test]
fn reads_need_a_majority_and_come_after_what_they_cover() {
    let mut group = Group::new(6, 3);
    group.append(20);
    let leader = group.wait_for_leader();
    for round in 0..50 {
        group.append(1);
        group.read(1 + round % 3);
    }
    group.steps(50);
    assert_eq!(group.reads_answered, 50, "leader or not, all are answered");
    group.isolate(leader);
    group.read(leader);
    group.steps(500);
    assert_eq!(group.reads_answered, 50);
    assert_eq!(group.alive[&leader].changed.last().map(|(_, answer)| *answer), Some(Err(Refusal::NoMajority)));
}

#[test]
fn members_survive_snapshots_and_restarts() {
    let mut group = Group::new(7, 3);
    group.append(10);
    group.create(4);
    assert_eq!(group.changed(add(4)), Ok(4));
    group.wait_until("it votes", |group| group.alive[&4].members.voters.contains(&4));
    let leader = group.wait_for_leader();
    let away = (1..=3).find(|member| *member != leader).unwrap();
    group.kill(away);
    assert_eq!(group.changed(MemberChange::Remove { member: away }), Ok(away));
    group.dead.remove(&away);
    for round in 0..3 {
        group.append(20);
        for copy in group.alive.values_mut() {
            copy.save_snapshot();
            copy.rest().unwrap();
            copy.trim(copy.applied);
        }
        group.steps(20);
        let members = group.alive[&4].members.clone();
        assert_eq!((members.voters.len(), members.removed.clone()), (3, vec![away]), "round {round}");
        group.kill(4);
        group.steps(50);
        group.revive(4);
        group.alive.get_mut(&4).unwrap().rest().unwrap();
        assert_eq!(group.alive[&4].members, members);
        group.steps(100);
    }
    group.check("members in snapshots");
}
