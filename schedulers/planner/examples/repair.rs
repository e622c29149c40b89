//! How long the core part of a repair takes: from the entry that declares a node lost to the committed repair, on one
//! copy: apply, plan, judge and apply again. Durability is not in it. Prints JSON.
//!
//! `cargo run --release -p ohm-planner --example repair`

#![allow(clippy::disallowed_types, reason = "it measures time")]

use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Decision, Need, Planner, View, Work, WorkItem};
use ohm_model::{Class, Command, Epoch, NodeConclusion, NodeHealth, NodeId, SessionId};
use ohm_placement::fixture::World;
use ohm_planner::{ProfilePlanner, of};
use ohm_stdx::Prng;
use std::fmt::Write;
use std::time::Instant;

const NODES: usize = 10_000;
const ROUNDS: usize = 200;

/// Blocks of 1,000 nodes in racks of 40, of different sizes, and a gang of 1,000 tasks bound to one block.
fn cell(planner: &mut ProfilePlanner) -> World {
    let mut text = String::from("topology main block rack kubernetes.io/hostname\n");
    let mut dice = Prng::new(7);
    for node in 0..NODES {
        let (cpu, memory) = (16 + dice.below(48), 64 + dice.below(192));
        let (block, rack) = (node / 1_000, node / 40);
        writeln!(text, "node n{node:05} cpu={cpu} memory={memory}Gi gpu=8 block=b{block:02} rack=r{rack:04}").unwrap();
    }
    text.push_str(
        "job train class=tas\n group g count=1000 cpu=2 memory=4Gi gpu=1 topology=required:block\n place train\n",
    );
    World::of(&text, planner)
}

fn main() {
    let mut planner = of(Class::TAS);
    let whole = cell(&mut planner);
    let job = whole.job("train");
    assert_eq!(whole.cell.jobs().get(job).map(|job| job.live()), Some(1_000));
    let used: Vec<NodeId> = whole
        .cell
        .nodes()
        .iter()
        .map(|(node, _)| node)
        .filter(|node| whole.cell.nodes().run_count(*node) > 0)
        .collect();
    let (mut over, mut dice) = (Overlay::default(), Prng::new(1));
    let (mut micros, mut moved) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let mut world = whole.clone();
        planner.reset(&View::new(&world.cell, &over, SessionId(0)));
        let node = used[round % used.len()];
        let incarnation = world.cell.nodes().get(node).expect("a node").incarnation;
        let conclusions = vec![NodeConclusion { node, incarnation, health: NodeHealth::Lost }];
        let start = Instant::now();
        world.apply(Command::ConcludeNodes { epoch: Epoch(1), conclusions });
        let mut board = Board::new(&world.cell, &mut over, SessionId(0));
        planner.changed(&board.view(), &[node], &[job]);
        let item = WorkItem { job, need: Need::Repair, attempt: 0, nominated: false, counted: true };
        let plan = planner.plan(&mut board, &Work { jobs: vec![item], budget: Budget::UNBOUNDED }, &mut dice);
        let Some(decision @ Decision::Planned(planned)) = plan.decisions.first() else { panic!("{plan:?}") };
        let tasks: u32 = planned.place.iter().map(|row| row.count).sum();
        let verdict = world.commit(decision).expect("a verdict");
        micros.push(start.elapsed().as_micros() as u64);
        assert!(verdict.conflicts.is_empty(), "{verdict:?}");
        assert_eq!(world.cell.jobs().get(job).map(|job| job.live()), Some(1_000), "the gang is whole again");
        moved += tasks;
    }
    micros.sort_unstable();
    let (p50, p99, mean) = (micros[ROUNDS / 2], micros[ROUNDS * 99 / 100], moved as usize / ROUNDS);
    println!("{{\"nodes\": {NODES}, \"gang\": 1000, \"rounds\": {ROUNDS}, \"tasksMovedMean\": {mean},");
    println!(" \"p50Micros\": {p50}, \"p99Micros\": {p99}}}");
}
