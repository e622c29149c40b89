//! One decision: exact over all nodes, the first of its shape and a repeated one; a gang; an explanation.
//!
//! Each round is what a scheduler does: plan, then read the planned nodes anew. Run with
//! `cargo bench -p ohm-planner`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Decision, Planner, View, Work};
use ohm_model::{Class, NodeId, SchedulingProfile, SessionId};
use ohm_placement::Config;
use ohm_placement::fixture::World;
use ohm_planner::{ProfilePlanner, of};
use ohm_stdx::Prng;
use std::hint::black_box;

/// Nodes in racks of 40 and zones of 2,000, half of them partly used, in sizes that differ.
fn cell(nodes: usize) -> World {
    let mut planner = of(Class::BATCH);
    let mut world = World::new();
    world.extend("topology main zone rack kubernetes.io/hostname", &mut planner);
    let mut dice = Prng::new(7);
    for node in 0..nodes {
        let (cpu, memory) = (16 + dice.below(48), 64 + dice.below(192));
        let (zone, rack) = (node / 2000, node / 40);
        let line = format!("node n{node:06} cpu={cpu} memory={memory}Gi zone=z{zone:03} rack=r{rack:05}");
        world.extend(&line, &mut planner);
    }
    world.extend("job one\n group g cpu=2 memory=3Gi select=zone:z001", &mut planner);
    world.extend("job two\n group g cpu=3 memory=5Gi select=zone:z002", &mut planner);
    world.extend("job any\n group g cpu=3500m memory=7Gi", &mut planner);
    world.extend("job other\n group g cpu=2500m memory=9Gi", &mut planner);
    world.extend("job gang\n group g count=1000 cpu=7 memory=20Gi", &mut planner);
    world.extend("job apart\n group g count=1000 cpu=7 memory=20Gi max=1 spread", &mut planner);
    world.extend("job never\n group g cpu=500 memory=20Gi", &mut planner);
    world.extend("job racked class=tas\n group g count=1000 cpu=7 memory=20Gi topology=required:zone", &mut planner);
    world.extend("job near class=tas\n group g count=1000 cpu=7 memory=20Gi topology=preferred:rack", &mut planner);
    world
}

fn round(world: &World, planner: &mut ProfilePlanner, over: &mut Overlay, names: &[&str]) {
    let mut board = Board::new(&world.cell, over, SessionId(0));
    let jobs = names.iter().map(|name| world.item(name)).collect();
    let work = Work { jobs, budget: Budget::UNBOUNDED };
    let plan = planner.plan(&mut board, &work, &mut Prng::new(1));
    for decision in &plan.decisions {
        if let Decision::Planned(planned) = decision {
            let nodes: Vec<NodeId> = planned.place.iter().map(|row| row.node).collect();
            planner.changed(&board.view(), &nodes, &[]);
        }
    }
    black_box(plan);
}

fn decisions(criterion: &mut Criterion) {
    for nodes in [10_000, 100_000] {
        let world = cell(nodes);
        let mut over = Overlay::default();
        let mut group = criterion.benchmark_group("decide");
        for (name, jobs, remembered) in [
            ("first-of-shape", &["any", "other"][..], 1),
            ("first-of-shape-one-zone", &["one", "two"][..], 1),
            ("repeated-shape", &["any", "any"][..], 512),
            ("unplaceable-repeated", &["never", "never"][..], 512),
        ] {
            let mut planner =
                ProfilePlanner::with(&Config { remembered, ..Config::new(SchedulingProfile::built_in(Class::BATCH)) });
            planner.reset(&View::new(&world.cell, &over, SessionId(0)));
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(name, nodes), |bencher| {
                bencher.iter(|| {
                    turn += 1;
                    round(&world, &mut planner, &mut over, &jobs[turn % 2..][..1]);
                });
            });
        }
        let mut planner = of(Class::BATCH);
        planner.reset(&View::new(&world.cell, &over, SessionId(0)));
        for name in ["gang", "apart", "racked", "near"] {
            group.bench_function(BenchmarkId::new(format!("{name}-of-1000"), nodes), |bencher| {
                bencher.iter(|| round(&world, &mut planner, &mut over, &[name]));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = decisions
}
criterion_main!(benches);
