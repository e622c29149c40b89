//! What goes where, and why not.

use super::{check, fresh};
use crate::ProfilePlanner;
use ohm_model::{Class, SchedulingProfile, Score};
use ohm_placement::fixture::{self, World};

const THREE: &str = "
    node a cpu=8 memory=32Gi
    node b cpu=4 memory=16Gi
    node c cpu=4 memory=16Gi taint=dedicated:yes:NoSchedule
";

#[test]
fn best_fit_takes_the_node_with_least_left_over() {
    check(&format!("{THREE} job j\n group g cpu=2"), "g 0 on b");
    check(&format!("{THREE} job j\n group g cpu=5"), "g 0 on a");
    check(&format!("{THREE} job j\n group g cpu=2 tolerate=dedicated select=x:y"), &missing_label());
}

fn missing_label() -> String {
    "0 of the 1 task of group g that must be placed together would find room.
     Of 3 nodes, by the first reason found: 3 lack a label of its nodeSelector.
     None of these nodes would take a task even if it were empty: the job must ask for less or for something else, or other nodes must join."
        .into()
}

#[test]
fn a_gang_fills_nodes_one_by_one() {
    check(&format!("{THREE} job j\n group g count=5 cpu=2"), "g 0-1 on b, 2-4 on a");
    check(&format!("{THREE} job j\n group g count=9 min=4 cpu=2"), "g 0-1 on b, 2-5 on a");
}

#[test]
fn a_group_that_finds_no_room_behind_the_others_goes_before_them() {
    let nodes = "node a cpu=4\n node b cpu=2 disk=ssd\n";
    check(&format!("{nodes} job j\n group g cpu=2\n group h cpu=2 select=disk:ssd"), "g 0 on a\n h 0 on b");
    check(
        &format!("{nodes} job j\n group g cpu=2 count=3 min=1\n group h cpu=2 select=disk:ssd"),
        "g 0-1 on a\n h 0 on b",
    );
}

#[test]
fn a_gang_below_its_minimum_gets_nothing_and_hears_why() {
    check(
        &format!("{THREE} node d cpu=8 memory=1Gi cordoned\n job j\n group g count=9 min=7 cpu=2 memory=2Gi"),
        "6 of the 7 tasks of group g that must be placed together would find room.
         Of 4 nodes, by the first reason found: 2 can take at least one task; 1 is cordoned; 1 has the taint dedicated=yes:NoSchedule, which it does not tolerate.",
    );
}

#[test]
fn the_nearest_miss_is_told_per_resource() {
    check(
        "node a cpu=8 memory=4Gi
         node b cpu=3 memory=32Gi
         node c cpu=2 memory=1Gi
         job j
         group g cpu=4 memory=8Gi",
        "0 of the 1 task of group g that must be placed together would find room.
         Of 3 nodes, by the first reason found: 2 have too little cpu for one task even when empty; 1 has too little memory for one task even when empty.
         Nearest in cpu: node b has 3 free of the 4 that one task asks for, and lacks nothing else.
         Nearest in memory: node a has 4Gi free of the 8Gi that one task asks for, and lacks nothing else.
         None of these nodes would take a task even if it were empty: the job must ask for less or for something else, or other nodes must join.",
    );
}

#[test]
fn spread_takes_the_emptiest_node_with_fewest_of_the_group() {
    check(&format!("{THREE} job j\n group g count=3 cpu=1 spread"), "g 0-1 on a, 2 on b");
    // One task has nobody to spread from.
    check(&format!("{THREE} job j\n group g count=1 cpu=1 spread"), "g 0 on b");
    let tainted = "node a cpu=8\n node b cpu=64 taint=x:y:NoSchedule\n job j\n group g cpu=1 spread";
    check(tainted, "g 0 on a");
    check(
        "node a cpu=8
         node b cpu=8
         node c cpu=4
         job j class=service
         group g count=7 cpu=1",
        "g 0-2 on a, 3-4 on b, 5-6 on c",
    );
}

#[test]
fn a_later_task_of_a_spread_group_avoids_the_nodes_it_stands_on() {
    let mut planner = fresh();
    let text =
        "node a cpu=8\n node b cpu=4\n job j class=service\n group g count=2 cpu=1\n place j\n job k\n group g cpu=1";
    let mut world = World::of(text, &mut planner);
    world.place("k", &mut planner);
    let lost =
        "node a cpu=8\n node b cpu=4\n job j class=service\n group g count=2 cpu=1\n place j\n lose a\n node c cpu=2";
    let mut world = World::of(lost, &mut planner);
    assert_eq!(world.place("j", &mut planner).0, "g 0 on c");
}

#[test]
fn ports_and_limits_per_node_hold() {
    check("node a cpu=8\n node b cpu=8\n job j\n group g count=2 cpu=1 ports=80", "g 0 on a, 1 on b");
    check("node a cpu=8\n node b cpu=8\n job j\n group g count=4 cpu=1 max=2", "g 0-1 on a, 2-3 on b");
    check(
        "node a cpu=8\n job i\n group g cpu=1 ports=80\n place i\n job j\n group g cpu=1 ports=443,80",
        "0 of the 1 task of group g that must be placed together would find room.
         Of 1 node, by the first reason found: 1 has port 80 taken.",
    );
    check(
        "node a cpu=8\n job j class=service\n group g count=3 cpu=1 max=2",
        "g 0-1 on a
         rest: 0 of the 1 task of group g that must be placed together would find room.
         Of 1 node, by the first reason found: 1 holds as many of its tasks as one node may.",
    );
}

#[test]
fn preferences_weigh_against_the_left_over() {
    let nodes = "node a cpu=8 zone=z1\n node b cpu=4 zone=z2\n";
    check(&format!("{nodes} job j\n group g cpu=1"), "g 0 on b");
    check(&format!("{nodes} job j\n group g cpu=1 prefer=10:zone:z1"), "g 0 on a");
    let soft = "node a cpu=8\n node b cpu=4 taint=old:yes:PreferNoSchedule\n job j\n group g cpu=1";
    check(soft, "g 0 on a");
    check(&format!("{soft} tolerate=old"), "g 0 on b");
    let profile = SchedulingProfile::built_in(Class::BATCH).with_score(Score::TaintToleration, 0);
    fixture::check(&mut ProfilePlanner::new(profile), soft, "g 0 on b");
}

#[test]
fn devices_are_packed_and_whole_ones_kept() {
    let nodes = "node a cpu=8 gpu=2\n node b cpu=8 gpu=4\n node c cpu=16\n";
    check(&format!("{nodes} job j\n group g cpu=1"), "g 0 on c");
    check(&format!("{nodes} job j\n group g cpu=1 gpu=1"), "g 0 on a [1]");
    check(&format!("{nodes} job j\n group g count=2 min=1 cpu=1 gpu=3"), "g 0 on b [111]");
    check(
        &format!("{nodes} job i\n group g cpu=1 gpu=500m\n place i\n job j\n group g cpu=1 gpu=400m"),
        "g 0 on a [1]",
    );
    check(
        &format!("{nodes} job i\n group g cpu=1 gpu=500m\n place i\n job j\n group g count=3 cpu=1 gpu=600m"),
        "g 0 on a [10], 1-2 on b [1 10]",
    );
    check(
        "node a cpu=8 gpu=2
         job i
         group g count=2 cpu=1 gpu=600m
         place i
         job j
         group g cpu=1 gpu=800m",
        "0 of the 1 task of group g that must be placed together would find room.
         Of 1 node, by the first reason found: 1 has enough nvidia.com/gpu free in sum, but not on the devices that are left.",
    );
}

#[test]
fn groups_of_one_job_share_what_there_is() {
    let node = "node a cpu=8\n";
    check(&format!("{node} job j\n group x count=2 cpu=2\n group y count=1 cpu=4"), "x 0-1 on a\n y 0 on a");
    // The first group would take all: with its minimum only, the second one finds room.
    check(&format!("{node} job j\n group x count=4 min=1 cpu=2\n group y count=1 cpu=4"), "x 0-1 on a\n y 0 on a");
    check(
        &format!("{node} job j\n group x count=2 cpu=3\n group y count=1 cpu=4"),
        "0 of the 1 task of group y that must be placed together would find room.
         Room for group x was found and is counted as taken.
         Of 1 node, by the first reason found: 1 has too little cpu free.
         Nearest in cpu: node a has 2 free of the 4 that one task asks for, and lacks nothing else.",
    );
}

#[test]
fn a_queue_bounds_what_is_placed() {
    let cell = "queue team cpu=4\n node a cpu=8\n";
    check(&format!("{cell} job j queue=team\n group g count=3 min=1 cpu=2"), "g 0-1 on a");
    check(
        &format!("{cell} job j queue=team\n group g count=3 cpu=2"),
        "Queue team may use 4 more of cpu, what it may borrow included; the job needs 6 at once. It waits until enough is given back or the quota is raised.",
    );
    check(
        &format!("{cell} job j queue=team\n group x count=1 cpu=3\n group y count=1 cpu=2"),
        "Queue team may use 4 more of cpu, what it may borrow included; the job needs 5 at once. It waits until enough is given back or the quota is raised.",
    );
    check(
        &format!("{cell} job j queue=team\n group g count=3 min=1 elastic cpu=2"),
        "g 0-1 on a
         rest: Queue team may use 0 more of cpu, what it may borrow included; the job needs 2 at once. It waits until enough is given back or the quota is raised.",
    );
}

#[test]
fn nominated_room_is_for_its_job_or_for_higher_priority() {
    let cell = "node a cpu=4\n job owner priority=5\n group g cpu=4\n nominate owner a 1\n";
    check(
        &format!("{cell} job j priority=5\n group g cpu=1"),
        "0 of the 1 task of group g that must be placed together would find room.
         Of 1 node, by the first reason found: 1 has the room kept for other jobs.",
    );
    check(&format!("{cell} job j priority=6\n group g cpu=1"), "g 0 on a");
    let mut planner = fresh();
    let mut world = World::of(&format!("{cell} node b cpu=4"), &mut planner);
    assert_eq!(world.place("owner", &mut planner).0, "g 0 on a");
}

#[test]
fn workers_stand_beside_their_leader_where_room_is_held() {
    let cell = "topology main rack kubernetes.io/hostname
        node a cpu=5 rack=r kubernetes.io/hostname=a
        job other
        group g count=2 min=1 cpu=500m
        nominate other a 1\n";
    let team = |workers: &str| {
        let within = "topology=required:kubernetes.io/hostname with=x";
        format!("{cell} job j class=tas\n group leader cpu=2 {within}\n group workers {workers} cpu=1 {within}")
    };
    check(&team("count=6 min=1 max=1"), "leader 0 on a\n workers 0 on a");
    check(&team("count=6 min=2"), "leader 0 on a\n workers 0-1 on a");
    check(
        &team("count=6 min=3"),
        "3 tasks and their leader (group leader) must be placed in one domain of kubernetes.io/hostname; the best, r/a, takes 2.
         Of 1 node, by the first reason found: 1 can take at least one task.",
    );
}
