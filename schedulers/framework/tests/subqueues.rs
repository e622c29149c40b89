//! Queues whose jobs come in the order of what their subqueues have used: whoever plans, each gets its part.

use crate::world::{World, job};
use ohm_model::{Class, Command, JobSpec, QueueSpec, QueueingStrategy, Subqueue, UsageBasedOrder};

fn put_queue(world: &mut World, cpus: i64, strict: bool) {
    let strategies = [QueueingStrategy::BestEffortFifo, QueueingStrategy::StrictFifo];
    world.command(Command::PutQueue(QueueSpec {
        name: "line".into(),
        nominal: [("cpu".to_string(), cpus)].into(),
        queueing_strategy: strategies[usize::from(strict)],
        usage_based_order: Some(Box::new(UsageBasedOrder { half_life_seconds: 604_800, ..UsageBasedOrder::default() })),
        ..QueueSpec::default()
    }));
}

/// A cell in which the jobs of `red`, of which each is older and more important, and those of `blue` wait for quota.
fn waiting(seed: u64, schedulers: usize, strict: bool, weights_milli: [u64; 2]) -> World {
    let mut world = World::new(seed);
    (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 8_000), ("pods", 110)], 1));
    world.take_health();
    put_queue(&mut world, 0, strict);
    for (name, weight_milli) in ["red", "blue"].into_iter().zip(weights_milli) {
        world.command(Command::PutSubqueue(Subqueue { name: name.into(), queue: "line".into(), weight_milli }));
    }
    (0..schedulers).for_each(|_| world.add(Class::SERVICE, false));
    world.run(4_000);
    for (part, priority) in [("red", 10), ("blue", 0)] {
        for number in 0..10 {
            let queue = part.to_string();
            let job = job(&format!("{part}-{number}"), Class::SERVICE, 1, 1, 1_000);
            world.submit(vec![JobSpec { queue, priority, ..job }]);
        }
    }
    world.run(4_000);
    world
}

/// How many jobs of each stand.
fn standing(world: &World) -> [usize; 2] {
    let of = |part| world.reference.jobs().iter().filter(|job| job.spec.subqueue == part && job.live() > 0).count();
    [of("red"), of("blue")]
}

#[test]
fn subqueues_share_their_queue_by_weight() {
    for seed in 0..8 {
        for schedulers in [1, 2] {
            for strict in [false, true] {
                for (weights_milli, expected) in [([1000, 1000], [4, 4]), ([3000, 1000], [6, 2])] {
                    let mut world = waiting(seed, schedulers, strict, weights_milli);
                    assert_eq!(standing(&world), [0, 0]);
                    put_queue(&mut world, 8_000, strict);
                    world.run(8_000);
                    assert_eq!(standing(&world), expected, "seed {seed}, {schedulers} schedulers, strict: {strict}");
                }
            }
        }
    }
}

#[test]
fn what_was_used_counts_when_nothing_of_it_stands_any_more() {
    let mut world = World::new(5);
    (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 8_000), ("pods", 110)], 1));
    world.take_health();
    put_queue(&mut world, 6_000, false);
    for name in ["red", "blue"] {
        let (name, queue) = (name.to_string(), "line".to_string());
        world.command(Command::PutSubqueue(Subqueue { name, queue, weight_milli: 1000 }));
    }
    world.add(Class::SERVICE, false);
    world.submit(vec![JobSpec { queue: "blue".into(), ..job("past", Class::SERVICE, 6, 6, 1_000) }]);
    world.run(204_000);
    assert_eq!(standing(&world), [0, 1]);
    // Six cores for 200 s are as much as four more than others have for the next 300 s.
    for part in ["blue", "red"] {
        for number in 0..10 {
            let job = job(&format!("{part}-{number}"), Class::SERVICE, 1, 1, 1_000);
            world.submit(vec![JobSpec { queue: part.to_string(), ..job }]);
        }
    }
    world.command(Command::CancelJob { name: "past".into(), grace_ms: None });
    world.run(4_000);
    assert_eq!(standing(&world), [5, 1]);
}
