//! Services as text: spread, limits, ports, missing tasks.

use crate::of;
use ohm_model::Class;
use ohm_placement::fixture::{self, World};

fn check(text: &str, expected: &str) {
    fixture::check(&mut of(Class::SERVICE), text, expected);
}

const NODES: &str = "node a cpu=8\n node b cpu=6\n node c cpu=4\n";

#[test]
fn tasks_spread_over_nodes() {
    check(&format!("{NODES} job web class=service\n group g count=4 cpu=1"), "g 0-1 on a, 2 on b, 3 on c");
    check(&format!("{NODES} job web class=service\n group g count=4 cpu=1 pack"), "g 0-3 on c");
}

#[test]
fn one_task_per_port_and_node_and_a_limit() {
    check(&format!("{NODES} job web class=service\n group g count=3 cpu=1 ports=80"), "g 0 on a, 1 on b, 2 on c");
    check(
        &format!("{NODES} job web class=service\n group g count=4 cpu=1 ports=80"),
        "g 0 on a, 1 on b, 2 on c
         rest: 0 of the 1 task of group g that must be placed together would find room.
         Of 3 nodes, by the first reason found: 3 have port 80 taken.",
    );
    check(&format!("{NODES} job web class=service\n group g count=5 cpu=1 max=2"), "g 0-1 on a, 2-3 on b, 4 on c");
}

#[test]
fn groups_stand_or_wait_by_themselves() {
    check(
        &format!("{NODES} job web class=service\n group big count=2 min=2 cpu=7\n group small count=2 cpu=1"),
        "small 0 on a, 1 on b
         rest: 1 of the 2 tasks of group big that must be placed together would find room.
         Of 3 nodes, by the first reason found: 1 can take at least one task; 2 have too little cpu for one task even when empty.
         Nearest in cpu: node b has 6 free of the 7 that one task asks for, and lacks nothing else.",
    );
}

#[test]
fn only_what_is_missing_is_placed_again() {
    let mut planner = of(Class::SERVICE);
    let text = format!("{NODES} job web class=service\n group g count=3 cpu=1\n place web\n lose b\n node d cpu=1");
    let mut world = World::of(&text, &mut planner);
    assert_eq!(world.place("web", &mut planner).0, "g 1 on d");
    assert_eq!(world.place("web", &mut planner).0, "nothing to do");
}
