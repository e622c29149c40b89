//! Topology gangs as text, and a sweep over random jobs.

use crate::of;
use ohm_model::{Class, Command, Outcome, Role};
use ohm_placement::fixture::random::{self, Kinds};
use ohm_placement::fixture::{self, World};
use ohm_stdx::Prng;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn check(text: &str, expected: &str) {
    fixture::check(&mut of(Class::TAS), text, expected);
}

const RACKS: &str = "
    topology main zone rack kubernetes.io/hostname
    node a1 cpu=4 zone=1 rack=1
    node a2 cpu=4 zone=1 rack=1
    node b1 cpu=4 zone=1 rack=2
    node c1 cpu=8 zone=2 rack=3
";

#[test]
fn groups_are_placed_in_order_each_seeing_the_former() {
    check(
        &format!(
            "{RACKS} job j class=tas\n group x count=4 cpu=1 topology=required:rack\n group y count=8 cpu=1 topology=required:rack"
        ),
        "x 0-3 on b1
         y 0-3 on a1, 4-7 on a2",
    );
}

#[test]
fn the_host_level_is_the_nodes_themselves() {
    check(
        &format!("{RACKS} job j class=tas\n group g count=5 cpu=1 topology=required:kubernetes.io/hostname"),
        "g 0-4 on c1",
    );
    check(
        &format!("{RACKS} job j class=tas\n group g count=9 cpu=1 topology=required:kubernetes.io/hostname"),
        "9 tasks must be placed in one domain of kubernetes.io/hostname; the best, 2/3/c1, takes 8.
         Of 4 nodes, by the first reason found: 4 can take at least one task.",
    );
}

#[test]
fn a_lost_task_comes_back_inside_its_domain() {
    let text = format!(
        "{RACKS} job j class=tas\n group g count=8 cpu=1 topology=required:zone select=zone:1\n place j\n lose a2"
    );
    let mut planner = of(Class::TAS);
    let mut world = World::of(&text, &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 4-7 on b1");
}

/// What each of so many replicas of the class plans for the same job, in a cell of eight equal racks.
fn planned_by(replicas: u64) -> Vec<String> {
    let racks: String = (1..9).map(|rack| format!("node n{rack} cpu=4 zone=1 rack={rack}\n")).collect();
    let text =
        format!("topology main zone rack\n{racks}job j class=tas\n group g count=4 cpu=1 topology=required:rack");
    let mut world = World::of(&text, &mut of(Class::TAS));
    let open = |nonce| Command::OpenSession { nonce, role: Role::Scheduler(Class::TAS), name: format!("tas-{nonce}") };
    let sessions: Vec<Outcome> = (2..2 + replicas).map(|nonce| world.apply(open(nonce))).collect();
    let plan = |session: Outcome| {
        let Outcome::Session(session) = session else { panic!("no session: {session:?}") };
        world.session = session;
        let decision = world.plan("j", &mut of(Class::TAS));
        world.text(&decision)
    };
    sessions.into_iter().map(plan).collect()
}

#[test]
fn replicas_take_equal_domains_each_in_an_order_of_its_own() {
    assert_eq!(planned_by(1), ["g 0-3 on n1"]);
    let planned = planned_by(4);
    let apart: BTreeSet<&String> = planned.iter().collect();
    assert!(apart.len() >= 3, "four replicas that plan the same collide: {planned:?}");
    assert_eq!(planned, planned_by(4), "the order stays");
}

proptest! {
    /// Gangs come and are stopped, nodes shrink and are lost: the log takes every plan, and no required domain is left.
    #[test]
    fn the_log_takes_every_plan(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut planner = of(Class::TAS);
        let mut world = World::of(&random::nodes(&mut dice), &mut planner);
        let kinds = Kinds { topology: true, class: "tas", groups: true, rules: false };
        for number in 0..4 {
            let name = format!("j{number}");
            let job = random::job(&mut dice, &name, kinds);
            world.extend(&job, &mut planner);
        }
        for round in 0..3 {
            for number in 0..4 {
                let (text, verdict) = world.place(&format!("j{number}"), &mut planner);
                let conflicts = verdict.map(|verdict| verdict.conflicts).unwrap_or_default();
                prop_assert_eq!(conflicts, [], "{}", text);
            }
            prop_assert_eq!(world.cell.invariants(), Vec::<String>::new());
            let lost = format!("n{round}");
            if world.cell.nodes().find(&lost).is_some() && dice.chance(700) {
                world.extend(&format!("lose {lost}"), &mut planner);
            }
            world.extend(&random::disturbance(&mut dice, &world), &mut planner);
        }
    }
}
