//! Whom jobs of queues stop for room: each run is open by itself, and the log agrees with every answer.

use super::preemption::put;
use super::preemption_room::{check_next, plan, text};
use super::{fresh, fresh_of};
use ohm_framework::{Decision, PlannedJob, Planner};
use ohm_model::{
    BorrowWithinCohort, Command, FairSharing, PreemptionNeed, PreemptionPolicy, QueuePreemption, Scheduling, need_of,
};
use ohm_placement::fixture::World;
use ohm_stdx::Prng;
use std::collections::BTreeSet;

/// Queues `a` and `b` of 4 cpus each with 4 more above them; `a` takes back what `b` borrows.
fn with_queues(world: &mut World) {
    let reclaim = QueuePreemption { reclaim_within_cohort: PreemptionPolicy::Any, ..QueuePreemption::default() };
    put(world, &[("all", "", 4, None), ("a", "all", 4, Some(reclaim)), ("b", "all", 4, Some(Default::default()))]);
}

#[test]
fn the_search_goes_on_without_what_is_within_its_own_by_then() {
    let mut planner = fresh_of("service");
    let mut world = World::of("node n1 cpu=7\n", &mut planner);
    with_queues(&mut world);
    world.extend("job solo class=service\ngroup g cpu=1\nplace solo\nwait 1000", &mut planner);
    world.extend("job web class=service queue=b\ngroup g count=6 cpu=1\nplace web", &mut planner);
    world.extend("job big class=batch queue=a priority=5\ngroup g cpu=3", &mut fresh());
    check_next(&mut world, "big", &mut fresh(), "web 4 5, solo 0 -> 1 on n1");
}

#[test]
fn a_service_takes_as_many_rooms_as_its_quota_has() {
    let mut planner = fresh_of("service");
    let mut world = World::of("node n1 cpu=8\n", &mut planner);
    with_queues(&mut world);
    world.extend("job low class=service\ngroup g count=8 cpu=1\nplace low", &mut planner);
    world.extend("job web class=service queue=b priority=5\ngroup g count=20 min=1 cpu=2", &mut planner);
    check_next(&mut world, "web", &mut planner, "low 0 1 2 3 4 5 6 7 -> 4 on n1");
}

#[test]
fn what_is_lent_elsewhere_does_not_use_up_what_may_be_taken_here() {
    let mut planner = fresh_of("service");
    let mut world = World::of("node n1 cpu=4 rack=a\nnode n2 cpu=2 rack=b\n", &mut planner);
    with_queues(&mut world);
    world.extend("job web class=service queue=b\ngroup g count=6 cpu=1\nplace web", &mut planner);
    world.extend("job big class=batch queue=a priority=5\ngroup g cpu=2 select=rack:a", &mut fresh());
    check_next(&mut world, "big", &mut fresh(), "web 2 3 -> 1 on n1");
}

#[test]
fn a_service_that_may_not_borrow_takes_back_its_own() {
    let mut planner = fresh_of("service");
    let mut world = World::of("node n1 cpu=6\n", &mut planner);
    with_queues(&mut world);
    world.extend("job lent class=service queue=b\ngroup g count=6 cpu=1\nplace lent", &mut planner);
    world.extend("job web class=service queue=a priority=5\ngroup g count=6 min=1 elastic cpu=1", &mut planner);
    check_next(&mut world, "web", &mut planner, "lent 4 5 -> 2 on n1");
}

#[test]
fn a_queue_may_take_back_once_its_own_have_stopped() {
    let mut world = World::of("node n1 cpu=4\n", &mut fresh());
    let policy = QueuePreemption {
        within_cluster_queue: PreemptionPolicy::LowerPriority,
        reclaim_within_cohort: PreemptionPolicy::Any,
        ..QueuePreemption::default()
    };
    put(&mut world, &[("all", "", 4, None), ("a", "all", 4, Some(policy)), ("b", "all", 0, Some(policy))]);
    for job in ["low queue=a", "bj queue=b"] {
        let name = job.split(' ').next().expect("a name");
        world.extend(&format!("job {job}\ngroup g cpu=2\nplace {name}\nwait 1000"), &mut fresh());
    }
    world.extend("job big queue=a priority=5\ngroup g cpu=4", &mut fresh());
    check_next(&mut world, "big", &mut fresh(), "bj, low -> 1 on n1");
}

#[test]
fn who_is_within_its_own_once_a_gang_has_stopped_goes_before_it() {
    let mut world = World::of("node n1 cpu=6\n", &mut fresh());
    let reclaim = QueuePreemption { reclaim_within_cohort: PreemptionPolicy::Any, ..QueuePreemption::default() };
    put(
        &mut world,
        &[("all", "", 0, None), ("a", "all", 10, Some(reclaim)), ("b", "all", 2, Some(Default::default()))],
    );
    world.extend(
        "job gang queue=b priority=1\ngroup g count=5 min=3 elastic cpu=1\nplace gang\nwait 1000",
        &mut fresh(),
    );
    world.extend("job single queue=b\ngroup g cpu=1\nplace single", &mut fresh());
    world.extend("job big queue=a priority=5\ngroup g cpu=6", &mut fresh());
    check_next(&mut world, "big", &mut fresh(), "single, gang -> 1 on n1");
}

#[test]
fn the_log_agrees_where_queues_say_who_may_be_stopped() {
    let (mut found, mut by_rule) = (0, BTreeSet::new());
    for seed in 0..600 {
        let mut dice = Prng::new(seed);
        let mut world = World::of("node n1 cpu=6\nnode n2 cpu=6\nnode n3 cpu=4\n", &mut fresh());
        let mut told = draw_queues(&mut world, &mut dice);
        for at in 0..8 + dice.below(8) {
            let (class, priority) = (*dice.pick(&["batch", "service"]).expect("a class"), dice.below(3));
            told += &add_job(&mut world, &mut dice, (at, class, priority));
            world.place(&format!("j{at}"), &mut fresh_of(class));
            world.extend("wait 1000", &mut fresh());
        }
        let (class, priority) = (*dice.pick(&["batch", "service"]).expect("a class"), 1 + dice.below(4));
        told += &add_job(&mut world, &mut dice, (99, class, priority));
        let mut planner = fresh_of(class);
        planner.reset(&ohm_framework::View::new(&world.cell, &Default::default(), world.session));
        let Some(planned) = plan(&world, "j99", &mut planner).filter(is_for_room) else { continue };
        found += 1;
        by_rule.extend(planned.preempt.iter().map(|victim| (victim.reason, victim.is_whole())));
        told += &format!("# {}\n", text(&world, &planned));
        let verdict = world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
        assert_eq!(verdict.conflicts, vec![], "seed {seed}:\n{told}");
        assert_eq!(world.cell.invariants(), Vec::<String>::new(), "seed {seed}:\n{told}");
    }
    assert!(found > 60 && by_rule.len() > 6, "only {found} jobs stopped others, by {by_rule:?}");
}

fn is_for_room(planned: &PlannedJob) -> bool {
    need_of(&planned.preempt) == PreemptionNeed::Room
}

/// Three queues of a cohort and one beside them, with drawn quotas and policies.
fn draw_queues(world: &mut World, dice: &mut Prng) -> String {
    use PreemptionPolicy::{Any, LowerOrNewerEqualPriority, LowerPriority, Never};
    let mut queues = vec![("all", "", 8, None)];
    for (name, parent) in [("a", "all"), ("b", "all"), ("c", "all"), ("d", "")] {
        let reclaim = *dice.pick(&[Never, LowerPriority, Any]).expect("a policy");
        let lower_priority = reclaim != Never && dice.chance(500);
        let preemption = QueuePreemption {
            within_cluster_queue: *dice.pick(&[Never, LowerOrNewerEqualPriority]).expect("a policy"),
            reclaim_within_cohort: reclaim,
            borrow_within_cohort: BorrowWithinCohort { lower_priority, max_priority_threshold: None },
            outside_root: *dice.pick(&[Never, LowerPriority]).expect("a policy"),
        };
        queues.push((name, parent, 1 + dice.below(4) as i64, Some(preemption)));
    }
    put(world, &queues);
    let is_fair = dice.chance(300);
    if is_fair {
        let fair_sharing = Some(FairSharing::default());
        world.apply(Command::PutScheduling(Scheduling { fair_sharing }));
    }
    format!("fair sharing: {is_fair}, {queues:?}\n")
}

/// Submits a job of a drawn queue and shape, and says what it is.
fn add_job(world: &mut World, dice: &mut Prng, (at, class, priority): (u64, &str, u64)) -> String {
    let queue = *dice.pick(&["", " queue=a", " queue=b", " queue=c", " queue=d"]).expect("a queue");
    let elastic = if dice.chance(300) { " min=1 elastic" } else { "" };
    let (count, cpus) = (1 + dice.below(4), 1 + dice.below(3));
    let job =
        format!("job j{at} class={class}{queue} priority={priority}\ngroup g count={count} cpu={cpus}{elastic}\n");
    world.extend(&job, &mut fresh_of(class));
    job
}
