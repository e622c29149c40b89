//! Spares: planned with their gang, used first, sought anew, and never in the way of their own job.

use super::fresh;
use crate::ProfilePlanner;
use ohm_framework::Planner;
use ohm_placement::fixture::World;

const RACKS: &str = "topology main rack
    node a1 cpu=2 rack=a\n node a2 cpu=2 rack=a
    node b1 cpu=2 rack=b\n node b2 cpu=2 rack=b\n node b3 cpu=2 rack=b\n";

/// Plans the job called `j` and commits the plan, all of which the log takes.
fn place(world: &mut World, planner: &mut dyn Planner) -> String {
    let (text, verdict) = world.place("j", planner);
    assert!(verdict.is_none_or(|verdict| verdict.conflicts.is_empty()), "the log refuses\n{text}");
    text
}

fn world(text: &str) -> (World, ProfilePlanner) {
    let mut planner = fresh();
    let world = World::of(text, &mut planner);
    (world, planner)
}

#[test]
fn a_gang_starts_in_the_domain_that_takes_its_spares_too() {
    let job = "job j class=tas\n group g count=4 spares=2 cpu=1 topology=required:rack";
    let (mut cell, mut planner) = world(&format!("{RACKS} {job}"));
    assert_eq!(place(&mut cell, &mut planner), "g 0-1 on b1, 2-3 on b2\n2 spare on b3");
    assert_eq!(place(&mut cell, &mut planner), "nothing to do");
}

#[test]
fn a_gang_does_not_wait_for_spares() {
    let job = "job j class=tas\n group g count=6 spares=1 cpu=1 topology=required:rack";
    let (mut cell, mut planner) = world(&format!("{RACKS} {job}"));
    assert_eq!(place(&mut cell, &mut planner), "g 0-1 on b1, 2-3 on b2, 4-5 on b3");
    assert!(place(&mut cell, &mut planner).contains("no domain takes any"));
    // The work of another group goes before the spares of the first one.
    let groups = "group x count=2 spares=2 cpu=2\n group y count=1 cpu=2";
    let (mut cell, mut planner) = world(&format!("node a cpu=6\n job j\n {groups}"));
    assert_eq!(place(&mut cell, &mut planner), "x 0-1 on a\ny 0 on a");
}

#[test]
fn what_was_lost_goes_to_spares_and_they_are_sought_anew_in_the_domain() {
    let job = "job j class=tas\n group g count=2 spares=1 cpu=2 topology=required:rack";
    let (mut cell, mut planner) = world(&format!("{RACKS} node b4 cpu=2 rack=b\n {job}"));
    assert_eq!(place(&mut cell, &mut planner), "g 0 on b1, 1 on b2\n1 spare on b3");
    cell.extend("lose b1", &mut planner);
    assert_eq!(place(&mut cell, &mut planner), "g 0 on b3");
    assert_eq!(place(&mut cell, &mut planner), "1 spare on b4");
    assert_eq!(place(&mut cell, &mut planner), "nothing to do");
    // In the other rack there is room, but no task of the group may stand there.
    cell.extend("lose b4", &mut planner);
    assert!(place(&mut cell, &mut planner).contains("no domain takes any"));
}

#[test]
fn a_task_that_failed_takes_a_spare_only_where_nothing_else_is() {
    let (mut cell, mut planner) = world(
        "node a cpu=2\n node b cpu=2\n node c cpu=2
         job j\n group g count=2 spares=1 cpu=2",
    );
    assert_eq!(place(&mut cell, &mut planner), "g 0 on a, 1 on b\n1 spare on c");
    cell.extend("fail j 0\n wait 2000", &mut planner);
    assert_eq!(place(&mut cell, &mut planner), "g 0 on a");
    cell.extend("fail j 0\n job other\n group g cpu=2\n place other\n wait 9000", &mut planner);
    assert_eq!(place(&mut cell, &mut planner), "g 0 on c");
}

#[test]
fn a_service_without_room_is_told_so_and_not_forgotten() {
    let (mut cell, mut planner) = world("node a cpu=1\n job j class=service\n group g count=2 spares=1 cpu=2");
    assert!(place(&mut cell, &mut planner).contains("would find room"));
    cell.extend("node b cpu=2", &mut planner);
    let text = place(&mut cell, &mut planner);
    assert!(text.starts_with("g 0 on b\nrest: "), "{text}");
}

#[test]
fn lent_spares_are_sat_in_first_and_charged_once() {
    let nodes: String = (1..=6).map(|node| format!("node n{node} cpu=1\n")).collect();
    let (mut cell, mut planner) = world(&format!(
        "queue team cpu=6\n {nodes} job j queue=team\n group g count=4 spares=2 cpu=1\n place j
         lose n1\n lose n2\n lose n3
         node x cpu=2\n job other queue=team\n group g cpu=2\n place other
         node y cpu=8"
    ));
    assert_eq!(place(&mut cell, &mut planner), "g 0 on n5, 1 on n6, 2 on y");
}

#[test]
fn groups_that_share_a_port_share_no_node_for_their_spares() {
    let groups = "group g spares=1 cpu=1 ports=80\n group h spares=1 cpu=1 ports=80";
    let (mut cell, mut planner) =
        world(&format!("node a cpu=4\n node b cpu=4\n node c cpu=4\n job j class=service\n {groups}"));
    let (mut texts, mut spares) = (Vec::new(), 0);
    for _ in 0..4 {
        let text = place(&mut cell, &mut planner);
        spares += text.matches(" spare on ").count();
        texts.push(text);
    }
    assert_eq!(spares, 1, "{texts:?}");
}
