//! Preemption for room where every node is full of less important work of one task each: a job that needs a node, or
//! one cpu of it. `preempt` is one decision that is asked for again and again, `first` the first one that a scheduler
//! makes, `stream` one of many preemptors that come one after the other, each of which is told to its victims, which
//! stop still when the next one comes. Run with `cargo bench -p ohm-planner --bench preemption`.

#![allow(clippy::disallowed_types, reason = "a benchmark is about real time")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{Board, Budget, Decision, LiveJobs, Planner, View, Work, WorkItem};
use ohm_model::{Class, JobId, NodeId, SessionId};
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

/// How long the first decision of a scheduler takes about `whole`: it makes its orders then.
fn first(world: &World, planner: &mut ProfilePlanner) -> Duration {
    let (mut over, mut live) = (Overlay::default(), LiveJobs::default());
    planner.reset(&View::new(&world.cell, &over, SessionId(0)));
    let Decision::Unplaced(why) = world.plan("whole", planner) else { panic!("whole is placed") };
    let mut board = Board::new(&world.cell, &mut over, SessionId(0));
    let begun = Instant::now();
    live.bring_up(&world.cell);
    let found = plan_preemption(planner, &mut board, world.item("whole"), (&why, &mut live), &mut Prng::new(1));
    assert!(found.planned.is_some());
    begun.elapsed()
}

/// Preemptors one after the other, and what a scheduler knows of the cell.
struct Stream {
    world: World,
    planner: ProfilePlanner,
    live: LiveJobs,
    /// What the last one changed, of which the planner is not told yet.
    changed: BTreeSet<NodeId>,
    count: usize,
}

impl Stream {
    fn over(world: World) -> Self {
        let mut planner = of(Class::BATCH);
        planner.reset(&View::new(&world.cell, &Overlay::default(), SessionId(0)));
        let live = LiveJobs::of(&world.cell);
        Stream { world, planner, live, changed: BTreeSet::new(), count: 0 }
    }

    /// The next one asks for `cpus`, finds no room and stops others. Returns how long it takes to tell the planner what
    /// is other than before, to find that there is no room, and whom to stop.
    fn next(&mut self, cpus: usize) -> Duration {
        let name = format!("next{}", self.count);
        self.count += 1;
        // What is only submitted changes no node: the planner of the fixture is not asked.
        self.world.extend(&format!("job {name} priority=1000\n group g cpu={cpus}"), &mut of(Class::BATCH));
        let (mut over, mut dice) = (Overlay::default(), Prng::new(1));
        let item = WorkItem { counted: false, ..self.world.item(&name) };
        let mut board = Board::new(&self.world.cell, &mut over, SessionId(0));
        let changed: Vec<NodeId> = std::mem::take(&mut self.changed).into_iter().collect();
        let begun = Instant::now();
        self.planner.changed(&board.view(), &changed, &[item.job]);
        self.live.bring_up(&self.world.cell);
        let work = Work { jobs: vec![item], budget: Budget::UNBOUNDED };
        let decisions = self.planner.plan(&mut board, &work, &mut dice).decisions;
        let [Decision::Unplaced(why)] = &decisions[..] else { panic!("{name} is placed") };
        let found = plan_preemption(&mut self.planner, &mut board, item, (why, &mut self.live), &mut dice);
        let took = begun.elapsed();
        let planned = found.planned.expect("somebody is stopped");
        let jobs: BTreeSet<JobId> = planned.preempt.iter().map(|victim| victim.job).collect();
        self.changed = planned.nominate.iter().map(|room| room.node).chain(found.nodes).collect();
        self.world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
        self.live.changed(&jobs, &self.changed);
        took
    }
}

fn first_and_stream(criterion: &mut Criterion) {
    for (nodes, cpus) in SIZES {
        let (world, mut planner) = (cell(nodes, cpus), of(Class::BATCH));
        let mut group = criterion.benchmark_group("preempt");
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("first", nodes), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| first(&world, &mut planner)).sum());
        });
        let mut stream = Stream::over(world);
        (0..UNDER_WAY).for_each(|_| _ = stream.next(cpus));
        group.measurement_time(Duration::from_millis(1)).warm_up_time(Duration::from_millis(1));
        group.bench_function(BenchmarkId::new("stream", nodes), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| stream.next(cpus)).sum());
        });
        group.finish();
        println!("{} preemptors, all of whose victims stop still", stream.count);
    }
}

criterion_group!(benches, preemption, first_and_stream);
criterion_main!(benches);
