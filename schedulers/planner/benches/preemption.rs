//! One preemption for room: a job that needs a node, or one cpu of it, where every node is full of less important work
//! of one task each. Run with `cargo bench -p ohm-planner --bench preemption`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{Board, Decision, LiveJobs, Planner, View};
use ohm_model::{Class, SessionId};
use ohm_placement::fixture::World;
use ohm_planner::of;
use ohm_stdx::Prng;
use std::hint::black_box;

/// Full nodes with as many jobs of one task as they have cpus, with drawn priorities.
fn cell(nodes: usize, cpus: usize) -> World {
    let mut planner = of(Class::BATCH);
    let mut world = World::new();
    let mut dice = Prng::new(7);
    for node in 0..nodes {
        world.extend(&format!("node n{node:06} cpu={cpus}"), &mut planner);
    }
    for job in 0..nodes * cpus {
        let priority = dice.below(100);
        world.extend(&format!("job j{job:06} priority={priority}\n group g cpu=1\n place j{job:06}"), &mut planner);
    }
    world.extend("job single priority=1000\n group g cpu=1", &mut planner);
    world.extend(&format!("job whole priority=1000\n group g cpu={cpus}"), &mut planner);
    world
}

fn preemption(criterion: &mut Criterion) {
    for (nodes, cpus) in [(1_000, 4), (5_000, 4), (10_000, 10)] {
        let world = cell(nodes, cpus);
        let (live, mut over) = (LiveJobs::of(&world.cell), Overlay::default());
        let mut group = criterion.benchmark_group("preempt");
        group.sample_size(10);
        for name in ["single", "whole"] {
            let mut planner = of(Class::BATCH);
            planner.reset(&View::new(&world.cell, &over, SessionId(0)));
            let Decision::Unplaced(why) = world.plan(name, &mut planner) else { panic!("{name} is placed") };
            group.bench_function(BenchmarkId::new(name, nodes), |bencher| {
                bencher.iter(|| {
                    let mut board = Board::new(&world.cell, &mut over, SessionId(0));
                    let item = world.item(name);
                    let found = plan_preemption(&mut planner, &mut board, item, (&why, &live), &mut Prng::new(1));
                    assert!(black_box(found).planned.is_some());
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, preemption);
criterion_main!(benches);
