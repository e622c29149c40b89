//! Gangs that wait for room while others come and go.

use crate::world::{World, job};
use ohm_model::{Class, JobSpec};

/// Two nodes of four processors, and singles of one processor that never let them become empty at once.
fn busy_world(seed: u64) -> World {
    let mut world = World::new(seed);
    (0..2).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 4_000), ("pods", 110)], 1));
    world.take_health();
    world.add(Class::BATCH, false);
    world.run(4_000);
    world
}

/// Submits a gang of whole nodes, and singles for so long. Returns when the gang stood, in milliseconds.
fn stands_after_ms(world: &mut World, nodes: u32, for_ms: u64) -> Option<u64> {
    world.submit((0..12).map(single).collect());
    world.run(200);
    let gang = JobSpec { priority: 10, preempts: false, ..job("gang", Class::BATCH, nodes, nodes, 4_000) };
    world.submit(vec![gang]);
    let begun_ms = world.now_ms;
    let mut number = 12;
    while world.now_ms < begun_ms + for_ms {
        let waiting = world.reference.jobs().iter().filter(|job| job.groups.iter().any(|group| !group.started));
        let lacking = 8usize.saturating_sub(waiting.count());
        world.submit((number..number + lacking).map(single).collect());
        number += lacking;
        world.run(100);
        let gang = world.reference.jobs().iter().find(|job| job.spec.name == "gang");
        if gang.is_none_or(|gang| gang.groups[0].started) {
            return Some(world.now_ms - begun_ms);
        }
    }
    None
}

fn single(number: usize) -> JobSpec {
    job(&format!("single-{number}"), Class::BATCH, 1, 1, 1_000)
}

#[test]
fn a_gang_that_was_passed_over_stands_soon_after_its_patience() {
    for seed in 0..6 {
        let mut world = busy_world(seed);
        let stood_ms = stands_after_ms(&mut world, 2, 60_000);
        assert!(stood_ms.is_some_and(|ms| (30_000..45_000).contains(&ms)), "seed {seed}: stood after {stood_ms:?} ms");
    }
}

/// One job holds both nodes for as long as it may run, another one for less, and singles pass the gang meanwhile.
#[test]
fn a_head_is_planned_anew_where_it_may_start_sooner() {
    for seed in 0..6 {
        let mut world = busy_world(seed);
        let lasting = |name: &str, seconds: u64| {
            let service = job(name, Class::SERVICE, 1, 1, 3_000);
            JobSpec { active_deadline_seconds: seconds, ..service }
        };
        world.add(Class::SERVICE, false);
        world.submit(vec![lasting("long", 600), lasting("longer", 900)]);
        world.run(2_000);
        assert!(stands_after_ms(&mut world, 2, 40_000).is_none(), "seed {seed}");
        let start_ms = |world: &World| {
            let gang = world.reference.jobs().iter().find(|job| job.spec.name == "gang").map(|gang| gang.id);
            gang.and_then(|gang| world.reference.nominations().head_start_ms(gang))
                .map(|start_ms| start_ms - world.now_ms)
        };
        assert!(start_ms(&world).is_some_and(|left_ms| left_ms > 800_000), "seed {seed}: {:?}", start_ms(&world));
        world.command(ohm_model::Command::CancelJob { name: "longer".into(), grace_ms: None });
        world.run(15_000);
        assert!(start_ms(&world).is_some_and(|left_ms| left_ms < 600_000), "seed {seed}: {:?}", start_ms(&world));
    }
}

/// The planner is shown all that runs as if it had ended, in vain, and then what is so: see [`crate::world::first_fit`].
#[test]
fn a_gang_that_never_fits_leaves_no_picture_behind() {
    for seed in 0..6 {
        let mut world = busy_world(seed);
        assert_eq!(stands_after_ms(&mut world, 3, 60_000), None, "seed {seed}");
        let singles = world.reference.jobs().iter().filter(|job| job.groups[0].started).count();
        assert!(singles > 0, "seed {seed}: nothing runs");
    }
}
