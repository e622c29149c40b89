//! What a scheduler does about gangs that lost nodes: before everything else, whole or not at all, and as their policy
//! says when there is no room.

use crate::world;

use ohm_cell::{RepairEnd, RepairState};
use ohm_framework::need_of;
use ohm_model::{
    Class, Command, Epoch, Exit, GroupIndex, Incarnation, NodeConclusion, NodeHealth, OnDisconnect, Reconcile,
    RepairPolicy, RunRef, RunReport, RunReportKind,
};
use world::{World, job};

/// A cell of `nodes` nodes with two cores each, and a gang of four tasks that just stands on the first two.
fn world(nodes: usize, change: impl Fn(&mut ohm_model::JobSpec)) -> World {
    world_of(nodes, &[Class::BATCH], change)
}

/// The same with a scheduler for each of these classes.
fn world_of(nodes: usize, classes: &[Class], change: impl Fn(&mut ohm_model::JobSpec)) -> World {
    let mut world = World::new(1);
    for node in 0..nodes {
        world.register(&format!("n{node}"), &[("cpu", 2_000), ("pods", 20)], 1);
    }
    world.take_health();
    classes.iter().for_each(|class| world.add(*class, false));
    world.run(3_000);
    let mut gang = job("gang", Class::BATCH, 4, 4, 1_000);
    change(&mut gang);
    world.submit(vec![gang]);
    while world.found("gang").live() < 4 {
        world.run(20);
        assert!(world.now_ms < 10_000, "the gang does not start");
    }
    world
}

fn lose(world: &mut World, name: &str) {
    let node = world.reference.nodes().find(name).expect("a node");
    let incarnation = world.reference.nodes().get(node).expect("its record").incarnation;
    world.command(Command::ConcludeNodes {
        epoch: Epoch(1),
        conclusions: vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }],
    });
}

#[test]
fn a_gang_without_room_is_evicted_whole_when_it_fails_fast() {
    let mut world = world(2, |_| {});
    lose(&mut world, "n1");
    world.run(100);
    let gang = world.found("gang").clone();
    assert!(matches!(gang.repairs.past.last().map(|past| &past.end), Some(RepairEnd::Failed(_))), "{:?}", gang.repairs);
    world.run(100);
    assert_eq!((world.found("gang").live(), world.found("gang").pending()), (0, 4), "it waits like a new one");
    world.register("n1", &[("cpu", 2_000), ("pods", 20)], 2);
    world.run(200);
    assert_eq!(world.found("gang").live(), 4);
}

#[test]
fn a_gang_that_waits_keeps_what_stands() {
    let mut world = world(2, |gang| gang.repair.policy = RepairPolicy::Wait);
    lose(&mut world, "n1");
    world.run(100);
    let gang = world.found("gang").clone();
    assert_eq!((gang.live(), gang.repair_state(), gang.repairs.past.len()), (2, RepairState::Waiting, 0));
    world.register("n1", &[("cpu", 2_000), ("pods", 20)], 2);
    world.run(60);
    assert_eq!(world.found("gang").repair_state(), RepairState::InFlight);
}

#[test]
fn above_its_minimum_nothing_is_given_up() {
    let mut world = world(2, |gang| gang.groups[0].min_count = 2);
    lose(&mut world, "n1");
    world.run(100);
    let gang = world.found("gang").clone();
    assert_eq!((gang.live(), gang.repair_state(), gang.repairs.past.len()), (2, RepairState::Waiting, 0));
}

#[test]
fn a_repair_comes_before_new_work_of_higher_priority() {
    let mut world = world(3, |_| {});
    let mut other = job("other", Class::BATCH, 2, 2, 1_000);
    (other.priority, other.preempts) = (9, false);
    lose(&mut world, "n1");
    world.submit(vec![other]);
    world.run(60);
    assert_eq!((world.found("gang").live(), world.found("other").live()), (4, 0));
}

#[test]
fn a_gang_whose_runs_came_back_is_not_placed_anew_meanwhile() {
    let mut world = world(3, |gang| {
        (gang.on_disconnect, gang.reconcile) = (OnDisconnect::Keep, Reconcile::Original);
        gang.groups[0].min_count = 2;
    });
    let away = world.reference.nodes().find("n1").expect("a node");
    let runs: Vec<RunRef> =
        world.reference.runs().on_node(world.reference.nodes(), away).map(|(_, run)| run.run).collect();
    lose(&mut world, "n1");
    world.run(100);
    assert_eq!((world.found("gang").live(), runs.len()), (4, 2), "replaced");
    let spec = world.reference.nodes().get(away).expect("its record").spec.as_ref().clone();
    world.command(Command::RegisterNode { spec, key: 7, instance: 2, boot: 1, alive: runs.clone() });
    let end = |world: &mut World, of: RunRef| {
        let run = RunRef { incarnation: Incarnation(of.incarnation.0 + 1), ..of };
        let kind = RunReportKind::Ended { exit: Exit::Signal(15), message: String::new() };
        let node = world.reference.nodes().find("n2").expect("a node");
        world.command(Command::Report { node, reports: vec![RunReport { run, kind }] });
        world.found("gang").clone()
    };
    let waits = end(&mut world, runs[0]);
    assert_eq!((waits.live(), waits.pending()), (3, 1));
    assert_eq!(need_of(&world.reference, &waits), None, "it waits for the other one");
    let back = end(&mut world, runs[1]);
    assert_eq!((back.live(), world.reference.nodes().run_count(away)), (4, 2));
    assert!(runs.iter().all(|run| back.groups[0].tasks[run.task.task.0 as usize].incarnation == run.incarnation));
}

#[test]
fn a_repair_that_finds_no_room_claims_the_next_whoever_plans_new_work() {
    let classes = [Class::BATCH, Class::SERVICE];
    let mut world = world_of(2, &classes, |gang| gang.repair.policy = RepairPolicy::Wait);
    let mut rival = job("rival", Class::SERVICE, 2, 1, 1_000);
    (rival.priority, rival.preempts) = (9, false);
    world.submit(vec![rival]);
    world.run(100);
    lose(&mut world, "n1");
    world.run(100);
    let gang = world.found("gang").clone();
    let claim = world.reference.nominations().claim(gang.id, GroupIndex(0)).copied();
    assert_eq!(claim.map(|claim| claim.sought_for), Some(2), "it claims room, once");
    world.run(200);
    assert_eq!(world.reference.nominations().claim(gang.id, GroupIndex(0)).copied(), claim);
    world.register("n1", &[("cpu", 2_000), ("pods", 20)], 2);
    let away = world.reference.nodes().find("n1").expect("a node");
    let earmarks: Vec<u32> = world.reference.nominations().on_node(away).iter().map(|held| held.count).collect();
    assert_eq!(earmarks, [2], "in the entry in which the node is back");
    world.run(200);
    assert_eq!((world.found("gang").live(), world.found("rival").live()), (4, 0));
    assert!(!world.reference.nominations().claims().any(|((job, _), _)| job == gang.id), "nothing is owed any more");
}
