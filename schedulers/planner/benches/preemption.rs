//! Preemption for room where every node is full of less important work of one task each: a job that needs a node, or
//! one cpu of it. `preempt` is one decision that is asked for again and again, `first` the first one that a scheduler
//! makes, `stream` one of many preemptors that come one after the other, each of which is told to its victims, which
//! stop still when the next one comes. Run with `cargo bench -p ohm-planner --bench preemption`.

#![allow(clippy::disallowed_types, reason = "a benchmark is about real time")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{Board, Decision, LiveJobs, PlannedJob, Planner, View};
use ohm_model::{Class, JobId, SessionId};
use ohm_placement::fixture::World;
use ohm_planner::{ProfilePlanner, of};
use ohm_stdx::Prng;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Nodes, and jobs on each.
const SIZES: [(usize, usize); 3] = [(1_000, 4), (5_000, 4), (10_000, 10)];

/// So many preemptors of the stream wait for their victims when the first one is measured.
const UNDER_WAY: usize = 200;

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
    for (nodes, cpus) in SIZES {
        let world = cell(nodes, cpus);
        let (mut live, mut over) = (LiveJobs::of(&world.cell), Overlay::default());
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
                    let found = plan_preemption(&mut planner, &mut board, item, (&why, &mut live), &mut Prng::new(1));
                    assert!(black_box(found).planned.is_some());
                });
            });
        }
        group.finish();
    }
}

/// How long the decision about `name` takes with what is known of the jobs that stand, and the decision.
fn decide(world: &World, name: &str, live: &mut LiveJobs, planner: &mut ProfilePlanner) -> (Duration, PlannedJob) {
    let mut over = Overlay::default();
    planner.reset(&View::new(&world.cell, &over, SessionId(0)));
    let Decision::Unplaced(why) = world.plan(name, planner) else { panic!("{name} is placed") };
    let (mut board, item) = (Board::new(&world.cell, &mut over, SessionId(0)), world.item(name));
    let begun = Instant::now();
    live.bring_up(&world.cell);
    let found = plan_preemption(planner, &mut board, item, (&why, live), &mut Prng::new(1));
    (begun.elapsed(), found.planned.expect("somebody is stopped"))
}

fn first_and_stream(criterion: &mut Criterion) {
    for (nodes, cpus) in SIZES {
        let mut world = cell(nodes, cpus);
        let mut planner = of(Class::BATCH);
        let mut group = criterion.benchmark_group("preempt");
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("first", nodes), |bencher| {
            bencher.iter_custom(|times| {
                (0..times).map(|_| decide(&world, "whole", &mut LiveJobs::default(), &mut planner).0).sum()
            });
        });
        let (mut live, mut count) = (LiveJobs::of(&world.cell), 0);
        group.measurement_time(Duration::from_millis(1)).warm_up_time(Duration::from_millis(1));
        let mut one = || {
            let name = format!("next{count}");
            count += 1;
            world.extend(&format!("job {name} priority=1000\n group g cpu={cpus}"), &mut planner);
            let (took, planned) = decide(&world, &name, &mut live, &mut planner);
            let jobs: BTreeSet<JobId> = planned.preempt.iter().map(|victim| victim.job).collect();
            let nodes = planned.nominate.iter().map(|room| room.node).collect();
            world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
            live.changed(&jobs, &nodes);
            took
        };
        (0..UNDER_WAY).for_each(|_| _ = one());
        group.bench_function(BenchmarkId::new("stream", nodes), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| one()).sum());
        });
        group.finish();
        println!("{count} preemptors, all of whose victims stop still");
    }
}

criterion_group!(benches, preemption, first_and_stream);
criterion_main!(benches);
