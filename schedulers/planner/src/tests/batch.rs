//! Gangs, arrays, growth and backfill as text, and a sweep over random jobs.

use crate::of;
use ohm_framework::{Decision, Obstacle, Planner};
use ohm_model::{Class, Command, SchedulingProfile, ScoreBase};
use ohm_placement::fixture::random::{self, Kinds};
use ohm_placement::fixture::{self, World};
use ohm_stdx::Prng;
use proptest::prelude::*;

fn check(text: &str, expected: &str) {
    fixture::check(&mut of(Class::BATCH), text, expected);
}

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let nodes = "node a cpu=4\n node b cpu=4\n";
    check(&format!("{nodes} job j\n group g count=8 cpu=1"), "g 0-3 on a, 4-7 on b");
    check(
        &format!("{nodes} job j\n group g count=9 cpu=1"),
        "8 of the 9 tasks of group g that must be placed together would find room.
         Of 2 nodes, by the first reason found: 2 can take at least one task.",
    );
    check(&format!("{nodes} job j\n group g count=9 min=5 cpu=1"), "g 0-3 on a, 4-7 on b");
}

#[test]
fn an_array_takes_what_fits_and_grows() {
    let text = "node a cpu=2\n job j\n group g count=4 min=1 elastic cpu=1\n place j\n node b cpu=1\n node c cpu=8";
    let mut planner = of(Class::BATCH);
    let mut world = World::of(text, &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 2 on b, 3 on c");
}

#[test]
fn all_groups_of_a_job_start_in_one_transaction() {
    check(
        "node a cpu=4\n node b cpu=2\n job j\n group head cpu=2\n group work count=2 min=1 cpu=2",
        "head 0 on b\n work 0-1 on a",
    );
    check(
        "node a cpu=4\n job j\n group head cpu=3\n group work count=2 cpu=1",
        "1 of the 2 tasks of group work that must be placed together would find room.
         Room for group head was found and is counted as taken.
         Of 1 node, by the first reason found: 1 can take at least one task.",
    );
}

#[test]
fn later_jobs_are_filled_in_behind_a_blocked_gang() {
    let text =
        "node a cpu=4\n job big\n group g count=5 cpu=1\n job small\n group g count=4 cpu=1\n job tiny\n group g cpu=1";
    let mut planner = of(Class::BATCH);
    let world = World::of(text, &mut planner);
    let decisions = world.plan_all(&["big", "small", "tiny"], &mut planner);
    let Decision::Unplaced(why) = &decisions[0] else { panic!("{decisions:?}") };
    assert_eq!((why.fit, why.of, &why.obstacle), (4, 5, &Obstacle::Room));
    assert_eq!(world.text(&decisions[1]), "g 0-3 on a");
    let Decision::Unplaced(why) = &decisions[2] else { panic!("{decisions:?}") };
    assert_eq!((why.fit, why.of), (0, 1));
}

proptest! {
    /// Jobs that come, end, are stopped and grow: the log takes every plan, and the cell's own invariants hold.
    #[test]
    fn the_log_takes_every_plan(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut planner = of(Class::BATCH);
        let mut world = World::of(&random::nodes(&mut dice), &mut planner);
        let kinds = Kinds { topology: false, class: "batch", groups: true, rules: false };
        let names: Vec<String> = (0..4).map(|number| format!("j{number}")).collect();
        for name in &names {
            world.extend(&random::job(&mut dice, name, kinds), &mut planner);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..3 {
            for decision in world.plan_all(&names, &mut planner) {
                let text = world.text(&decision);
                if let Some(verdict) = world.commit(&decision) {
                    prop_assert_eq!(verdict.conflicts, [], "{}", text);
                }
            }
            prop_assert_eq!(world.cell.invariants(), Vec::<String>::new());
            for _ in 0..3 {
                world.extend(&random::disturbance(&mut dice, &world), &mut planner);
            }
        }
        prop_assert_eq!(planner.class(), Class::BATCH);
    }
}

/// What the planner remembers of a scan is worth nothing once other scores count.
#[test]
fn a_planner_takes_the_profile_that_the_cell_holds_when_it_is_reset() {
    let packing =
        SchedulingProfile { scores: ScoreBase::Packing.scores(), ..SchedulingProfile::built_in(Class::BATCH) };
    let spreading = SchedulingProfile { scores: ScoreBase::Spreading.scores(), ..packing.clone() };
    let mut planner = of(Class::BATCH);
    let text = "node a cpu=8\n node b cpu=8\n job j\n group g cpu=1\n place j\n job k\n group g cpu=1";
    let mut world = World::of(text, &mut planner);
    for (profile, expected) in [(packing.clone(), "g 0 on a"), (spreading, "g 0 on b"), (packing, "g 0 on a")] {
        world.apply(Command::PutSchedulingProfile(Box::new(profile.clone())));
        let decisions = world.plan_all(&["k"], &mut planner);
        assert_eq!((world.text(&decisions[0]).as_str(), planner.profile()), (expected, &profile));
    }
}
