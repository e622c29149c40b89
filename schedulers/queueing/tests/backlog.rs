//! Order, turns, kin and wake-ups of the backlog.

use ohm_model::{Class, Index, JobId, ResourceId, Shard};
use ohm_queueing::{Backlog, Blocker, Chooser, Others, Rank, Ticket, WHOLE};
use ohm_stdx::Prng;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

fn ticket(job: u64, line: &str, priority: i32, kin: &str) -> Ticket {
    let shard = Shard { class: Class::BATCH, number: (job % 2) as u16 };
    let rank = Rank { urgency: 2, priority: Reverse(priority), submitted: Index(job), job: JobId(job) };
    Ticket { rank, line: line.into(), part: "".into(), shard, kin: kin.as_bytes().into(), starts: true, mark: 0 }
}

fn alone(job: u64, line: &str, priority: i32) -> Ticket {
    ticket(job, line, priority, &job.to_string())
}

fn backlog(tickets: impl IntoIterator<Item = Ticket>) -> Backlog<&'static str> {
    let mut backlog = Backlog::default();
    tickets.into_iter().for_each(|ticket| backlog.put(ticket));
    backlog
}

/// Every job costs a hundredth of the cell; of a cohort tree these are served last.
#[derive(Default)]
struct Last(BTreeSet<u64>);

impl Chooser for Last {
    fn cost_of(&self, _: JobId) -> u64 {
        WHOLE / 100
    }

    fn first_of(&mut self, heads: &mut dyn Iterator<Item = JobId>) -> usize {
        heads.enumerate().find(|(_, job)| !self.0.contains(&job.0)).map_or(0, |(at, _)| at)
    }

    /// Nobody is served twice before the others.
    fn note_taken(&mut self, job: JobId) {
        self.0.insert(job.0);
    }
}

fn take(backlog: &mut Backlog<&'static str>) -> Option<u64> {
    backlog.take(&mut usize::MAX.clone(), &mut Last::default()).map(|job| job.0)
}

fn take_all(backlog: &mut Backlog<&'static str>) -> Vec<u64> {
    std::iter::from_fn(|| take(backlog)).collect()
}

fn room(asked: i64) -> Blocker {
    Blocker::Room { resource: ResourceId(0), asked }
}

fn quota() -> Blocker {
    Blocker::Quota { root: "root".into() }
}

#[test]
fn priority_then_age_and_repairs_before_everything() {
    let mut repair = alone(9, "b", -5);
    repair.rank.urgency = 0;
    let mut jobs = backlog([alone(1, "", 0), alone(2, "", 5), alone(3, "", 5), repair]);
    assert_eq!(take_all(&mut jobs), [9, 2, 3, 1]);
}

#[test]
fn lines_take_turns_by_weight() {
    let jobs = (0..30).map(|job| alone(job, ["heavy", "light"][(job % 2) as usize], 0));
    let mut jobs = backlog(jobs);
    jobs.set_line(&"heavy".into(), 2000, false, &"root".into());
    let first: Vec<u64> = take_all(&mut jobs).into_iter().take(12).collect();
    assert_eq!(first.iter().filter(|job| *job % 2 == 0).count(), 8, "two of three turns: {first:?}");
}

#[test]
fn an_idle_line_saves_up_no_turns() {
    let mut jobs = backlog((0..20).map(|job| alone(job, "busy", 0)));
    for _ in 0..10 {
        let job = take(&mut jobs).map(JobId).unwrap();
        let fare = jobs.depart(job, WHOLE / 100);
        jobs.settle(fare, 0, 1);
    }
    (100..110).for_each(|job| jobs.put(alone(job, "late", 0)));
    let next: Vec<u64> = take_all(&mut jobs).into_iter().take(6).collect();
    let late = next.iter().filter(|job| **job >= 100).count();
    assert!((3..=4).contains(&late), "{next:?}");
}

#[test]
fn one_job_without_place_parks_its_kin_and_wakes_first_alone() {
    let mut jobs = backlog((0..1000).map(|job| ticket(job, "", 0, "same")));
    assert_eq!(take(&mut jobs), Some(0));
    jobs.park(JobId(0), room(8), "no room");
    assert_eq!(take_all(&mut jobs), []);
    assert_eq!(jobs.note(JobId(77)), Some(&"no room"));
    assert_eq!(jobs.ahead(JobId(77)), Some(77));
    jobs.wake_room(ResourceId(0), 7);
    assert!(!jobs.has_ready(), "too little");
    jobs.wake_room(ResourceId(1), 99);
    assert!(!jobs.has_ready(), "another resource");
    jobs.wake_room(ResourceId(0), 8);
    let mut waves = Vec::new();
    for _ in 0..6 {
        let wave = take_all(&mut jobs);
        wave.iter().for_each(|job| jobs.remove(JobId(*job)));
        waves.push(wave.len());
    }
    assert_eq!(waves, [1, 2, 4, 8, 16, 32]);
    let next = take(&mut jobs).unwrap();
    jobs.park(JobId(next), room(8), "full again");
    assert_eq!(take_all(&mut jobs), []);
}

#[test]
fn more_important_kin_still_try() {
    let mut jobs = backlog([ticket(1, "", 0, "same"), ticket(2, "", 0, "same")]);
    let first = take(&mut jobs).unwrap();
    jobs.park(JobId(first), room(1), "no room");
    jobs.put(ticket(3, "", 7, "same"));
    assert_eq!(take_all(&mut jobs), [3]);
}

#[test]
fn quota_keeps_back_its_own_line_only() {
    let mut jobs = backlog([alone(1, "full", 5), alone(2, "full", 0), alone(3, "free", 0)]);
    jobs.set_line(&"full".into(), 1000, true, &"root".into());
    let mut order = Vec::new();
    while let Some(job) = take(&mut jobs) {
        order.push(job);
        if job == 1 {
            jobs.park(JobId(1), quota(), "no quota");
        }
    }
    assert_eq!(order, [1, 3]);
    jobs.wake_blocked(&Blocker::Quota { root: "other".into() });
    assert!(!jobs.has_ready());
    jobs.wake_blocked(&quota());
    assert_eq!(take_all(&mut jobs), [1]);
    jobs.remove(JobId(1));
    assert_eq!(take_all(&mut jobs), [2]);
}

#[test]
fn of_one_cohort_tree_those_go_first_who_are_chosen() {
    let mut jobs = backlog([alone(1, "a", 9), alone(2, "b", 5), alone(3, "b", 0), alone(4, "c", 0), alone(5, "", 0)]);
    for line in ["a", "b"] {
        jobs.set_line(&line.into(), 1000, false, &"root".into());
    }
    jobs.set_line(&"c".into(), 1000, false, &"c".into());
    let mut chooser = Last([1].into());
    let mut order = Vec::new();
    while let Some(job) = jobs.take(&mut usize::MAX.clone(), &mut chooser) {
        order.push(job.0);
    }
    // It is the turn of the first line each time, and others of its tree go first; those of other trees when their turn
    // comes before that of who is served in its stead.
    assert_eq!(order, [2, 4, 5, 3, 1]);
}

#[test]
fn what_runs_keeps_nobody_back_in_a_strict_line() {
    let grows = Ticket { starts: false, ..alone(1, "strict", 5) };
    let mut repair = Ticket { starts: false, ..alone(2, "strict", 9) };
    repair.rank.urgency = 0;
    let mut jobs = backlog([grows, repair, alone(3, "strict", 0)]);
    jobs.set_line(&"strict".into(), 1000, true, &"strict".into());
    for job in [2, 1] {
        assert_eq!(take(&mut jobs), Some(job));
        jobs.park(JobId(job), room(1), "no room");
    }
    assert_eq!(take(&mut jobs), Some(3));
}

#[test]
fn nobody_keeps_back_what_runs_in_a_strict_line() {
    let grows = Ticket { starts: false, ..alone(3, "strict", 0) };
    let mut jobs = backlog([alone(1, "strict", 9), alone(2, "strict", 5), grows]);
    jobs.set_line(&"strict".into(), 1000, true, &"strict".into());
    assert_eq!(take(&mut jobs), Some(1));
    jobs.park(JobId(1), room(1), "no room");
    assert_eq!(take(&mut jobs), Some(3), "one that grows goes on behind a head that finds no room");
    jobs.park(JobId(3), room(1), "no room");
    assert_eq!(take(&mut jobs), None);
    // The second one was ready to start and stands by now.
    jobs.put(Ticket { starts: false, mark: 1, ..alone(2, "strict", 5) });
    assert_eq!(take(&mut jobs), Some(2));
}

#[test]
fn a_strict_line_serves_one_after_the_other() {
    let mut jobs = backlog([alone(1, "strict", 5), alone(2, "strict", 0), alone(3, "free", 0)]);
    jobs.set_line(&"strict".into(), 1000, true, &"strict".into());
    // Who is next depends on what comes of the first.
    assert_eq!(take_all(&mut jobs), [1, 3]);
    let fare = jobs.depart(JobId(1), WHOLE / 100);
    assert_eq!(take_all(&mut jobs), [2]);
    jobs.settle(fare, 0, 1);
    jobs.park(JobId(2), room(1), "no room");
    jobs.put(alone(4, "strict", -1));
    assert!(take(&mut jobs).is_none(), "one that finds no room keeps back those behind it");
    jobs.wake_room(ResourceId(0), 1);
    assert_eq!(take_all(&mut jobs), [2]);
}

#[test]
fn without_strictness_others_of_the_line_pass_by() {
    let mut jobs = backlog([alone(1, "full", 5), alone(2, "full", 0)]);
    assert_eq!(take(&mut jobs), Some(1));
    jobs.park(JobId(1), quota(), "no quota");
    assert_eq!(take_all(&mut jobs), [2]);
}

#[test]
fn a_change_of_a_parked_job_makes_it_ready() {
    let mut jobs = backlog([ticket(1, "", 0, "same"), ticket(2, "", 0, "same")]);
    assert_eq!(take(&mut jobs), Some(1));
    jobs.park(JobId(1), Blocker::Job, "waits");
    jobs.put(ticket(1, "", 0, "same"));
    assert!(take(&mut jobs).is_none(), "nothing about it changed");
    jobs.put(Ticket { mark: 4, ..ticket(1, "", 0, "same") });
    assert_eq!(take(&mut jobs), Some(1));
}

#[test]
fn a_job_that_waits_for_itself_is_ready_when_it_changes_and_its_kin_never_waited() {
    let mut jobs = backlog([ticket(1, "", 0, "same"), ticket(2, "", 0, "same")]);
    assert_eq!(take(&mut jobs), Some(1));
    jobs.wait_for_change(JobId(1), 900, "backs off");
    assert_eq!(take_all(&mut jobs), [2]);
    jobs.put(ticket(1, "", 0, "same"));
    assert_eq!((take(&mut jobs), jobs.note(JobId(1))), (None, Some(&"backs off")));
    jobs.put(Ticket { mark: 4, ..ticket(1, "", 0, "same") });
    assert_eq!((take(&mut jobs), jobs.next_due_ms()), (Some(1), None));
    jobs.wait_for_change(JobId(1), 900, "backs off");
    jobs.due(900);
    assert_eq!(take(&mut jobs), Some(1));
}

#[test]
fn waiting_jobs_come_back_at_their_entry_or_moment() {
    let mut jobs = backlog([alone(1, "", 0), alone(2, "", 0)]);
    assert_eq!(take_all(&mut jobs), [1, 2]);
    jobs.wait_for(JobId(1), Index(40));
    jobs.wait_until(JobId(2), 900, "collided");
    jobs.put(Ticket { mark: 7, ..alone(2, "", 0) });
    jobs.reached(Index(39));
    jobs.due(899);
    assert_eq!((take(&mut jobs), jobs.next_due_ms(), jobs.note(JobId(2))), (None, Some(900), Some(&"collided")));
    jobs.reached(Index(41));
    jobs.due(900);
    assert_eq!(take_all(&mut jobs), [1, 2]);
}

#[test]
fn a_lost_shard_takes_its_jobs_along() {
    let mut jobs = backlog((0..10).map(|job| alone(job, "", 0)));
    jobs.drop_shard(Shard { class: Class::BATCH, number: 1 });
    assert_eq!(take_all(&mut jobs), [0, 2, 4, 6, 8]);
}

/// Whatever is done, no job is forgotten: after a sweep and enough time each one is handed out again.
#[test]
fn nothing_is_ever_forgotten() {
    for seed in 0..200 {
        let mut dice = Prng::new(seed);
        let mut jobs: Backlog<&'static str> = Backlog::default();
        let (mut alive, mut taken) = (BTreeSet::new(), BTreeSet::new());
        let lines: [Arc<str>; 2] = ["a".into(), "b".into()];
        jobs.set_line(&lines[0], 3000, dice.chance(500), &"root".into());
        for step in 0..400u64 {
            let job = dice.below(40);
            match dice.below(9) {
                0..=2 => {
                    let kin = dice.below(5).to_string();
                    let mut ticket = ticket(job, &lines[dice.below(2) as usize], dice.below(3) as i32, &kin);
                    (ticket.mark, ticket.rank.urgency) = (dice.below(2), dice.below(3) as u8);
                    ticket.starts = dice.chance(700);
                    jobs.put(ticket);
                    alive.insert(job);
                }
                3 => {
                    jobs.remove(JobId(job));
                    alive.remove(&job);
                    taken.remove(&job);
                }
                4..=6 => taken.extend(take(&mut jobs)),
                7 => jobs.wake_room(ResourceId(0), dice.below(10) as i64),
                _ => jobs.wake_blocked(&quota()),
            }
            while let Some(job) = taken.pop_first() {
                match dice.below(5) {
                    0 => jobs.give_back(JobId(job)),
                    1 => jobs.park(JobId(job), room(dice.below(10) as i64), "room"),
                    2 => jobs.park(JobId(job), quota(), "quota"),
                    3 => jobs.wait_until(JobId(job), step + dice.below(50), "until"),
                    _ => jobs.wait_for(JobId(job), Index(step + dice.below(50))),
                }
            }
            jobs.due(step);
            jobs.reached(Index(step));
        }
        assert_eq!(jobs.len(), alive.len());
        jobs.due(1000);
        jobs.reached(Index(1000));
        let mut seen = BTreeSet::new();
        while seen.len() < alive.len() {
            let before = seen.len();
            while !jobs.sweep(2) {}
            while let Some(job) = take(&mut jobs) {
                seen.insert(job);
                jobs.remove(JobId(job));
            }
            assert!(seen.len() > before, "seed {seed}: {} of {} came back", seen.len(), alive.len());
        }
        assert_eq!(seen, alive, "seed {seed}");
    }
}

#[test]
fn two_hundred_thousand_equal_jobs_cost_one_plan_per_change() {
    let mut jobs = backlog((0..200_000).map(|job| ticket(job, "", 0, "same")));
    let mut plans = 0;
    for _ in 0..100 {
        while let Some(job) = take(&mut jobs) {
            plans += 1;
            jobs.park(JobId(job), room(4), "full");
        }
        jobs.wake_room(ResourceId(0), 4);
    }
    assert_eq!(plans, 100);
}

#[test]
fn a_line_that_others_serve_is_waited_for_when_its_turn_comes() {
    let mut jobs = backlog((0..8).map(|job| alone(job, "light", 0)));
    let (heavy, light, far) = (Arc::from("heavy"), Arc::from("light"), Arc::from("far"));
    let due = Others { have_work: true, ..Others::default() };
    let root = |name: &str| Arc::from(name);
    jobs.set_line(&heavy, 3000, false, &root("all"));
    jobs.set_line(&light, 1000, false, &root("all"));
    jobs.set_line(&far, 1000, false, &root("elsewhere"));
    jobs.set_others(&far, due);
    let place = |jobs: &mut Backlog<&'static str>| {
        let Some(job) = take(jobs) else { return false };
        jobs.depart(JobId(job), WHOLE / 100).is_some()
    };
    assert!(
        place(&mut jobs) && place(&mut jobs),
        "no line of the tree is served by others, and other trees don't count"
    );
    jobs.set_others(&heavy, due);
    assert!(!place(&mut jobs) && !jobs.has_ready(), "it is the turn of the heavy line");
    assert_eq!(jobs.lines().waits().values().next(), Some(&heavy));
    (0..3).for_each(|_| jobs.charge_abroad(&heavy, WHOLE / 100));
    assert!(place(&mut jobs), "others have placed three jobs of it");
    assert!(!place(&mut jobs), "it is its turn again");
    jobs.set_others(&heavy, Others { are_passed: true, ..due });
    assert!(place(&mut jobs) && jobs.lines().waits().is_empty(), "it is waited for no more");
    jobs.set_others(&heavy, due);
    assert!(!place(&mut jobs), "and is again");
    jobs.charge_abroad(&heavy, WHOLE);
    jobs.set_others(&light, Others { come_first: true, ..due });
    assert!(!place(&mut jobs), "it is the turn of the light line, and in it that of others");
    assert_eq!(jobs.lines().waits().values().next(), Some(&light));
    jobs.set_others(&light, due);
    assert!(place(&mut jobs), "they have caught up");
    jobs.set_others(&light, Others::default());
    jobs.set_others(&heavy, Others::default());
    assert!(place(&mut jobs) && jobs.lines().waits().is_empty(), "nobody has work of it any more");
}
