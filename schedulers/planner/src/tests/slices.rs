//! Slices, leaders, balanced placement and their repair as text.

use super::{check, fresh};
use ohm_placement::fixture::World;

const CELL: &str = "
    topology main block rack kubernetes.io/hostname
    node a1 cpu=3 block=1 rack=1
    node a2 cpu=5 block=1 rack=1
    node b1 cpu=4 block=1 rack=2
    node b2 cpu=4 block=1 rack=2
    node c1 cpu=7 block=2 rack=3
    node c2 cpu=6 block=2 rack=3
";

#[test]
fn slices_stand_whole() {
    // Node a2 takes two slices of two, though five tasks would fit.
    check(
        &format!(
            "{CELL} job j class=tas\n group g count=6 cpu=1 topology=required:rack slices=kubernetes.io/hostname:2"
        ),
        "g 0-1 on a1, 2-5 on a2",
    );
    check(
        &format!("{CELL} job j class=tas\n group g count=16 cpu=1 topology=required:block slices=rack:8"),
        "g 0-2 on a1, 3-7 on a2, 8-11 on b1, 12-15 on b2",
    );
    check(
        &format!("{CELL} job j class=tas\n group g count=14 cpu=1 topology=required:block slices=rack:7"),
        "g 0-2 on a1, 3-6 on a2, 7-10 on b1, 11-13 on b2",
    );
    check(
        &format!("{CELL} job j class=tas\n group g count=24 cpu=1 topology=required:block slices=rack:8"),
        "3 slices of 8 tasks must be placed in one domain of block; the best, 1, takes 2. There it holds 2 of 3 slices of rack.
         Of 6 nodes, by the first reason found: 6 can take at least one task.",
    );
}

#[test]
fn slices_without_a_mode_drain_the_fullest_domains() {
    check(
        &format!("{CELL} job j class=tas\n group g count=12 cpu=1 slices=kubernetes.io/hostname:4"),
        "g 0-3 on a2, 4-7 on b1, 8-11 on b2",
    );
}

#[test]
fn layers_of_slices_lie_inside_each_other() {
    check(
        &format!(
            "{CELL} job j class=tas\n group g count=12 cpu=1 topology=required:block slices=rack:6,kubernetes.io/hostname:3"
        ),
        "g 0-2 on a1, 3-5 on a2, 6-8 on b1, 9-11 on b2",
    );
    check(
        &format!(
            "{CELL} job j class=tas\n group g count=16 cpu=1 topology=required:block slices=rack:8,kubernetes.io/hostname:4"
        ),
        "2 slices of 8 tasks must be placed in one domain of block; the best, 2, takes 1. There it holds 1 of 2 slices of rack. There it holds 2 of 4 slices of kubernetes.io/hostname.
         Of 6 nodes, by the first reason found: 6 can take at least one task.",
    );
}

#[test]
fn a_leader_stands_where_it_costs_no_slice() {
    check(
        &format!(
            "{CELL} job j class=tas
             group lead cpu=1 topology=required:rack with=x
             group work count=6 cpu=1 topology=required:rack with=x slices=kubernetes.io/hostname:2"
        ),
        "lead 0 on a2
         work 0-1 on a1, 2-5 on a2",
    );
}

#[test]
fn balanced_placement_fills_domains_evenly() {
    let gang = "job j class=tas\n group g count=10 cpu=1 topology=preferred:rack";
    check(&format!("{CELL} {gang}"), "g 0-6 on c1, 7-9 on c2");
    check(&format!("{CELL} {gang} balanced"), "g 0-4 on c1, 5-9 on c2");
}

#[test]
fn balanced_placement_counts_overshoot_in_tasks() {
    let hosts = "topology main kubernetes.io/hostname\n node p cpu=3\n node q cpu=2";
    let gang = "job j class=tas\n group g count=2 cpu=1 topology=preferred:kubernetes.io/hostname";
    check(&format!("{hosts}\n {gang} slices=kubernetes.io/hostname:2 balanced"), "g 0-1 on q");
}

#[test]
fn of_equally_even_families_the_one_with_fewer_domains_is_filled() {
    check(
        "topology main block rack kubernetes.io/hostname
         node a cpu=7 block=1 rack=1
         node b cpu=3 block=1 rack=2
         node c cpu=3 block=2 rack=3
         node d cpu=7 block=2 rack=3
         job j class=tas
         group g count=10 cpu=1 topology=preferred:rack balanced",
        "g 0-2 on c, 3-9 on d",
    );
}

#[test]
fn below_the_slices_hosts_with_least_to_spare_go_first() {
    // In pairs: two on the smaller host and two on the larger, though the larger would take all four.
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=2 rack=1
         node b cpu=4 rack=1
         job j class=tas
         group g count=4 cpu=1 topology=required:rack slices=rack:4,kubernetes.io/hostname:2",
        "g 0-1 on a, 2-3 on b",
    );
    // One by one the smallest that takes the rest is taken.
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=5 rack=1
         node b cpu=4 rack=1
         job j class=tas
         group g count=4 cpu=1 topology=required:rack slices=rack:4",
        "g 0-3 on b",
    );
}

#[test]
fn what_a_leader_leaves_no_room_for_is_not_told_as_room() {
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=6 rack=1
         job j class=tas
         group lead cpu=2 topology=required:rack with=x
         group work count=5 cpu=1 topology=required:rack with=x slices=rack:1",
        "5 tasks and their leader (group lead) must be placed in one domain of rack; the best, 1, takes 4. There it holds 4 of 5 slices of rack.
         Of 1 node, by the first reason found: 1 can take at least one task.",
    );
}

#[test]
fn fewer_start_where_fewer_fit() {
    check(
        &format!("{CELL} job j class=tas\n group g count=24 min=8 cpu=1 topology=required:block slices=rack:8"),
        "g 0-2 on a1, 3-7 on a2, 8-11 on b1, 12-15 on b2",
    );
}

#[test]
fn a_minimum_within_a_slice_asks_for_the_whole_slice() {
    // All six would leave nothing for the second group, and three are no whole number of pairs.
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=6 rack=1
         job j class=tas
         group one count=6 min=3 cpu=1 topology=required:rack slices=rack:2
         group two count=2 cpu=1",
        "one 0-3 on a
         two 0-1 on a",
    );
    // A leader does not start without the workers that it leads.
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=4 rack=1
         job j class=tas
         group lead cpu=1 topology=required:rack with=x
         group work count=8 min=1 cpu=1 topology=required:rack slices=rack:4 with=x",
        "1 slice of 4 tasks and its leader (group lead) must be placed in one domain of rack; no domain takes any.
         Of 1 node, by the first reason found: 1 can take at least one task.",
    );
}

#[test]
fn broken_slices_are_filled_where_they_stand_and_ranks_stay() {
    let mut planner = fresh();
    let text = format!(
        "{CELL} node b3 cpu=4 block=1 rack=2
         job j class=tas\n group g count=12 cpu=1 select=block:1 topology=required:block slices=rack:6,kubernetes.io/hostname:3
         place j"
    );
    let mut world = World::of(&text, &mut planner);
    // One node of each rack is lost: only rack 2 has another.
    world.extend("lose b1", &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 6-8 on b3");
    world.extend("lose a1", &mut planner);
    assert_eq!(
        world.place("j", &mut planner).0,
        "1 slice of 3 tasks must be placed in one domain of rack; no domain takes any.\n\
         Of 7 nodes, by the first reason found: 1 can take at least one task; 2 are not ready; \
         2 lack a label of its nodeSelector; 2 are outside the topology domain it must be placed in."
    );
    world.extend("node a4 cpu=8 block=1 rack=1", &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 0-2 on a4");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

const PAIR: &str = "
    topology main block rack kubernetes.io/hostname
    node a1 cpu=2 block=1 rack=1
    node a2 cpu=2 block=1 rack=1
    node a3 cpu=2 block=1 rack=1
    node a4 cpu=2 block=1 rack=1
    job j class=tas
    group g count=8 cpu=1 topology=required:block slices=rack:4
    place j
    node b1 cpu=2 block=1 rack=2
    node b2 cpu=2 block=1 rack=2
    node b3 cpu=2 block=1 rack=2
";

#[test]
fn a_slice_is_a_run_of_ranks() {
    // Four tasks of two slices would be one slice elsewhere, by number: they wait.
    let mut planner = fresh();
    let mut world = World::of(&format!("{PAIR} lose a1\n lose a4"), &mut planner);
    let told = world.place("j", &mut planner).0;
    assert!(told.starts_with("4 tasks must be placed in one domain of rack; no domain takes any."), "{told}");
    // Room for one of the slices where it is does not let the other one go.
    world.extend("node a5 cpu=2 block=1 rack=1", &mut planner);
    assert!(world.place("j", &mut planner).1.is_none());
    world.extend("node a6 cpu=2 block=1 rack=1", &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 0-1 on a5, 6-7 on a6");
    // A slice that is lost whole may go elsewhere, the other one may not.
    let mut world =
        World::of(&format!("{PAIR} lose a1\n lose a2\n lose a4\n node a5 cpu=2 block=1 rack=1"), &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 0-1 on b1, 2-3 on b2, 6-7 on a5");
}

#[test]
fn nested_slices_come_back_by_rank() {
    let mut planner = fresh();
    let text = format!("{} lose a1\n lose a3", PAIR.replace("rack:4", "rack:4,kubernetes.io/hostname:2"));
    let mut world = World::of(&text, &mut planner);
    // Each pair is lost whole, and bound to its rack by the other one of its slice.
    assert!(world.place("j", &mut planner).1.is_none());
    world.extend("node a5 cpu=3 block=1 rack=1\n node a6 cpu=3 block=1 rack=1", &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 0-1 on a5, 4-5 on a6");
}

#[test]
fn slices_of_workers_come_back_by_rank_beside_their_leader() {
    let mut planner = fresh();
    let text = PAIR.replace("group g count=8 cpu=1 topology=required:block slices=rack:4", "group lead cpu=1 topology=required:block with=x\n group g count=7 cpu=1 topology=required:block slices=rack:7 with=x");
    let mut world = World::of(&format!("{text} lose a1\n lose a4"), &mut planner);
    assert!(world.place("j", &mut planner).1.is_none());
    world.extend("node a5 cpu=4 block=1 rack=1", &mut planner);
    let (told, verdict) = world.place("j", &mut planner);
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()), "{told}");
    assert!(!told.contains(" on b"), "{told}");
}

#[test]
fn several_lost_nodes_are_one_repair() {
    let mut planner = fresh();
    let text = format!(
        "{CELL} node c3 cpu=7 block=2 rack=3
         job j class=tas\n group g count=15 cpu=1 topology=required:rack\n place j
         lose c1\n lose c2\n node c4 cpu=8 block=2 rack=3"
    );
    let mut world = World::of(&text, &mut planner);
    let found = world.place("j", &mut planner).0;
    assert_eq!(found, "g 0-7 on c4");
}

#[test]
fn a_request_that_contradicts_the_topology_is_explained() {
    let mut planner = fresh();
    let world = World::of(&format!("{CELL} job j class=tas\n group g count=4 cpu=1 slices=rack:2"), &mut planner);
    assert_eq!(world.plan_all(&["j"], &mut planner).len(), 1);
    let topology = &world.cell.topologies().get("main").unwrap().spec;
    let mut group = world.cell.jobs().find("j").unwrap().spec.groups[0].clone();
    assert_eq!(topology.check(&group), Ok(()));
    group.count = 5;
    let problem = topology.check(&group).unwrap_err().to_string();
    assert_eq!(problem, "a slice size of 2 does not divide the count of 5");
}

#[test]
fn groups_that_take_each_others_room_try_other_orders() {
    // By path the first slice takes a and b, and at most two of the second stand on c: another order of a and c is tried.
    check(
        "topology main rack kubernetes.io/hostname
         node a cpu=2 rack=1
         node b cpu=1 rack=1
         node c cpu=3 rack=1
         job j class=tas
         group x count=3 cpu=1 max=2 topology=preferred:rack slices=rack:3 with=t
         group y count=3 cpu=1 max=2 topology=preferred:rack slices=rack:3 with=t",
        "x 0 on b, 1-2 on c
         y 0-1 on a, 2 on c",
    );
}
