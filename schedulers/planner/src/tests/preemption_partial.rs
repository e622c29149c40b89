//! Jobs whose groups may start with fewer tasks stop others for as many as these have enough for.

use super::fresh;
use super::preemption::{plan, put};
use super::preemption_room::{check_next, end_one, end_stopping, text};
use ohm_framework::Decision;
use ohm_model::{PreemptionNeed, PreemptionPolicy, QueuePreemption, need_of};
use ohm_placement::fixture::World;
use ohm_stdx::Prng;

fn reclaims() -> QueuePreemption {
    QueuePreemption { reclaim_within_cohort: PreemptionPolicy::Any, ..QueuePreemption::default() }
}

/// Queues `a` and `b` of 4 cpus each; eight jobs of `b` have all 8, the last one is the youngest.
fn all_lent() -> World {
    let mut planner = fresh();
    let mut world = World::of("node n1 cpu=8\n", &mut planner);
    put(&mut world, &[("all", "", 0, None), ("a", "all", 4, Some(reclaims())), ("b", "all", 4, Some(reclaims()))]);
    for number in 1..=8 {
        world.extend(&format!("job b{number} queue=b\ngroup g cpu=1\nplace b{number}\nwait 1000"), &mut planner);
    }
    world
}

fn check(job: &str, expected: &str) {
    let mut world = all_lent();
    world.extend(job, &mut fresh());
    let name = job.split_whitespace().nth(1).expect("a name");
    check_next(&mut world, name, &mut fresh(), expected);
}

#[test]
fn a_job_stops_others_for_as_many_as_its_queue_may_take_back() {
    check("job big queue=a\ngroup g count=4 cpu=1", "b8, b7, b6, b5 -> 4 on n1");
    check("job big queue=a\ngroup g count=6 cpu=1", "nobody");
    check("job big queue=a\ngroup g count=6 min=2 cpu=1", "b8, b7, b6, b5 -> 4 on n1");
    check("job big queue=a\ngroup g count=6 min=5 cpu=1", "nobody");
    check("job big queue=a\ngroup g count=9 min=2 cpu=3", "nobody");
}

#[test]
fn each_group_goes_without_the_same_part() {
    let two = "job two queue=a\ngroup g count=4 min=1 cpu=1\ngroup h count=4 min=1 cpu=1";
    check(two, "b8, b7, b6, b5 -> 2 on n1, 2 on n1");
}

#[test]
fn no_more_are_stopped_than_find_room() {
    let mut planner = fresh();
    let mut world = World::of("node n1 cpu=3 rack=a\nnode n2 cpu=5 rack=b\n", &mut planner);
    put(&mut world, &[("all", "", 0, None), ("a", "all", 8, Some(reclaims())), ("b", "all", 0, Some(reclaims()))]);
    for number in 1..=8 {
        let rack = if number <= 5 { "b" } else { "a" };
        let job = format!("job b{number} queue=b\ngroup g cpu=1 select=rack:{rack}\nplace b{number}\nwait 1000");
        world.extend(&job, &mut planner);
    }
    world.extend("job big queue=a\ngroup g count=5 min=1 cpu=1 select=rack:a", &mut planner);
    check_next(&mut world, "big", &mut planner, "b8, b7, b6 -> 3 on n1");
}

#[test]
fn a_queue_takes_back_its_own_of_who_has_more() {
    let mut planner = fresh();
    let mut world = World::of("node n1 cpu=3\n", &mut planner);
    put(&mut world, &[("all", "", 0, None), ("a", "all", 2, Some(reclaims())), ("b", "all", 1, Some(reclaims()))]);
    world.extend("job lent queue=b\ngroup g count=3 cpu=1\nplace lent", &mut planner);
    world.extend("job big queue=a\ngroup g count=4 min=2 cpu=1", &mut planner);
    check_next(&mut world, "big", &mut planner, "lent -> 2 on n1");
}

/// Others stop one after the other: the job does not start with fewer tasks meanwhile.
#[test]
fn the_job_waits_until_all_have_stopped() {
    let (mut world, mut planner) = (all_lent(), fresh());
    world.extend("job big queue=a\ngroup g count=6 min=2 cpu=1", &mut planner);
    check_next(&mut world, "big", &mut planner, "b8, b7, b6, b5 -> 4 on n1");
    for left in (0..4).rev() {
        end_one(&mut world);
        let (_, verdict) = world.place("big", &mut planner);
        assert_eq!(verdict.is_some(), left == 0, "{left} stop still");
    }
    assert_eq!(world.cell.jobs().get(world.job("big")).expect("the job").live(), 4);
}

/// In drawn cells: the log takes every answer, and the job starts with no fewer tasks once its victims have ended.
#[test]
fn the_log_agrees_and_the_job_starts_with_what_it_was_promised() {
    let (mut found, mut fewer) = (0, 0);
    for seed in 0..400 {
        let (mut dice, mut planner) = (Prng::new(seed), fresh());
        let mut world = World::of("node n1 cpu=6\nnode n2 cpu=6\n", &mut planner);
        let own = [2 + dice.below(4) as i64, 2 + dice.below(4) as i64, dice.below(3) as i64];
        let within = PreemptionPolicy::LowerPriority;
        let policy = QueuePreemption { within_cluster_queue: within, ..reclaims() };
        put(
            &mut world,
            &[("all", "", own[2], None), ("a", "all", own[0], Some(policy)), ("b", "all", own[1], Some(policy))],
        );
        for number in 0..10 {
            let (queue, priority, count) = (dice.pick(&["a", "b"]).expect("one"), dice.below(3), 1 + dice.below(6));
            let (least, cpus, name) = (1 + dice.below(count), 1 + dice.below(2), format!("j{number}"));
            let group = format!("group g count={count} min={least} cpu={cpus}");
            world.extend(&format!("wait 500\njob {name} queue={queue} priority={priority}\n{group}"), &mut planner);
            let (_, verdict) = world.place(&name, &mut planner);
            if verdict.is_some() {
                continue;
            }
            let Some(planned) = plan(&world, &name) else { continue };
            let told = text(&world, &planned);
            let rooms: u32 = planned.nominate.iter().map(|room| room.count).sum();
            let is_for_quota = need_of(&planned.preempt) == PreemptionNeed::Quota;
            let verdict = world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
            assert_eq!(verdict.conflicts, vec![], "seed {seed}, {name}: {told}");
            end_stopping(&mut world);
            world.place(&name, &mut planner);
            let job = world.cell.jobs().get(world.job(&name)).expect("the job");
            assert!(job.live() >= rooms, "seed {seed}, {name}: {} tasks stand, {told}", job.live());
            assert_eq!(world.cell.invariants(), Vec::<String>::new(), "seed {seed}, {name}: {told}");
            found += 1;
            fewer += u64::from(is_for_quota && u64::from(rooms) < count);
        }
    }
    assert!(found > 100 && fewer > 20, "{found} stopped others, {fewer} of them for fewer tasks");
}
