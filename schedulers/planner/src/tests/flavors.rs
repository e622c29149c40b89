//! Which flavors jobs are planned with: rules of Kueue's flavor assigner, and what Ohm adds to them.

use super::fresh;
use ohm_framework::{Decision, Obstacle};
use ohm_model::{
    Command, FlavorFungibility, FlavorQuota, QueueSpec, ResourceFlavor, ResourceGroup, ResourceQuota, WhenCan,
};
use ohm_placement::fixture::World;

const NODES: &str = "node s1 pool=spot cpu=8\n node s2 pool=spot cpu=8\n node o1 pool=od cpu=8\n node o2 pool=od cpu=8";

/// Quota for cpu, as (flavor, nominal, borrowing limit), in whole cpus.
fn cpu(flavors: &[(&str, i64, Option<i64>)]) -> ResourceGroup {
    let quota = |(name, nominal, borrow): &(&str, i64, Option<i64>)| FlavorQuota {
        name: name.to_string(),
        resources: [(
            "cpu".to_string(),
            ResourceQuota {
                nominal: nominal * 1000,
                borrowing_limit: borrow.map(|limit| limit * 1000),
                lending_limit: None,
            },
        )]
        .into(),
    };
    ResourceGroup { covered_resources: vec!["cpu".into()], flavors: flavors.iter().map(quota).collect() }
}

/// A world with the flavors `spot` and `od`, and queue `q` beside queue `lender` under one cohort.
fn world(own: &[(&str, i64, Option<i64>)], lent: &[(&str, i64, Option<i64>)], when: WhenCan) -> World {
    let mut world = World::of(NODES, &mut fresh());
    for name in ["spot", "od"] {
        let node_labels = [("pool".to_string(), name.to_string())].into();
        let flavor = ResourceFlavor { name: name.into(), node_labels, ..ResourceFlavor::default() };
        world.apply(Command::PutResourceFlavor(Box::new(flavor)));
    }
    world.apply(Command::PutQueue(QueueSpec { name: "all".into(), is_cohort: true, ..QueueSpec::default() }));
    for (name, flavors) in [("q", own), ("lender", lent)] {
        world.apply(Command::PutQueue(QueueSpec {
            name: name.into(),
            parent: "all".into(),
            resource_groups: vec![cpu(flavors)],
            flavor_fungibility: FlavorFungibility { when_can_borrow: when, ..FlavorFungibility::default() },
            ..QueueSpec::default()
        }));
    }
    world
}

/// Where jobs go that are submitted one after the other, each with so many tasks of 1 cpu.
fn placed(mut world: World, jobs: &[(&str, u32)]) -> Vec<String> {
    let mut planner = fresh();
    let mut place = |(name, count): &(&str, u32)| {
        world.extend(&format!("job {name} queue=q\n group g count={count} cpu=1"), &mut planner);
        world.place(name, &mut planner).0
    };
    jobs.iter().map(&mut place).collect()
}

#[test]
fn the_first_flavor_with_quota_is_taken() {
    let world = world(&[("spot", 4, None), ("od", 4, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let told = placed(world, &[("a", 3), ("b", 3), ("c", 1), ("d", 2)]);
    assert_eq!(told[0], "g 0-2 on s1");
    assert_eq!(told[1], "g 0-2 on o1");
    assert_eq!(told[2], "g 0 on s1");
    assert!(told[3].starts_with("Queue q may use 0 more of spot/cpu"), "{}", told[3]);
}

#[test]
fn a_flavor_that_borrows_is_taken_or_passed_over_as_the_queue_says() {
    let (own, lent) = ([("spot", 2, None), ("od", 4, None)], [("spot", 8, None)]);
    let stops = placed(world(&own, &lent, WhenCan::MayStopSearch), &[("a", 3)]);
    let goes_on = placed(world(&own, &lent, WhenCan::TryNextFlavor), &[("a", 3), ("b", 3)]);
    assert_eq!(stops, ["g 0-2 on s1"]);
    assert_eq!(goes_on, ["g 0-2 on o1", "g 0-2 on s1"], "the second has nothing but what it may borrow");
}

#[test]
fn the_limit_of_what_may_be_borrowed_is_that_of_the_flavor() {
    let (own, lent) = ([("spot", 2, Some(1)), ("od", 1, None)], [("spot", 8, None)]);
    let told = placed(world(&own, &lent, WhenCan::MayStopSearch), &[("a", 4), ("b", 3)]);
    assert!(told[0].starts_with("Queue q may use 3 more of spot/cpu"), "{}", told[0]);
    assert_eq!(told[1], "g 0-2 on s1");
}

#[test]
fn a_flavor_without_room_gives_way_to_the_next_one() {
    let world = world(&[("spot", 99, None), ("od", 99, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let told = placed(world, &[("a", 14), ("b", 9), ("c", 9)]);
    assert_eq!(told[0], "g 0-7 on s1, 8-13 on s2");
    assert_eq!(told[1], "g 0-7 on o1, 8 on o2");
    let said = "This is said of nodes of flavor spot. Those of od have no room for it either.";
    assert!(told[2].contains(said), "{}", told[2]);
}

#[test]
fn an_array_starts_with_the_flavor_that_has_room_for_its_first_tasks() {
    let mut world = world(&[("spot", 1, None), ("od", 3, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let mut planner = fresh();
    world.extend("job a queue=q\n group g count=3 min=1 elastic cpu=1", &mut planner);
    assert_eq!(world.place("a", &mut planner).0, "g 0-2 on o1", "all of it fits the second one");
    world.extend("job b queue=q\n group g count=3 min=1 elastic cpu=1", &mut planner);
    let short = "Queue q may use 0 more of spot/cpu, what it may borrow included; the job needs 1 at once.";
    for begins in ["g 0 on s1\nrest: ", ""] {
        let told = world.place("b", &mut planner).0;
        assert!(told.starts_with(&format!("{begins}{short}")), "it stays with what it began with: {told}");
    }
}

#[test]
fn an_array_begins_where_there_is_room_although_the_whole_fits_another_quota() {
    let mut world = world(&[("spot", 2, None), ("od", 99, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let mut planner = fresh();
    world.extend("job full queue=q\n group g count=16 select=pool:od cpu=1", &mut planner);
    assert_eq!(world.place("full", &mut planner).0, "g 0-7 on o1, 8-15 on o2");
    world.extend("job a queue=q\n group g count=4 min=1 elastic cpu=1", &mut planner);
    assert!(world.place("a", &mut planner).0.starts_with("g 0-1 on s1"), "od has quota for all and no room");
}

#[test]
fn groups_that_are_placed_together_try_each_flavor_together() {
    let mut world = world(&[("spot", 9, None), ("od", 9, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let mut planner = fresh();
    let both = cpu(&[("spot", 9, None), ("od", 9, None)]);
    let mut gpu = both.clone();
    gpu.covered_resources = vec!["gpu.io/x".into()];
    for flavor in &mut gpu.flavors {
        flavor.resources = flavor.resources.values().map(|quota| ("gpu.io/x".to_string(), *quota)).collect();
    }
    let queue = QueueSpec { name: "q".into(), resource_groups: vec![both, gpu], ..QueueSpec::default() };
    world.apply(Command::PutQueue(queue));
    world.extend(
        "node g1 pool=od cpu=1 gpu.io/x=1\n job full queue=q\n group g count=9 select=pool:spot cpu=1",
        &mut planner,
    );
    world.place("full", &mut planner);
    world.extend("job a queue=q\n group lead with=x cpu=1\n group work with=x gpu.io/x=1", &mut planner);
    let told = world.place("a", &mut planner).0;
    assert!(told.contains("lead 0 on") && told.contains("work 0 on g1"), "{told}");
}

#[test]
fn a_queue_refuses_what_no_group_covers() {
    let mut world = world(&[("spot", 1, None)], &[("od", 0, None)], WhenCan::MayStopSearch);
    let mut planner = fresh();
    world.extend("job a queue=q\n group g cpu=1 memory=1", &mut planner);
    let Decision::Unplaced(why) = world.plan("a", &mut planner) else { panic!("is placed") };
    assert!(matches!(why.obstacle, Obstacle::NoFlavor { .. }), "{:?}", why.obstacle);
    world.extend("job b queue=q\n group g select=pool:od cpu=1", &mut planner);
    assert!(world.place("b", &mut planner).0.starts_with("No flavor of queue q suits the job: spot has other labels"));
}
