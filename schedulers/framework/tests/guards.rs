//! What a class counts as a conflict: that its tasks don't fit any more, or that anything about the node has changed.

use crate::world::{World, job};
use ohm_model::{Class, Command, Guard, SchedulingProfile};

/// Two classes race for one node that has room for everything; what was refused to the batch class, by reason.
fn refused(seed: u64, conflicts: Guard) -> Vec<(&'static str, u64)> {
    let mut world = World::new(seed);
    world.register("wide", &[("cpu", 1_000_000), ("pods", 10_000)], 1);
    world.take_health();
    let profile = SchedulingProfile { conflicts, ..SchedulingProfile::built_in(Class::BATCH) };
    world.command(Command::PutSchedulingProfile(Box::new(profile)));
    [Class::BATCH, Class::TAS].into_iter().for_each(|class| world.add(class, false));
    world.run(4_000);
    for round in 0..20 {
        let of = |class: Class| job(&format!("{}-{round}", class.name()), class, 3, 1, 1_000);
        world.submit(vec![of(Class::BATCH), of(Class::TAS)]);
        world.run(200);
    }
    world.run(30_000);
    let waiting = world.reference.jobs().iter().filter(|job| job.pending() > 0).count();
    assert_eq!(waiting, 0, "seed {seed}: everything is placed in the end");
    world.replicas[0].core.counters().conflicts.iter().map(|(reason, rows)| (*reason, *rows)).collect()
}

#[test]
fn by_fit_nothing_collides_where_there_is_room() {
    (0..4).for_each(|seed| assert_eq!(refused(seed, Guard::Fits), [], "seed {seed}"));
}

#[test]
fn by_version_whatever_others_did_to_the_node_collides() {
    let seen = (0..4).map(|seed| refused(seed, Guard::Unchanged));
    let seen: Vec<_> = seen.flatten().collect();
    assert!(!seen.is_empty() && seen.iter().all(|(reason, _)| *reason == "NodeChanged"), "{seen:?}");
}
