//! Queues get their shares of a cell that is full, whatever becomes of single plans.

use crate::world::{World, job};
use ohm_model::{Class, Command, QueueSpec};

fn put_queue(world: &mut World, name: &str, weight_milli: u32, is_cohort: bool) {
    world.command(Command::PutQueue(QueueSpec {
        name: name.into(),
        is_cohort,
        parent: if is_cohort { String::new() } else { "all".into() },
        nominal: Default::default(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        weight_milli,
        admission_checks: Vec::new(),
    }));
}

/// How many jobs of each queue have started, and how many wait.
fn counts(world: &World, queue: &str) -> (u64, u64) {
    let jobs = || world.reference.jobs().iter().filter(|job| job.spec.queue == queue);
    let waiting = jobs().filter(|job| job.groups.iter().any(|group| !group.started)).count();
    ((jobs().count() - waiting) as u64, waiting as u64)
}

fn share_of_heavy(seed: u64, faulty: bool, others: bool) -> u64 {
    let mut world = World::new(seed);
    (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 5_000), ("pods", 110)], 1));
    world.take_health();
    [("all", 1000, true), ("heavy", 3000, false), ("light", 1000, false)]
        .into_iter()
        .for_each(|(name, weight, is_cohort)| put_queue(&mut world, name, weight, is_cohort));
    world.add(Class::BATCH, false);
    if others {
        // It races for the same nodes.
        world.add(Class::TAS, false);
    }
    world.run(4_000);
    for queue in ["light", "heavy"] {
        let jobs = (0..300).map(|number| {
            let mut spec = job(&format!("{queue}-{number}"), Class::BATCH, 1, 1, 1_000);
            spec.queue = queue.into();
            spec
        });
        world.submit(jobs.collect());
    }
    world.faulty = faulty;
    for round in 0.. {
        if others {
            let spec = job(&format!("other-{round}"), Class::TAS, 2, 1, 500);
            world.submit(vec![spec]);
        }
        world.run(500);
        let (heavy, waits) = counts(&world, "heavy");
        let (light, _) = counts(&world, "light");
        if waits < 30 {
            return heavy * 1000 / (heavy + light);
        }
        assert!(round < 400, "seed {seed}: {heavy} and {light} after {round} rounds");
    }
    unreachable!("the rounds are without end")
}

#[test]
fn two_queues_start_jobs_by_their_weights() {
    for seed in 0..6 {
        let share = share_of_heavy(seed, false, seed % 2 == 1);
        assert!((730..=770).contains(&share), "seed {seed}: {share} of 1000 instead of 750");
    }
}

#[test]
fn shares_outlive_lost_answers_and_jumps() {
    for seed in 0..4 {
        let share = share_of_heavy(seed, true, false);
        assert!((715..=785).contains(&share), "seed {seed}: {share} of 1000 instead of 750");
    }
}
