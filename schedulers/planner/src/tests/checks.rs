//! Flavors with checks to pass beside flavors without: a job reserves the one and is placed with the other, in the
//! order of its queue.

use super::fresh;
use super::preemption_room::check_next;
use ohm_framework::{Answer, Obstacle, explain_job};
use ohm_model::{
    AdmissionCheck, Command, FlavorQuota, PreemptionPolicy, Provisioner, ProvisioningClass, QueuePreemption, QueueSpec,
    ResourceFlavor, ResourceGroup, ResourceQuota,
};
use ohm_placement::fixture::World;

/// One node of 4 cpus for each of the flavors `spot` and `od`. Queue `q` has them in this order with so many cpus, and
/// asks class `bring` for `spot`.
fn world(flavors: &[(&str, i64)], class: Option<&str>) -> World {
    let mut world = World::of("node s1 pool=spot cpu=4\n node o1 pool=od cpu=4", &mut fresh());
    for name in ["spot", "od"] {
        let node_labels = [("pool".to_string(), name.to_string())].into();
        let flavor = ResourceFlavor { name: name.into(), node_labels, ..ResourceFlavor::default() };
        world.apply(Command::PutResourceFlavor(Box::new(flavor)));
    }
    if let Some(class) = class {
        world.apply(Command::PutProvisioningClass(ProvisioningClass::of(class, Provisioner::Sim)));
    }
    put(&mut world, flavors, &["bring"]);
    world
}

/// Puts queue `q` with these flavors and checks for `spot`.
fn put(world: &mut World, flavors: &[(&str, i64)], checks: &[&str]) {
    let quota = |(name, cpus): &(&str, i64)| FlavorQuota {
        name: name.to_string(),
        resources: [("cpu".to_string(), ResourceQuota { nominal: cpus * 1000, ..ResourceQuota::default() })].into(),
    };
    let flavors = flavors.iter().map(quota).collect();
    let check = |name: &&str| AdmissionCheck { name: name.to_string(), on_flavors: vec!["spot".into()] };
    let within_cluster_queue = PreemptionPolicy::LowerPriority;
    world.apply(Command::PutQueue(QueueSpec {
        name: "q".into(),
        resource_groups: vec![ResourceGroup { covered_resources: vec!["cpu".into()], flavors }],
        preemption: QueuePreemption { within_cluster_queue, ..QueuePreemption::default() },
        admission_checks: checks.iter().map(check).collect(),
        ..QueueSpec::default()
    }));
}

/// What is decided about a job with so many tasks of 1 cpu, and what it waits for then.
fn next(world: &mut World, name: &str, words: &str) -> String {
    let mut planner = fresh();
    world.extend(&format!("job {name} queue=q {words}"), &mut planner);
    let (told, verdict) = world.place(name, &mut planner);
    assert!(verdict.is_none_or(|verdict| verdict.conflicts.is_empty()), "{told}");
    assert_eq!(world.cell.invariants(), Vec::<String>::new());
    told
}

/// The checks that are asked for a job.
fn asked(world: &World, name: &str) -> usize {
    let job = world.cell.jobs().find(name).expect("a job");
    job.admission.round.as_ref().map_or(0, |round| round.checks.len())
}

#[test]
fn the_first_flavor_decides_whether_checks_are_asked() {
    let mut first = world(&[("spot", 4), ("od", 4)], Some("bring"));
    assert_eq!(next(&mut first, "a", "\ngroup g count=3 cpu=1"), "reserves");
    assert_eq!(asked(&first, "a"), 1);
    assert_eq!(next(&mut first, "b", "\ngroup g count=3 cpu=1"), "g 0-2 on o1", "there is no quota for spot left");
    assert_eq!(asked(&first, "b"), 0);
    let mut second = world(&[("od", 4), ("spot", 4)], Some("bring"));
    assert_eq!(next(&mut second, "a", "\ngroup g count=3 cpu=1"), "g 0-2 on o1");
    assert_eq!(next(&mut second, "b", "\ngroup g count=3 cpu=1"), "reserves");
}

#[test]
fn a_flavor_without_room_gives_way_to_one_whose_checks_are_asked() {
    let mut world = world(&[("od", 99), ("spot", 4)], Some("bring"));
    assert_eq!(next(&mut world, "a", "\ngroup g count=3 cpu=1"), "g 0-2 on o1");
    assert_eq!(next(&mut world, "b", "\ngroup g count=3 cpu=1"), "reserves", "o1 has room for one");
    let told = next(&mut world, "c", "\ngroup g count=3 cpu=1");
    assert!(told.starts_with("1 of the 3 tasks of group g"), "{told}");
    assert_eq!(asked(&world, "c"), 0);
}

#[test]
fn the_whole_is_reserved_or_nothing_of_it() {
    let mut world = world(&[("spot", 2), ("od", 4)], Some("bring"));
    assert_eq!(next(&mut world, "full", "\ngroup g count=3 select=pool:od cpu=1"), "g 0-2 on o1");
    let told = next(&mut world, "array", "\ngroup g count=4 min=1 elastic cpu=1");
    assert!(told.starts_with("g 0 on o1"), "spot has quota for a part: {told}");
}

#[test]
fn a_class_that_nobody_knows_stops_only_its_own_flavor() {
    let mut world = world(&[("spot", 4), ("od", 4)], None);
    assert_eq!(next(&mut world, "a", "\ngroup g count=3 cpu=1"), "g 0-2 on o1");
    let mut planner = fresh();
    world.extend("job b queue=q\ngroup g select=pool:spot cpu=1", &mut planner);
    let Answer::Waits(why) = explain_job(&world.cell, &mut planner, world.job("b")) else { panic!("b is placed") };
    assert!(matches!(&why.obstacle, Obstacle::Waiting { what } if what.contains("\"bring\"")), "{:?}", why.obstacle);
}

#[test]
fn what_is_reserved_next_is_said() {
    let mut world = world(&[("spot", 4), ("od", 4)], Some("bring"));
    let mut planner = fresh();
    world.extend("job a queue=q\ngroup g cpu=1", &mut planner);
    let Answer::Waits(why) = explain_job(&world.cell, &mut planner, world.job("a")) else { panic!("a is placed") };
    assert!(why.to_text(&world.cell).contains("its quota, which is reserved next"), "{}", why.to_text(&world.cell));
}

#[test]
fn one_pass_reserves_for_several_jobs_as_far_as_the_quota_goes() {
    let mut world = world(&[("spot", 7), ("od", 4)], Some("bring"));
    let mut planner = fresh();
    for name in ["a", "b", "c", "d"] {
        world.extend(&format!("job {name} queue=q\ngroup g count=3 cpu=1"), &mut planner);
    }
    let decisions = world.plan_all(&["a", "b", "c", "d"], &mut planner);
    let told: Vec<String> = decisions.iter().map(|decision| world.text(decision)).collect();
    assert_eq!(told[..3], ["reserves", "reserves", "g 0-2 on o1"], "spot has quota for two");
    assert!(matches!(decisions[3], ohm_framework::Decision::Unplaced(_)), "{}", told[3]);
    for (name, decision) in ["a", "b", "c"].iter().zip(&decisions) {
        let verdict = world.commit(decision).expect("a verdict");
        assert_eq!(verdict.conflicts, vec![], "{name}");
    }
    assert_eq!(["a", "b", "c"].map(|name| asked(&world, name)), [1, 1, 0]);
    assert_eq!(world.cell.invariants(), Vec::<String>::new());
}

#[test]
fn a_class_that_nobody_knows_hides_no_flavor_for_which_others_may_be_stopped() {
    for flavors in [[("spot", 4), ("od", 4)], [("od", 4), ("spot", 4)]] {
        let mut world = world(&flavors, None);
        world.extend("job low queue=q\ngroup g cpu=4 select=pool:od\nplace low", &mut fresh());
        world.extend("wait 1000\njob high queue=q priority=5\ngroup g cpu=4", &mut fresh());
        check_next(&mut world, "high", &mut fresh(), "low -> 1 on o1");
    }
}

#[test]
fn others_are_stopped_for_the_quota_of_a_flavor_with_checks_and_no_room_is_kept() {
    let flavors = [("od", 0), ("spot", 4)];
    let mut world = world(&flavors, Some("bring"));
    // What runs there ran before its flavor had a check.
    put(&mut world, &flavors, &[]);
    world.extend("job low queue=q\ngroup g cpu=4\nplace low", &mut fresh());
    put(&mut world, &flavors, &["bring"]);
    world.extend("wait 1000\njob high queue=q priority=5\ngroup g cpu=4", &mut fresh());
    check_next(&mut world, "high", &mut fresh(), "low -> ");
}

#[test]
fn others_are_stopped_for_room_with_a_flavor_that_nobody_is_asked_about() {
    let mut world = world(&[("od", 99), ("spot", 1)], Some("bring"));
    world.extend("job low\ngroup g cpu=4 select=pool:od\nplace low\nwait 1000", &mut fresh());
    world.extend("job high queue=q priority=5\ngroup g cpu=4", &mut fresh());
    check_next(&mut world, "high", &mut fresh(), "low -> 1 on o1");
}
