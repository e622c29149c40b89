//! Whom jobs stop that lack quota: rules of Kueue, what Ohm does better, and that the log agrees with every answer.

use super::fresh;
use ohm_cell::{Cell, Job, Overlay, Scratch, WhatIf, lay_preemption};
use ohm_framework::preempt::plan_preemption;
use ohm_framework::victims::victims;
use ohm_framework::{Board, Decision, LiveJobs, PlannedJob};
use ohm_model::{
    BorrowWithinCohort, Command, Epoch, Exit, FairSharing, Grain, JobGuard, Outcome, PreemptionPolicy, QueuePreemption,
    QueueSpec, RunReport, RunReportKind, Scheduling, Transaction, Victim,
};
use ohm_placement::fixture::World;
use ohm_stdx::Prng;
use std::sync::Arc;

const NODES: &str = "node n1 cpu=40\n node n2 cpu=40";

fn policy(within: PreemptionPolicy, reclaim: PreemptionPolicy) -> QueuePreemption {
    QueuePreemption { within_cluster_queue: within, reclaim_within_cohort: reclaim, ..QueuePreemption::default() }
}

/// Queues and cohorts as (name, parent, cpus, policy); a cohort has none.
pub(super) fn put(world: &mut World, queues: &[(&str, &str, i64, Option<QueuePreemption>)]) {
    for &(name, parent, cpus, preemption) in queues {
        world.apply(Command::PutQueue(QueueSpec {
            name: name.into(),
            is_cohort: preemption.is_none(),
            parent: parent.into(),
            nominal: [("cpu".to_string(), cpus * 1000)].into(),
            preemption: preemption.unwrap_or_default(),
            ..QueueSpec::default()
        }));
    }
}

/// Submits jobs as (name, queue, priority, cpus), and places them as they come.
fn stand(world: &mut World, jobs: &[(&str, &str, i32, u32)]) {
    let mut planner = fresh();
    for (name, queue, priority, cpus) in jobs {
        let text = format!("job {name} queue={queue} priority={priority}\n group g count={cpus} cpu=1\n place {name}");
        world.extend(&text, &mut planner);
    }
}

/// Whom a job stops while nothing is under way.
fn whom(cell: &Cell, job: &Job) -> Vec<Victim> {
    victims(WhatIf { cell, over: &Overlay::default() }, job, &[])
}

/// Whom the job `name` stops, with the rule.
fn stops(world: &World, name: &str) -> Vec<String> {
    let job = world.cell.jobs().get(world.job(name)).expect("the job");
    let named = |victim: &Victim| {
        let job = world.cell.jobs().get(victim.job).expect("the victim");
        format!("{} {}", job.spec.name, victim.reason.name())
    };
    whom(&world.cell, job).iter().map(named).collect()
}

pub(super) fn plan(world: &World, name: &str) -> Option<PlannedJob> {
    let (mut planner, mut over) = (fresh(), Overlay::default());
    let Decision::Unplaced(why) = world.plan(name, &mut planner) else { panic!("{name} is placed") };
    let mut board = Board::new(&world.cell, &mut over, world.session);
    let mut live = LiveJobs::of(&world.cell);
    plan_preemption(&mut planner, &mut board, world.item(name), (&why, &mut live), &mut Prng::new(1)).planned
}

/// Two queues with 4 cpus each: `b` may stop less important work of its own, and takes back what is lent.
fn two_queues() -> World {
    let mut world = World::of(NODES, &mut fresh());
    let any = policy(PreemptionPolicy::LowerPriority, PreemptionPolicy::Any);
    put(&mut world, &[("all", "", 0, None), ("a", "all", 4, Some(any)), ("b", "all", 4, Some(any))]);
    world
}

#[test]
fn the_least_important_and_youngest_of_a_queue_that_borrows_goes_first() {
    let mut world = two_queues();
    stand(&mut world, &[("old", "a", 0, 2), ("young", "a", 0, 2), ("high", "a", 5, 2), ("low", "a", -1, 1)]);
    world.extend("job b1 queue=b\n group g count=2 cpu=1", &mut fresh());
    assert_eq!(stops(&world, "b1"), ["low InCohortReclamation"], "1 of the 8 is free, low has the other");
    world.extend("job b2 queue=b\n group g count=3 cpu=1", &mut fresh());
    assert_eq!(stops(&world, "b2"), ["young InCohortReclamation"], "with it low is needless");
}

#[test]
fn a_queue_takes_back_no_more_than_its_own() {
    let mut world = two_queues();
    stand(&mut world, &[("a1", "a", 0, 4), ("b1", "b", 0, 4)]);
    world.extend("job b2 queue=b\n group g count=1 cpu=1", &mut fresh());
    assert!(stops(&world, "b2").is_empty(), "nobody borrows");
    world.extend("job b3 queue=b priority=1\n group g count=1 cpu=1", &mut fresh());
    assert_eq!(stops(&world, "b3"), ["b1 InClusterQueue"], "a gang is stopped whole");
}

#[test]
fn nobody_is_stopped_for_a_job_that_finds_no_node_then() {
    let mut world = two_queues();
    stand(&mut world, &[("a1", "a", 0, 4), ("a2", "a", 0, 4)]);
    world.extend("job b1 queue=b\n group g count=2 cpu=1 select=kind:none", &mut fresh());
    assert_eq!(stops(&world, "b1"), ["a2 InCohortReclamation"]);
    assert!(plan(&world, "b1").is_none());
    world.extend("job b2 queue=b\n group g count=2 cpu=1", &mut fresh());
    let planned = plan(&world, "b2").expect("a plan");
    assert_eq!((planned.preempt.len(), planned.place.len()), (1, 0));
    let kept: u32 = planned.nominate.iter().map(|room| room.count).sum();
    assert_eq!(kept, 2, "room is kept for all of it");
}

#[test]
fn under_fair_sharing_the_larger_share_gives_way_and_no_job_comes_back_for_it() {
    let mut world = World::of(NODES, &mut fresh());
    let any = policy(PreemptionPolicy::Never, PreemptionPolicy::Any);
    let queue = |name| (name, "all", 0, Some(any));
    put(&mut world, &[("all", "", 9, None), queue("a"), queue("b"), queue("c")]);
    world.apply(Command::PutScheduling(Scheduling { fair_sharing: Some(FairSharing::default()) }));
    stand(&mut world, &[("a1", "a", 0, 3), ("a2", "a", 0, 3), ("b1", "b", 0, 3)]);
    world.extend("job c1 queue=c\n group g count=3 cpu=1", &mut fresh());
    assert_eq!(stops(&world, "c1"), ["a2 InCohortFairSharing"], "a has 6 of 9, b has 3");
    world.extend("job c2 queue=c priority=9\n group g count=6 cpu=1", &mut fresh());
    assert!(stops(&world, "c2").is_empty(), "it would have more than is left to anybody");
}

#[test]
fn of_equal_cohorts_the_one_with_the_least_important_job_gives_way() {
    let mut world = World::of(NODES, &mut fresh());
    let any = policy(PreemptionPolicy::Never, PreemptionPolicy::Any);
    let cohorts = [("root", "", 8, None), ("left", "root", 0, None), ("right", "root", 0, None)];
    put(&mut world, &cohorts);
    put(&mut world, &[("l", "left", 0, Some(any)), ("r", "right", 0, Some(any)), ("mine", "root", 4, Some(any))]);
    world.apply(Command::PutScheduling(Scheduling { fair_sharing: Some(FairSharing::default()) }));
    stand(&mut world, &[("l1", "l", 1, 6), ("r1", "r", 7, 6)]);
    world.extend("job m1 queue=mine\n group g count=4 cpu=1", &mut fresh());
    assert_eq!(stops(&world, "m1"), ["l1 InCohortReclamation"]);
}

/// A tree of drawn quotas and policies, with jobs that stand and jobs that wait.
fn drawn(seed: u64) -> (World, Vec<String>) {
    let (mut dice, mut world) = (Prng::new(seed), World::of(NODES, &mut fresh()));
    use PreemptionPolicy::{Any, LowerOrNewerEqualPriority, LowerPriority, Never};
    let mut quota = |most: u64| dice.below(most) as i64;
    put(&mut world, &[("root", "", quota(4), None), ("left", "root", quota(3), None), ("right", "root", 0, None)]);
    for (name, parent) in [("a", "left"), ("b", "left"), ("c", "right"), ("d", "root"), ("e", "")] {
        let within = [Never, LowerPriority, LowerOrNewerEqualPriority][dice.below(3) as usize];
        let reclaim = [LowerPriority, Any, Any][dice.below(3) as usize];
        let threshold = dice.chance(500).then_some(1);
        let borrow = BorrowWithinCohort { lower_priority: dice.chance(400), max_priority_threshold: threshold };
        let preemption = QueuePreemption { borrow_within_cohort: borrow, ..policy(within, reclaim) };
        put(&mut world, &[(name, parent, dice.below(6) as i64, Some(preemption))]);
    }
    if seed.is_multiple_of(2) {
        world.apply(Command::PutScheduling(Scheduling { fair_sharing: Some(FairSharing::default()) }));
    }
    let (mut planner, mut waiting) = (fresh(), Vec::new());
    for number in 0..24 {
        let (queue, priority) = (["a", "b", "c", "d", "e"][dice.below(5) as usize], dice.below(4));
        let (name, cpus) = (format!("j{number}"), dice.between(1, 3));
        world.extend(
            &format!("job {name} queue={queue} priority={priority}\n group g count={cpus} cpu=1"),
            &mut planner,
        );
        if !world.place(&name, &mut planner).1.is_some_and(|verdict| verdict.conflicts.is_empty()) {
            waiting.push(name);
        }
    }
    (world, waiting)
}

fn transaction(world: &World, job: &Job, preempt: Vec<Victim>) -> Transaction {
    let guard = JobGuard { job: job.id, version: job.version, reserved: false };
    let empty = Transaction::empty(job.shard, Epoch(1), world.cell.applied(), Grain::AllOrNothing);
    Transaction { jobs: vec![guard], preempt, ..empty }
}

#[test]
fn the_log_agrees_with_every_answer() {
    let mut found = 0;
    for seed in 0..200 {
        let (world, waiting) = drawn(seed);
        for name in waiting {
            let job: &Job = world.cell.jobs().get(world.job(&name)).expect("the job");
            let preempt = whom(&world.cell, job);
            if preempt.is_empty() {
                continue;
            }
            found += 1;
            let transaction = transaction(&world, job, preempt);
            let verdict = world.cell.judge(world.session, &transaction, &mut Scratch::default());
            assert!(
                verdict.conflicts.is_empty(),
                "seed {seed}, job {name}: {:?} of {transaction:?}",
                verdict.conflicts
            );
        }
    }
    assert!(found > 200, "only {found} jobs stopped others");
}

/// What is under way and not judged yet counts: the log takes one after the other.
#[test]
fn several_under_way_do_not_collide() {
    let mut found = 0;
    for seed in 0..200 {
        let (mut world, waiting) = drawn(seed);
        let (mut over, mut sent) = (Overlay::default(), Vec::new());
        for name in waiting {
            let job: &Job = world.cell.jobs().get(world.job(&name)).expect("the job");
            let preempt = victims(WhatIf { cell: &world.cell, over: &over }, job, &[]);
            if !preempt.is_empty() {
                let transaction = transaction(&world, job, preempt);
                lay_preemption(&mut over, job.id, &transaction);
                sent.push(transaction);
            }
        }
        found += sent.len().saturating_sub(1);
        for transaction in sent {
            let verdict = world.apply(Command::Commit(transaction));
            let accepted = matches!(&verdict, Outcome::Verdict(verdict) if verdict.conflicts.is_empty());
            assert!(accepted, "seed {seed}: {verdict:?}");
        }
    }
    assert!(found > 50, "only {found} were sent behind others");
}

/// Every waiting job in turn stops whom it may and is placed. Returns how many were stopped.
fn one_round(world: &mut World, names: &[String]) -> usize {
    let (mut planner, mut stopped) = (fresh(), 0);
    for name in names {
        let job = Arc::clone(world.cell.jobs().get(world.job(name)).expect("the job"));
        if job.live() > 0 {
            continue;
        }
        let preempt = whom(&world.cell, &job);
        stopped += preempt.len();
        if !preempt.is_empty() {
            let transaction = transaction(world, &job, preempt);
            let verdict = world.apply(Command::Commit(transaction));
            assert!(matches!(&verdict, Outcome::Verdict(verdict) if verdict.conflicts.is_empty()), "{verdict:?}");
        }
        let stopping: Vec<_> = world.cell.runs().iter().filter(|(_, run)| run.stop.is_some()).collect();
        let ended: Vec<_> = stopping.iter().map(|(_, run)| (run.node, run.run)).collect();
        for (node, run) in ended {
            let kind = RunReportKind::Ended { exit: Exit::Signal(15), message: String::new() };
            world.apply(Command::Report { node, reports: vec![RunReport { run, kind }] });
        }
        world.place(name, &mut planner);
        assert_eq!(world.cell.invariants(), Vec::<String>::new());
    }
    stopped
}

#[test]
fn jobs_do_not_stop_each_other_for_ever() {
    for seed in 0..120 {
        let (mut world, _) = drawn(seed);
        let names: Vec<String> = (0..24).map(|number| format!("j{number}")).collect();
        let rounds = (0..40).take_while(|_| one_round(&mut world, &names) > 0).count();
        assert!(rounds < 40, "seed {seed}: jobs are stopped for each other in each of {rounds} rounds");
    }
}
