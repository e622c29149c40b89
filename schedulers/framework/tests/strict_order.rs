//! StrictFIFO queues: whatever schedulers race, no job starts before one that comes before it.

use crate::world::{World, job};
use ohm_cell::JobState;
use ohm_model::{Class, Command, JobSpec, QueueSpec, QueueingStrategy};

fn put_queue(world: &mut World, cpus: i64) {
    world.command(Command::PutQueue(QueueSpec {
        name: "line".into(),
        nominal: [("cpu".to_string(), cpus)].into(),
        queueing_strategy: QueueingStrategy::StrictFifo,
        ..QueueSpec::default()
    }));
}

/// For each job in order, whether it has started; what is over has.
fn started(world: &World, names: &[String]) -> Vec<bool> {
    let waits = |name: &String| {
        let mut jobs = world.reference.jobs().iter().filter(|job| job.spec.name == *name);
        jobs.any(|job| job.state == JobState::Active && job.groups.iter().all(|group| !group.started))
    };
    names.iter().map(|name| !waits(name)).collect()
}

#[test]
fn jobs_start_in_order_whoever_plans_them() {
    for seed in 0..12 {
        let mut world = World::new(seed);
        (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 8_000), ("pods", 110)], 1));
        world.take_health();
        put_queue(&mut world, 9_000);
        (0..1 + seed % 3).for_each(|_| world.add(Class::BATCH, false));
        world.add(Class::TAS, false);
        world.run(4_000);
        let names: Vec<String> = (0..40).map(|number| format!("job-{number}")).collect();
        let sizes: Vec<u32> = names.iter().map(|_| 1 + world.dice.below(4) as u32).collect();
        for (name, size) in names.iter().zip(sizes) {
            let class = if world.dice.chance(300) { Class::TAS } else { Class::BATCH };
            let queue = "line".to_string();
            world.submit(vec![JobSpec { queue, retries: 0, ..job(name, class, size, size, 2_000) }]);
        }
        world.faulty = seed % 2 == 1;
        for round in 0.. {
            world.run(40);
            let started = started(&world, &names);
            let first = started.iter().position(|started| !started).unwrap_or(names.len());
            assert!(started[first..].iter().all(|started| !started), "seed {seed}: not in order: {started:?}");
            if first == names.len() {
                break;
            }
            assert!(round < 3_000, "seed {seed}: {} does not start", names[first]);
        }
    }
}

#[test]
fn a_job_that_does_not_fit_keeps_back_those_behind_it() {
    let mut world = World::new(3);
    world.register("n", &[("cpu", 8_000), ("pods", 110)], 1);
    world.take_health();
    put_queue(&mut world, 3_000);
    world.add(Class::BATCH, false);
    world.add(Class::BATCH, false);
    world.run(4_000);
    let names = ["large".to_string(), "small".to_string()];
    for (name, cpu) in names.iter().zip([4_000, 1_000]) {
        world.submit(vec![JobSpec { queue: "line".into(), ..job(name, Class::BATCH, 1, 1, cpu) }]);
    }
    world.run(20_000);
    assert_eq!(started(&world, &names), [false, false]);
    put_queue(&mut world, 6_000);
    world.run(2_000);
    assert_eq!(started(&world, &names), [true, true]);
}
