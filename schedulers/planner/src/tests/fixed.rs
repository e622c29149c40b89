//! Work that stands already: replacements stay where the group stands.

use super::fresh;
use crate::ProfilePlanner;
use ohm_framework::{Budget, Decision};
use ohm_placement::fixture::World;

#[test]
fn a_replacement_stays_in_the_required_domain() {
    let mut planner = fresh();
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
        "2 tasks must be placed in one domain of rack; the best, 1, takes 1.\n\
         Of 4 nodes, by the first reason found: 1 can take at least one task; 1 is not ready; \
         1 is outside the topology domain it must be placed in; 1 has too little cpu free.\n\
         Nearest in cpu: node a1 has 0 free of the 1 that one task asks for, and lacks nothing else."
    );
    world.extend("node a4 cpu=1 rack=1", &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 2 on a3, 3 on a4");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

#[test]
fn ranks_follow_the_topology() {
    let mut planner = fresh();
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
fn room_kept_for_one_group_of_a_gang_is_room_for_the_others() {
    let mut planner = fresh();
    let text = "
        node a cpu=4
        job j
        group g count=2 cpu=1
        group h count=1 cpu=2
        nominate j a 1
    ";
    let mut world = World::of(text, &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 0-1 on a\nh 0 on a");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

#[test]
fn jobs_of_one_pass_see_each_other() {
    let mut planner = fresh();
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

#[test]
fn a_gang_that_is_to_stop_as_a_whole_waits_for_its_former_runs() {
    let mut planner = fresh();
    let text = "node a cpu=8\n job j\n group g count=4 cpu=1\n place j\n suspend j\n resume j\n finish j 0";
    let mut world = World::of(&text.replace("finish", "fail"), &mut planner);
    let waits = "It waits for its former runs to stop.";
    assert_eq!(world.place("j", &mut planner).0, waits);
    for task in 1..3 {
        world.extend(&format!("fail j {task}"), &mut planner);
        assert_eq!(world.place("j", &mut planner).0, waits);
    }
    world.extend("fail j 3", &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 0-3 on a");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

#[test]
fn the_rows_of_a_pass_never_cut_a_rigid_gang() {
    let mut planner = fresh();
    let nodes: String = (0..6).map(|node| format!("node n{node} cpu=1\n")).collect();
    let jobs = "job i\n group g count=2 cpu=1
        job rigid\n group g count=4 min=2 cpu=1
        job elastic\n group g count=4 min=1 elastic cpu=1";
    let world = World::of(&format!("{nodes}{jobs}"), &mut planner);
    let rows = |names: &[&str], planner: &mut ProfilePlanner| {
        let decisions = world.plan_within(names, Budget { nodes: u64::MAX, rows: 3 }, planner);
        let rows = decisions.iter().map(|decision| match decision {
            Decision::Planned(planned) => planned.place.len(),
            _ => 0,
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows(&["i", "rigid"], &mut planner), [2, 4]);
    assert_eq!(rows(&["i", "elastic"], &mut planner), [2, 1]);
}

#[test]
fn a_shrunk_node_takes_nothing_until_it_has_settled() {
    let mut planner = fresh();
    let text = "
        topology main rack
        node a cpu=8 gpu=2 rack=1
        job i\n group g count=2 cpu=1 gpu=1\n place i
        job j class=tas\n group g cpu=1 gpu=1 topology=required:rack
        shrink a gpu=1
    ";
    let mut world = World::of(text, &mut planner);
    assert_eq!(
        world.place("j", &mut planner).0,
        "1 task must be placed in one domain of rack; no domain takes any.\n\
         Of 1 node, by the first reason found: 1 is not ready."
    );
    world.extend("node b cpu=1 gpu=1 rack=2", &mut planner);
    let (text, verdict) = world.place("j", &mut planner);
    assert_eq!(text, "g 0 on b [1]");
    assert!(verdict.is_some_and(|verdict| verdict.conflicts.is_empty()));
}

#[test]
fn a_service_group_below_its_minimum_says_what_it_waits_for() {
    let mut planner = fresh();
    let text = "node a cpu=8\n job web class=service\n group g count=3 min=3 cpu=1\n place web
        fail web 0\n wait 600\n fail web 1\n fail web 2\n wait 600";
    let mut world = World::of(text, &mut planner);
    assert_eq!(world.cell.jobs().find("web").map(|job| job.pending()), Some(1));
    assert_eq!(world.place("web", &mut planner).0, "It waits for tasks whose back-off has not passed.");
    world.extend("wait 2000", &mut planner);
    assert_eq!(world.place("web", &mut planner).0, "g 0-2 on a");
}
