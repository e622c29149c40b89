//! Gangs in a topology of 100,000 nodes in four levels: planned from counts that are kept, and from none; and repaired.
//!
//! Each round is what a scheduler does: plan, then read the planned nodes anew. Run with
//! `cargo bench -p ohm-planner --bench topologies`.

use criterion::{Criterion, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Decision, Planner, View, Work};
use ohm_model::{Class, NodeId, SessionId};
use ohm_placement::fixture::World;
use ohm_planner::{ProfilePlanner, of};
use ohm_stdx::Prng;
use std::hint::black_box;

/// Zones of 10,000 nodes, blocks of 1,000, racks of 40; half of the nodes partly used, in sizes that differ.
fn cell(nodes: usize) -> World {
    let mut planner = of(Class::TAS);
    let mut world = World::new();
    world.extend("topology main zone block rack kubernetes.io/hostname", &mut planner);
    let mut dice = Prng::new(7);
    for node in 0..nodes {
        let (cpu, memory) = (16 + dice.below(48), 64 + dice.below(192));
        let (zone, block, rack) = (node / 10_000, node / 1_000, node / 40);
        let line = format!(
            "node n{node:06} cpu={cpu} memory={memory}Gi gpu=8 zone=z{zone:02} block=b{block:03} rack=r{rack:05}"
        );
        world.extend(&line, &mut planner);
    }
    for (name, group) in [
        ("required", "count=10000 cpu=4 memory=8Gi topology=required:zone"),
        ("devices", "count=10000 cpu=4 gpu=1 topology=required:zone"),
        ("small", "count=64 cpu=4 memory=8Gi topology=required:rack"),
        ("preferred", "count=10000 cpu=4 memory=8Gi topology=preferred:rack"),
        ("unconstrained", "count=10000 cpu=4 memory=8Gi topology=unconstrained"),
        ("sliced", "count=10000 cpu=4 memory=8Gi topology=required:zone slices=rack:40,kubernetes.io/hostname:2"),
        ("refused", "count=900 cpu=4 memory=8Gi topology=required:rack"),
        ("standing", "count=10000 cpu=4 memory=9Gi topology=required:zone slices=block:1000"),
    ] {
        world.extend(&format!("job {name} class=tas\n group g {group}"), &mut planner);
    }
    let led = "job led class=tas
        group lead cpu=8 topology=required:zone with=x
        group work count=10000 cpu=4 memory=8Gi topology=required:zone with=x";
    world.extend(led, &mut planner);
    world
}

fn round(world: &World, planner: &mut ProfilePlanner, over: &mut Overlay, name: &str) -> usize {
    let mut board = Board::new(&world.cell, over, SessionId(0));
    let work = Work { jobs: vec![world.item(name)], budget: Budget::UNBOUNDED };
    let plan = planner.plan(&mut board, &work, &mut Prng::new(1));
    let mut planned_rows = 0;
    for decision in &plan.decisions {
        match decision {
            Decision::Planned(planned) => {
                let nodes: Vec<NodeId> = planned.place.iter().map(|row| row.node).collect();
                planned_rows += nodes.len();
                planner.changed(&board.view(), &nodes, &[]);
            }
            Decision::Unplaced(_) if name == "refused" => {}
            other => panic!("{}", world.text(other)),
        }
    }
    black_box(plan);
    planned_rows
}

fn topologies(criterion: &mut Criterion) {
    let mut world = cell(100_000);
    let mut planner = of(Class::TAS);
    let mut group = criterion.benchmark_group("topology-of-100000");
    let mut over = Overlay::default();
    planner.reset(&View::new(&world.cell, &over, SessionId(0)));
    for name in ["required", "devices", "small", "preferred", "unconstrained", "sliced", "led"] {
        group.bench_function(name, |bencher| bencher.iter(|| round(&world, &mut planner, &mut over, name)));
    }
    // No rack takes it: every node is counted under what keeps it out.
    group.bench_function("refused", |bencher| bencher.iter(|| round(&world, &mut planner, &mut over, "refused")));
    group.bench_function("refused-after-a-change", |bencher| {
        bencher.iter(|| {
            planner.changed(&View::new(&world.cell, &over, SessionId(0)), &[NodeId(0)], &[]);
            round(&world, &mut planner, &mut over, "refused")
        });
    });
    group.bench_function("required-first-of-shape", |bencher| {
        bencher.iter(|| {
            planner.placer.forget_counts();
            round(&world, &mut planner, &mut over, "required")
        });
    });
    let (text, _) = world.place("standing", &mut planner);
    let lost: Vec<String> = text.split(" on ").skip(1).step_by(100).take(3).map(|node| node[..7].to_string()).collect();
    for node in &lost {
        world.extend(&format!("lose {node}"), &mut planner);
    }
    planner.reset(&View::new(&world.cell, &over, SessionId(0)));
    group.bench_function("repair-of-3-nodes", |bencher| {
        bencher.iter(|| round(&world, &mut planner, &mut over, "standing"));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = topologies
}
criterion_main!(benches);
