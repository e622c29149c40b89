//! Which strategies are tried for a job, and what explanations say of it.

use super::fresh;
use crate::pipeline::Pipeline;
use ohm_framework::{Decision, Tried};
use ohm_model::Strategy;
use ohm_placement::fixture::World;

/// The strategies that were tried for the last of `names` before it was left without all it asks for.
fn tried(text: &str, names: &[&str]) -> Vec<&'static str> {
    let mut planner = fresh();
    let world = World::of(text, &mut planner);
    let why = match world.plan_all(names, &mut planner).pop() {
        Some(Decision::Unplaced(why)) => why,
        Some(Decision::Planned(planned)) => planned.rest.expect("something is left"),
        decision => panic!("{decision:?}"),
    };
    let tried = why.tried.expect("a planner was asked");
    assert_eq!(tried.profile, "batch");
    tried.strategies.iter().map(|strategy| strategy.name()).collect()
}

#[test]
fn a_job_of_one_group_is_searched_for_once() {
    assert_eq!(tried("node a cpu=1\n job j\n group g cpu=2", &["j"]), ["Place"]);
}

#[test]
fn groups_that_take_each_others_room_are_tried_in_other_orders() {
    let groups = "group g count=2 min=1 cpu=2\n group h cpu=3";
    assert_eq!(
        tried(&format!("node a cpu=4\n job j\n {groups}"), &["j"]),
        ["Place", "MinimumsFirst", "HardestFirst", "JointPacking"]
    );
}

#[test]
fn other_orders_are_tried_where_domains_decide() {
    let nodes = "topology main rack\n node a cpu=4 rack=r\n";
    let groups = "group g count=2 min=1 cpu=2 topology=required:rack\n group h cpu=3";
    assert_eq!(
        tried(&format!("{nodes} job j\n {groups}"), &["j"]),
        ["Place", "MinimumsFirst", "HardestFirst", "JointPacking", "OtherOrders"]
    );
}

#[test]
fn spares_are_asked_for_at_first_and_lent_at_last() {
    let nodes = "node a cpu=2\n node b cpu=2\n node c cpu=2\n node d cpu=2\n";
    let job = "job j class=service\n group g count=3 spares=1 cpu=2\n";
    assert_eq!(tried(&format!("node a cpu=2\n {job}"), &["j"]), ["AskForSpares", "Place", "WithoutSpares"]);
    let failed = "place j\n fail j 0\n fail j 1\n wait 20000\n job other\n group g count=2 cpu=2\n place other";
    assert_eq!(tried(&format!("{nodes} {job} {failed}"), &["j"]), ["Place", "LendOwnSpares"]);
}

#[test]
fn a_profile_names_its_strategies() {
    let groups = "group g count=2 min=1 cpu=2\n group h cpu=3";
    let mut planner = fresh();
    let world = World::of(&format!("node a cpu=5\n job j\n {groups}"), &mut planner);
    assert_eq!(world.text(&world.plan("j", &mut planner)), "g 0 on a\nh 0 on a");
    planner.pipeline = Pipeline::new("strict", &[Strategy::Place]);
    let Decision::Unplaced(why) = world.plan("j", &mut planner) else { panic!("it is placed") };
    let tried = Tried { profile: "strict".into(), strategies: vec![Strategy::Place] };
    assert_eq!(why.tried.as_deref(), Some(&tried));
}

#[test]
fn what_a_strategy_took_is_given_back_when_it_fails() {
    let groups = "group g count=2 min=1 cpu=2\n group h cpu=3";
    let text = format!("node a cpu=4\n job j\n {groups}\n job later\n group g count=4 cpu=1");
    let mut planner = fresh();
    let world = World::of(&text, &mut planner);
    let decisions = world.plan_all(&["j", "later"], &mut planner);
    assert!(matches!(decisions[0], Decision::Unplaced(_)));
    assert_eq!(world.text(&decisions[1]), "g 0-3 on a");
}
