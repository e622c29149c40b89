//! Decisions under rules about other tasks, and with all scores of kube-scheduler's default set: jobs of 1,000 tasks on
//! 5,000 nodes in three zones, with 10,000 tasks of ten jobs that stand there, beside the same without rules. A
//! decision is one task. Run with `cargo bench -p ohm-planner --bench neighbours`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ohm_cell::Overlay;
use ohm_framework::{Board, Budget, Decision, Planner, View, Work};
use ohm_model::{Class, NodeId, SchedulingProfile, ScoreBase, SessionId};
use ohm_placement::fixture::World;
use ohm_planner::{ProfilePlanner, of};
use ohm_stdx::Prng;
use std::hint::black_box;

const NODES: usize = 5_000;
const TASKS: u64 = 1_000;

/// What the jobs that are measured ask for.
const RULES: [(&str, &str); 8] = [
    ("none", ""),
    ("spread-over-zones", "even=app:new@zone"),
    ("spread-over-nodes", "even=app:new@kubernetes.io/hostname"),
    ("apart-on-nodes", "far=app:new@kubernetes.io/hostname"),
    ("apart-from-others", "far=app:a0@kubernetes.io/hostname"),
    ("near-in-a-zone", "near=app:new@zone"),
    ("likes-a-zone", "likes=app:a0@zone*50 likes=app:new@kubernetes.io/hostname*-50"),
    ("spread-softly", "evenly=app:new@zone evenly=app:new@kubernetes.io/hostname"),
];

/// How they are planned: as the built-in profiles say, or with all scores of the set `kubernetes`.
const PLANS: [(&str, Class, ScoreBase); 4] = [
    ("service", Class::SERVICE, ScoreBase::Default),
    ("batch", Class::BATCH, ScoreBase::Default),
    ("service-kubernetes", Class::SERVICE, ScoreBase::Kubernetes),
    ("batch-kubernetes", Class::BATCH, ScoreBase::Kubernetes),
];

fn cell() -> World {
    let mut planner = of(Class::SERVICE);
    let mut world = World::new();
    world.extend("topology main zone kubernetes.io/hostname", &mut planner);
    for node in 0..NODES {
        let zone = node % 3;
        world.extend(&format!("node n{node:06} cpu=32 memory=128Gi zone=z{zone}"), &mut planner);
    }
    for job in 0..10 {
        let group = format!("group g count={TASKS} cpu=1 memory=2Gi label=app:a{job} even=app:a{job}@zone");
        world.extend(&format!("job old{job} class=service\n{group}\nplace old{job}"), &mut planner);
    }
    for (name, rule) in RULES {
        for class in ["service", "batch"] {
            let group = format!("group g count={TASKS} cpu=1 memory=2Gi label=app:new {rule}");
            world.extend(&format!("job {name}-{class} class={class}\n{group}"), &mut planner);
        }
    }
    world
}

fn neighbours(criterion: &mut Criterion) {
    let world = cell();
    let mut over = Overlay::default();
    let mut group = criterion.benchmark_group("neighbours");
    group.throughput(Throughput::Elements(TASKS)).sample_size(20);
    for (name, _) in RULES {
        for (plan, class, base) in PLANS {
            let profile = SchedulingProfile { scores: base.scores(), ..SchedulingProfile::built_in(class) };
            let mut planner = ProfilePlanner::new(profile);
            planner.reset(&View::new(&world.cell, &over, SessionId(0)));
            let job = format!("{name}-{}", class.name());
            group.bench_function(BenchmarkId::new(name, plan), |bencher| {
                bencher.iter(|| {
                    let mut board = Board::new(&world.cell, &mut over, SessionId(0));
                    let work = Work { jobs: vec![world.item(&job)], budget: Budget::UNBOUNDED };
                    let plan = planner.plan(&mut board, &work, &mut Prng::new(1));
                    for decision in &plan.decisions {
                        let Decision::Planned(planned) = decision else { panic!("{job} finds no room") };
                        let nodes: Vec<NodeId> = planned.place.iter().map(|row| row.node).collect();
                        planner.changed(&board.view(), &nodes, &[]);
                    }
                    black_box(plan);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, neighbours);
criterion_main!(benches);
