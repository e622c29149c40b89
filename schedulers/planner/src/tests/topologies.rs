//! Topology searches as text: which domains, in which order.

use super::{check, fresh};
use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Planner, View, Work};
use ohm_model::NodeId;
use ohm_placement::fixture::World;
use ohm_stdx::Prng;

const RACKS: &str = "
    topology main block rack kubernetes.io/hostname
    node a1 cpu=4 block=1 rack=1
    node a2 cpu=4 block=1 rack=1
    node b1 cpu=4 block=1 rack=2
    node b2 cpu=2 block=1 rack=2
    node c1 cpu=8 block=2 rack=3
    node c2 cpu=1 block=2 rack=3
    node stray cpu=64
";

#[test]
fn required_takes_the_smallest_domain_that_holds_all() {
    check(&format!("{RACKS} job j class=tas\n group g count=6 cpu=1 topology=required:rack"), "g 0-3 on b1, 4-5 on b2");
    check(&format!("{RACKS} job j class=tas\n group g count=7 cpu=1 topology=required:rack"), "g 0-3 on a1, 4-6 on a2");
    check(&format!("{RACKS} job j class=tas\n group g count=9 cpu=1 topology=required:rack"), "g 0-7 on c1, 8 on c2");
    check(
        &format!("{RACKS} job j class=tas\n group g count=10 cpu=1 topology=required:block"),
        "g 0-3 on a1, 4-7 on a2, 8-9 on b2",
    );
}

#[test]
fn required_fails_with_the_best_domain() {
    check(
        &format!("{RACKS} job j class=tas\n group g count=10 cpu=1 topology=required:rack"),
        "10 tasks must be placed in one domain of rack; the best, 2/3, takes 9.
         Of 7 nodes, by the first reason found: 6 can take at least one task; 1 lacks a label of the topology it asks for.",
    );
    check(
        &format!("{RACKS} job j class=tas\n group g count=10 min=5 cpu=1 topology=required:rack"),
        "g 0-7 on c1, 8 on c2",
    );
}

#[test]
fn a_domain_with_more_room_goes_before_a_preferred_one_that_takes_fewer() {
    let gang = "job j class=tas\n group g count=12 min=4 cpu=1 prefer=50:rack:2 topology=required:rack";
    check(&format!("{RACKS} {gang}"), "g 0-7 on c1, 8 on c2");
    check(
        &format!("{RACKS} job j class=tas\n group g count=10 cpu=1 prefer=50:rack:2 topology=required:rack"),
        "10 tasks must be placed in one domain of rack; the best, 2/3, takes 9.
         Of 7 nodes, by the first reason found: 6 can take at least one task; 1 lacks a label of the topology it asks for.",
    );
}

#[test]
fn preferred_goes_up_until_it_fits_and_spreads_at_the_top() {
    check(
        &format!("{RACKS} job j class=tas\n group g count=12 cpu=1 topology=preferred:rack"),
        "g 0-3 on a1, 4-7 on a2, 8-11 on b1",
    );
    check(
        &format!("{RACKS} job j class=tas\n group g count=20 cpu=1 topology=preferred:rack"),
        "g 0-3 on a1, 4-7 on a2, 8-11 on b1, 12-19 on c1",
    );
}

#[test]
fn unconstrained_drains_the_fullest_leaf_that_holds_all() {
    check(&format!("{RACKS} job j class=tas\n group g count=1 cpu=1 topology=unconstrained"), "g 0 on c2");
    check(&format!("{RACKS} job j class=tas\n group g count=2 cpu=1 topology=unconstrained"), "g 0-1 on b2");
    check(
        &format!("{RACKS} job j class=tas\n group g count=9 cpu=1 topology=unconstrained"),
        "g 0-3 on a1, 4-5 on a2, 6-7 on b2, 8 on c2",
    );
}

#[test]
fn node_filters_hold_at_every_level() {
    let nodes = "
        topology main rack
        node a1 cpu=4 rack=1
        node a2 cpu=4 rack=1 taint=x:y:NoSchedule
        node b1 cpu=3 rack=2
        node b2 cpu=3 rack=2
    ";
    check(&format!("{nodes} job j class=tas\n group g count=6 cpu=1 topology=required:rack"), "g 0-2 on b1, 3-5 on b2");
    // Six cpus are free in rack 2, but no single node takes a task of four.
    check(&format!("{nodes} job j class=tas\n group g cpu=4 topology=required:rack"), "g 0 on a1");
}

#[test]
fn a_node_with_new_labels_stands_in_its_new_domain() {
    let mut planner = fresh();
    let gangs = "job j class=tas\n group g count=9 cpu=1 topology=required:rack
                 job k class=tas\n group g count=12 cpu=1 topology=required:rack";
    let mut world = World::of(&format!("{RACKS} {gangs}"), &mut planner);
    let over = Overlay::default();
    let mut decide = |world: &World, name: &str, moved: &[NodeId]| {
        let view = View::new(&world.cell, &over, world.session);
        match moved {
            [] => planner.reset(&view),
            moved => planner.changed(&view, moved, &[]),
        }
        let work = Work { jobs: vec![world.item(name)], budget: Budget::UNBOUNDED };
        world.text(
            &planner
                .plan(&mut Board::new(&world.cell, &mut Overlay::default(), world.session), &work, &mut Prng::new(1))
                .decisions[0],
        )
    };
    assert_eq!(decide(&world, "j", &[]), "g 0-7 on c1, 8 on c2");
    // The largest host is carried from rack 3 to rack 1.
    world.extend("node c1 cpu=8 block=1 rack=1", &mut fresh());
    let [moved, other] = ["c1", "a1"].map(|name| world.cell.nodes().find(name).unwrap());
    assert_eq!(decide(&world, "j", &[moved]), "g 0 on a1, 1-8 on c1");
    assert_eq!(decide(&world, "k", &[moved, other]), "g 0-3 on a1, 4-11 on c1");
}

#[test]
fn several_topologies_lie_over_the_same_nodes() {
    let cell = format!("{RACKS} topology power feed kubernetes.io/hostname\n node d1 cpu=8 block=2 rack=3 feed=x");
    let gang = "job j class=tas\n group g count=6 cpu=1";
    check(&format!("{cell}\n {gang} topology=required:rack@main"), "g 0-3 on b1, 4-5 on b2");
    check(&format!("{cell}\n {gang} topology=required:feed@power"), "g 0-5 on d1");
}

#[test]
fn groups_with_one_label_share_a_domain() {
    check(
        &format!(
            "{RACKS} job j class=tas\n group lead cpu=1 topology=required:rack with=x\n group work count=7 cpu=1 topology=required:rack with=x"
        ),
        "lead 0 on a1
         work 0-2 on a1, 3-6 on a2",
    );
    check(
        &format!("{RACKS} job j class=tas\n group lead cpu=4 topology=required:rack with=x\n group work count=6 cpu=1 topology=required:rack with=x"),
        "6 tasks and their leader (group lead) must be placed in one domain of rack; the best, 2/3, takes 5.
         Of 7 nodes, by the first reason found: 6 can take at least one task; 1 lacks a label of the topology it asks for.",
    );
    check(
        &format!(
            "{RACKS} job j class=tas\n group lead cpu=4 topology=preferred:rack with=x\n group work count=6 cpu=1 topology=preferred:rack with=x"
        ),
        "lead 0 on a1
         work 0-3 on a2, 4-5 on b2",
    );
}

#[test]
fn groups_that_share_no_domain_hear_what_the_best_one_lacks() {
    // Two racks with room for three and two: the leading group alone would go to the smaller one.
    let cell = "
        topology main block rack kubernetes.io/hostname
        node a1 cpu=2 block=1 rack=1
        node b1 cpu=2 block=1 rack=2
        node b2 cpu=1 block=1 rack=2
    ";
    check(
        &format!(
            "{cell} job j class=tas
             group lead count=1 cpu=1 topology=required:rack with=x
             group work count=4 cpu=1 topology=required:rack with=x
             group more count=1 cpu=1 topology=required:rack with=x"
        ),
        "4 tasks must be placed in one domain of rack; the best, 1/2, takes 2.
         Room for group lead was found and is counted as taken.
         Of 3 nodes, by the first reason found: 3 can take at least one task.",
    );
    check(
        &format!(
            "{cell} job j class=tas
             group one count=2 cpu=1 topology=required:rack with=x
             group two count=2 cpu=1 topology=required:rack with=x"
        ),
        "2 tasks must be placed in one domain of rack; the best, 1/2, takes 1.
         Room for group one was found and is counted as taken.
         Of 3 nodes, by the first reason found: 3 can take at least one task.",
    );
}

#[test]
fn tasks_that_moved_sit_down_in_rooms_that_fill_the_limit_per_node() {
    let mut planner = fresh();
    let gang = "job j class=tas\n group g count=4 max=2 cpu=1 topology=required:rack";
    let nodes = "topology main rack kubernetes.io/hostname
                 node a1 cpu=8 rack=1\n node a2 cpu=8 rack=1\n node a3 cpu=8 rack=1";
    let text = format!("{nodes}\n {gang}\n place j\n leave j a1 a3\n fail j 0\n fail j 1");
    let mut world = World::of(&text, &mut planner);
    let (found, verdict) = world.place("j", &mut planner);
    assert_eq!(found, "g 0-1 on a3");
    assert_eq!(verdict.expect("a verdict").conflicts, []);
}
