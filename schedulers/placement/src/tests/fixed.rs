//! Work that stands already: replacements stay where the group stands.

use super::Bare;
use crate::fixture::World;

#[test]
fn a_replacement_stays_in_the_required_domain() {
    let mut planner = Bare::default();
    let text = "
        topology main rack kubernetes.io/hostname
        node a1 cpu=2 rack=1
        node a2 cpu=2 rack=1
        node a3 cpu=1 rack=1
        node b1 cpu=8 rack=2
        job filler
        group g cpu=8
        place filler
        job j class=tas
        group g count=4 cpu=1 topology=required:rack
        place j
        finish filler 0
        lose a2
    ";
    let mut world = World::of(text, &mut planner);
    // A repair is whole or not at all.
    let (text, _) = world.place("j", &mut planner);
    assert_eq!(
        text,
        "2 tasks must stand in one domain of rack; the best, 1, takes 1.\n\
         Of 4 nodes, by the first reason found: 1 can take at least one task; 1 is not ready; \
         1 is outside the topology domain it must stand in; 1 has too little cpu free.\n\
         Nearest in cpu: node a1 has 0 free of the 1 that one task asks for, and lacks nothing else."
    );
    world.extend("node a4 cpu=1 rack=1", &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 2 on a3, 3 on a4");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

#[test]
fn ranks_follow_the_topology() {
    let mut planner = Bare::default();
    let text = "
        topology main rack kubernetes.io/hostname
        node z cpu=1 rack=1
        node y cpu=1 rack=1
        node a cpu=1 rack=2
        node b cpu=1 rack=0
        job j class=tas
        group g count=4 cpu=1 topology=unconstrained
    ";
    let mut world = World::of(text, &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 0 on b, 1 on y, 2 on z, 3 on a");
}

#[test]
fn jobs_of_one_pass_see_each_other() {
    let mut planner = Bare::default();
    let text = "
        queue team cpu=5
        node a cpu=4
        job i queue=team
        group g count=3 cpu=1
        job j queue=team
        group g count=2 cpu=1
        job k
        group g count=1 cpu=1
    ";
    let world = World::of(text, &mut planner);
    let decisions = world.plan_all(&["i", "j", "k"], &mut planner);
    let texts: Vec<String> = decisions.iter().map(|decision| world.text(decision)).collect();
    assert_eq!(texts[0], "g 0-2 on a");
    // The second gang finds no room; the third job is filled in behind it.
    assert!(texts[1].starts_with("1 of the 2 tasks of group g"), "{}", texts[1]);
    assert_eq!(texts[2], "g 0 on a");
}
