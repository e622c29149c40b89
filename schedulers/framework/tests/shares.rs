//! Queues get their shares of a cell that is full, whatever becomes of single plans.

use crate::world::{World, job};
use ohm_model::{Class, Command, FairSharing, QueueSpec, Scheduling};

fn put_queue(world: &mut World, name: &str, weight_milli: u64, is_cohort: bool) {
    world.command(Command::PutQueue(QueueSpec {
        name: name.into(),
        is_cohort,
        parent: if is_cohort { String::new() } else { "all".into() },
        nominal: Default::default(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        weight_milli,
        ..QueueSpec::default()
    }));
}

/// How many jobs of each queue have started, and how many wait.
fn counts(world: &World, queue: &str) -> (u64, u64) {
    let jobs = || world.reference.jobs().iter().filter(|job| job.spec.queue == queue);
    let waiting = jobs().filter(|job| job.groups.iter().any(|group| !group.started)).count();
    ((jobs().count() - waiting) as u64, waiting as u64)
}

/// Of all jobs that start until so many of the heavy queue are left, how many of 1000 are of that queue.
fn share_of_heavy(seed: u64, replicas: usize, faulty: bool, others: bool, left: u64) -> u64 {
    let mut world = World::new(seed);
    (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 5_000), ("pods", 110)], 1));
    world.take_health();
    [("all", 1000, true), ("heavy", 3000, false), ("light", 1000, false)]
        .into_iter()
        .for_each(|(name, weight, is_cohort)| put_queue(&mut world, name, weight, is_cohort));
    (0..replicas).for_each(|_| world.add(Class::BATCH, false));
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
        world.run(if others { 500 } else { 100 });
        let (heavy, waits) = counts(&world, "heavy");
        let (light, _) = counts(&world, "light");
        if waits <= left {
            return heavy * 1000 / (heavy + light);
        }
        assert!(round < 2_000, "seed {seed}: {heavy} and {light} after {round} rounds");
    }
    unreachable!("the rounds are without end")
}

#[test]
fn two_queues_start_jobs_by_their_weights() {
    for seed in 0..6 {
        let share = share_of_heavy(seed, 1, false, seed % 2 == 1, 30);
        assert!((730..=770).contains(&share), "seed {seed}: {share} of 1000 instead of 750");
    }
}

#[test]
fn shares_outlive_lost_answers_and_jumps() {
    for seed in 0..4 {
        let share = share_of_heavy(seed, 1, true, false, 30);
        assert!((715..=785).contains(&share), "seed {seed}: {share} of 1000 instead of 750");
    }
}

/// Jobs go to replicas by their names, so one of them runs out of the heavy queue first.
#[test]
fn replicas_keep_the_shares_together_until_the_end() {
    for seed in 0..6 {
        let share = share_of_heavy(seed, 2 + seed as usize % 3, false, false, 5);
        assert!((730..=770).contains(&share), "seed {seed}: {share} of 1000 instead of 750");
    }
}

/// Jobs of others that fit nowhere keep back nobody of their tree for long, not even in the turn of their queue.
#[test]
fn what_fits_nowhere_is_waited_for_in_vain_only_for_a_moment() {
    for seed in 0..4 {
        let mut world = World::new(seed);
        (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 5_000), ("pods", 110)], 1));
        world.take_health();
        put_queue(&mut world, "all", 1000, true);
        (0..10).for_each(|number| put_queue(&mut world, &format!("large-{number}"), 3000, false));
        put_queue(&mut world, "small", 1000, false);
        (0..2).for_each(|_| world.add(Class::BATCH, false));
        world.add(Class::TAS, false);
        world.run(4_000);
        // Whose turn it is from here on.
        let of_queue = |queue: &str, class, name: &str, cpu| {
            let mut spec = job(name, class, 1, 1, cpu);
            spec.queue = queue.into();
            spec
        };
        world.submit(
            (0..10).map(|at| of_queue(&format!("large-{at}"), Class::TAS, &format!("l{at}"), 90_000)).collect(),
        );
        world.submit((0..40).map(|at| of_queue("small", Class::BATCH, &format!("s{at}"), 500)).collect());
        world.run(5_000);
        let small = world.reference.jobs().iter().filter(|job| job.spec.queue == "small" && job.started_ms == 0);
        assert_eq!(small.count(), 0, "seed {seed}");
    }
}

/// What the jobs of each queue use, averaged over time, in tasks of 1 cpu.
fn usage(seed: u64, replicas: usize, queues: &[(&str, i64, u64)]) -> Vec<f64> {
    let mut world = World::new(seed);
    (0..4).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 5_000), ("pods", 110)], 1));
    world.take_health();
    world.command(Command::PutScheduling(Scheduling { fair_sharing: Some(FairSharing::default()) }));
    let quota = |cpus: i64| [("cpu".to_string(), cpus * 1000)].into();
    let own: i64 = queues.iter().map(|(_, cpus, _)| cpus).sum();
    let all = QueueSpec { name: "all".into(), is_cohort: true, nominal: quota(20 - own), ..QueueSpec::default() };
    world.command(Command::PutQueue(all));
    for &(name, cpus, weight_milli) in queues {
        let (name, parent, nominal) = (name.to_string(), "all".to_string(), quota(cpus));
        world.command(Command::PutQueue(QueueSpec { name, parent, nominal, weight_milli, ..QueueSpec::default() }));
    }
    (0..replicas).for_each(|_| world.add(Class::BATCH, false));
    world.run(4_000);
    for (queue, ..) in queues {
        let jobs = (0..400).map(|number| {
            let mut spec = job(&format!("{queue}-{number}"), Class::BATCH, 1, 1, 1_000);
            // What failed and is tried again goes before all lines.
            (spec.queue, spec.priority, spec.retries) = (queue.to_string(), number % 7, 0);
            spec
        });
        world.submit(jobs.collect());
    }
    world.run(10_000);
    let mut sums = vec![0.0; queues.len()];
    for _ in 0..200 {
        world.run(100);
        for ((queue, ..), sum) in queues.iter().zip(&mut sums) {
            let jobs = world.reference.jobs().iter().filter(|job| job.spec.queue == *queue);
            *sum += jobs.map(|job| f64::from(job.live())).sum::<f64>() / 200.0;
        }
    }
    sums
}

/// Shares are of what is used, and those of a queue with much of its own are not those of its weight: whoever has room
/// to give looks at all queues, also at those of which others have the first job.
#[test]
fn replicas_share_what_is_borrowed_together() {
    let queues = [("rich", 10, 1000), ("poor", 0, 1000), ("heavy", 2, 3000)];
    // 8 are lent: by weight 1.6, 1.6 and 4.8.
    let fair = [11.6, 1.6, 6.8];
    for seed in 0..4 {
        let found = usage(seed, 1 + seed as usize, &queues);
        let near = found.iter().zip(fair).all(|(found, fair)| (found - fair).abs() <= 1.0);
        assert!(near, "seed {seed}: {found:?} instead of {fair:?}");
    }
}

/// Work of another scheduler comes first in one tree and fits nowhere: what is ready there is tried after a moment,
/// however much goes on in another tree.
#[test]
fn a_tree_that_waits_is_tried_while_others_go_on() {
    let mut world = World::new(7);
    (0..2).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 8_000), ("pods", 110)], 1));
    world.take_health();
    for root in ["stuck", "busy"] {
        put_queue(&mut world, root, 1000, true);
        for part in ["one", "two"] {
            world.command(Command::PutQueue(QueueSpec {
                name: format!("{root}-{part}"),
                parent: root.into(),
                ..QueueSpec::default()
            }));
        }
    }
    world.command(Command::PutScheduling(Scheduling { fair_sharing: Some(FairSharing::default()) }));
    (0..2).for_each(|_| world.add(Class::BATCH, false));
    world.run(4_000);
    let named = |name: String, queue: &str, cpus: u64| {
        let mut spec = job(&name, Class::BATCH, 1, 1, 200);
        spec.queue = queue.into();
        spec.groups[0].requests.insert("cpu".into(), cpus as i64 * 1000);
        spec
    };
    // More than any node has, spread over the shards of both schedulers.
    world.submit((0..16).map(|number| named(format!("huge-{number}"), "stuck-one", 9)).collect());
    world.run(500);
    world.submit((0..8).map(|number| named(format!("small-{number}"), "stuck-two", 1)).collect());
    for round in 0..100 {
        world.submit(vec![named(format!("busy-{round}"), "busy-one", 1)]);
        world.run(50);
    }
    let (started, waiting) = counts(&world, "stuck-two");
    assert_eq!((started, waiting), (8, 0));
}
