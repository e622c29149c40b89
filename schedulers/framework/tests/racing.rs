//! Scheduler cores race over one small cell while the network misbehaves; in the end everything that fits is placed.

use crate::world;

use ohm_cell::{Finish, JobState};
use ohm_framework::{Answer, explain_job};
use ohm_model::{Class, Command, HostPort, NodeConclusion, NodeHealth, QueueSpec};
use std::collections::BTreeMap;
use world::first_fit::FirstFit;
use world::{World, group, job};

fn small_cell(world: &mut World) {
    for node in 0..3 + world.dice.below(5) {
        let cpu = 1_000 * world.dice.between(2, 8) as i64;
        world.register(&format!("n{node}"), &[("cpu", cpu), ("pods", 20)], 1);
    }
    world.take_health();
    for (name, cpu) in [("tight", 4_000), ("wide", 40_000)] {
        world.command(Command::PutQueue(QueueSpec {
            name: name.into(),
            nominal: [("cpu".to_string(), cpu)].into(),
            borrowing_limit: Default::default(),
            lending_limit: Default::default(),
            weight_milli: 1_000,
            ..QueueSpec::default()
        }));
    }
}

fn submit_some(world: &mut World, round: u64) {
    let mut jobs = Vec::new();
    for number in 0..world.dice.below(8) {
        let class =
            [Class::BATCH, Class::BATCH, Class::BATCH, Class::TAS, Class::SERVICE][world.dice.below(5) as usize];
        let count = 1 + world.dice.below(if class == Class::SERVICE { 2 } else { 6 }) as u32;
        let min_count = 1 + world.dice.below(u64::from(count)) as u32;
        let cpu = 250 * world.dice.between(1, 8) as i64;
        let mut spec = job(&format!("{}-{round}-{number}", class.name()), class, count, min_count, cpu);
        spec.priority = world.dice.below(3) as i32;
        spec.queue = ["", "", "tight", "wide"][world.dice.below(4) as usize].into();
        let main = &mut spec.groups[0];
        main.elastic = world.dice.chance(300);
        main.max_per_node = world.dice.below(3) as u32;
        if world.dice.chance(100) {
            main.ports = vec![HostPort::tcp(8_000 + world.dice.below(2) as u16)];
        }
        if world.dice.chance(200) {
            // First fit fills one group after the other: with room to choose, less room could let it place more.
            main.min_count = main.count;
            spec.groups.push(group("more", 2, 2, 500));
        }
        jobs.push(spec);
    }
    world.submit(jobs);
}

fn disturb(world: &mut World, boots: &mut u64) {
    let nodes: Vec<_> = world.reference.nodes().iter().map(|(node, record)| (node, record.clone())).collect();
    let (node, record) = world.dice.pick(&nodes).expect("there are nodes").clone();
    let name = record.spec.name.clone();
    match world.dice.below(5) {
        4 => {
            let number = world.dice.below(world.replicas.len() as u64) as usize;
            world.close_session(number);
        }
        0 => {
            let cordoned = world.dice.chance(500);
            world.command(Command::CordonNode { name, cordoned });
        }
        1 => {
            let health = [NodeHealth::Suspect, NodeHealth::Lost, NodeHealth::Ready][world.dice.below(3) as usize];
            let (epoch, incarnation) = (ohm_model::Epoch(1), record.incarnation);
            world.command(Command::ConcludeNodes {
                epoch,
                conclusions: vec![NodeConclusion { node, incarnation, health }],
            });
        }
        2 if record.health == NodeHealth::Lost => {
            *boots += 1;
            let capacity: Vec<(&str, i64)> =
                record.spec.capacity.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
            world.register(&name, &capacity, *boots);
        }
        _ => {
            let jobs: Vec<String> = world.reference.jobs().iter().map(|job| job.spec.name.clone()).collect();
            let Some(name) = world.dice.pick(&jobs).cloned() else { return };
            let command = match world.dice.below(3) {
                0 => Command::SuspendJob { name },
                1 => Command::ResumeJob { name },
                _ => Command::CancelJob { name, grace_ms: None },
            };
            world.command(command);
        }
    }
}

/// After the faults: everything stands again, and nobody disturbs.
fn heal(world: &mut World, boots: &mut u64) {
    world.faulty = false;
    let nodes: Vec<_> = world.reference.nodes().iter().map(|(_, record)| record.clone()).collect();
    for record in nodes {
        *boots += 1;
        let capacity: Vec<(&str, i64)> =
            record.spec.capacity.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
        world.register(&record.spec.name, &capacity, *boots);
        world.command(Command::CordonNode { name: record.spec.name.clone(), cordoned: false });
    }
}

/// No job may wait that the planner would place on the final state.
fn nothing_that_fits_waits(world: &World, seed: u64) {
    for found in world.reference.jobs().iter() {
        let class = found.spec.class;
        let answer = explain_job(&world.reference, &mut FirstFit::new(class, false), found.id);
        if let Answer::Fits { .. } = answer {
            let name = &found.spec.name;
            let standings: Vec<String> = world
                .replicas
                .iter()
                .filter(|replica| replica.alive)
                .map(|replica| format!("{:?} {:?}", replica.core.standing(found.id), replica.core.counters()))
                .collect();
            panic!("seed {seed}: {name} of {:?} fits and waits: {standings:#?}", found.shard);
        }
    }
}

struct Totals {
    conflicts: BTreeMap<&'static str, u64>,
    retries: u64,
    tasks: u64,
    finished: usize,
    lost: u64,
}

fn race(seed: u64, sweep_ms: u64) -> Totals {
    let mut world = World::new(seed);
    world.sweep_ms = sweep_ms;
    small_cell(&mut world);
    let spreads = world.dice.chance(500);
    for class in [Class::BATCH, Class::BATCH, Class::TAS, Class::SERVICE] {
        world.add(class, spreads);
    }
    world.faulty = true;
    let mut boots = 1;
    for round in 0..12 {
        submit_some(&mut world, round);
        let for_ms = world.dice.between(100, 1_500);
        world.run(for_ms);
        disturb(&mut world, &mut boots);
        if round == 7 && world.dice.chance(600) {
            world.kill(0);
        }
        if round == 8 && world.dice.chance(300) {
            world.add(Class::BATCH, spreads);
        }
    }
    heal(&mut world, &mut boots);
    world.run(45_000);
    nothing_that_fits_waits(&world, seed);
    let done = |state: JobState| state == JobState::Finished(Finish::Succeeded);
    let mut totals = Totals {
        conflicts: BTreeMap::new(),
        retries: 0,
        tasks: 0,
        finished: world.reference.jobs().iter().filter(|job| done(job.state)).count(),
        lost: 0,
    };
    for replica in &world.replicas {
        let counters = replica.core.counters();
        for (reason, count) in &counters.conflicts {
            *totals.conflicts.entry(reason).or_insert(0) += count;
        }
        totals.retries += counters.retries;
        totals.tasks += counters.tasks;
        totals.lost += counters.lost;
        assert_eq!(counters.void, 0, "seed {seed}");
        if replica.alive {
            assert_eq!(replica.core.in_flight(), 0, "seed {seed}: something is under way for ever: {counters:?}");
        }
    }
    totals
}

#[test]
fn racing_replicas_place_everything_that_fits() {
    let (mut conflicts, mut retries, mut tasks, mut finished, mut lost) = (BTreeMap::new(), 0, 0, 0, 0);
    for seed in 0..120 {
        let totals = race(seed, 5_000);
        for (reason, count) in totals.conflicts {
            *conflicts.entry(reason).or_insert(0) += count;
        }
        (retries, tasks) = (retries + totals.retries, tasks + totals.tasks);
        (finished, lost) = (finished + totals.finished, lost + totals.lost);
    }
    println!("conflicts {conflicts:?}, retries {retries}, tasks {tasks}, jobs finished {finished}, lost {lost}");
    for reason in ["NodeFull", "GangShort", "NodeNotReady"] {
        assert!(conflicts.contains_key(reason), "{reason} never happened: {conflicts:?}");
    }
    assert!(lost > 0, "no session was ever lost with something under way");
    assert!(retries > 100 && finished > 2_000, "{retries} retries, {finished} jobs finished");
}

/// The sweep is a net; the rules that wake parked jobs must not need it.
#[test]
fn the_wake_up_rules_suffice() {
    for seed in 1_000..1_060 {
        race(seed, u64::MAX / 2);
    }
}

#[test]
fn equal_seeds_give_equal_histories() {
    let chain = |seed| {
        let mut world = World::new(seed);
        small_cell(&mut world);
        world.add(Class::BATCH, false);
        world.add(Class::BATCH, false);
        world.faulty = true;
        for round in 0..4 {
            submit_some(&mut world, round);
            world.run(1_000);
        }
        world.reference.chain()
    };
    assert_eq!(chain(3), chain(3));
    assert_ne!(chain(3), chain(4));
}

#[test]
fn a_replica_started_anew_takes_its_former_shards_at_once_and_another_one_waits() {
    for (again, waits) in [("batch-0", false), ("batch-1", true)] {
        let mut world = World::new(7);
        small_cell(&mut world);
        world.add(Class::BATCH, false);
        world.run(1_000);
        assert_eq!(world.replicas[0].core.shards().count(), 16);
        world.kill(0);
        world.add_named(again, Class::BATCH, false);
        // Well within the lease of two seconds.
        world.run(1_000);
        assert_eq!(world.replicas[1].core.shards().count(), if waits { 0 } else { 16 }, "{again}");
        world.run(4_000);
        assert_eq!(world.replicas[1].core.shards().count(), 16, "{again}");
    }
}
