//! What the stop policies of queues keep from being placed waits, is told why, and starts when it may.

use crate::world::{FirstFit, World, job};
use ohm_framework::{Answer, Obstacle, explain_job};
use ohm_model::{Class, Command, JobSpec, QueueSpec, StopPolicy};

fn put(world: &mut World, stop_policy: StopPolicy) {
    let (name, nominal) = ("team".to_string(), [("cpu".to_string(), 8_000)].into());
    world.command(Command::PutQueue(QueueSpec { name, nominal, stop_policy, ..QueueSpec::default() }));
}

fn of_team(name: &str) -> JobSpec {
    let mut spec = JobSpec { queue: "team".into(), ..job(name, Class::SERVICE, 3, 1, 1_000) };
    spec.groups[0].elastic = true;
    spec
}

fn world() -> World {
    let mut world = World::new(7);
    world.register("n0", &[("cpu", 2_000), ("pods", 20)], 1);
    world.take_health();
    put(&mut world, StopPolicy::None);
    world.add(Class::SERVICE, false);
    world.run(4_000);
    world
}

/// What a scheduler would say to the job.
fn is_told(world: &World, name: &str) -> bool {
    let mut planner = FirstFit::new(Class::SERVICE, false);
    let Answer::Waits(why) = explain_job(&world.reference, &mut planner, world.found(name).id) else { return false };
    matches!(&why.obstacle, Obstacle::Held { queue, policy: StopPolicy::Hold } if queue == "team")
}

fn no_conflicts(world: &World) -> bool {
    world.replicas.iter().all(|replica| replica.core.counters().conflicts.is_empty())
}

#[test]
fn what_waits_in_a_held_queue_starts_when_it_is_held_no_more() {
    let mut world = world();
    put(&mut world, StopPolicy::Hold);
    world.submit(vec![of_team("held"), JobSpec { queue: String::new(), ..of_team("free") }]);
    world.run(3_000);
    assert_eq!((world.found("held").live(), world.found("free").live()), (0, 2));
    assert!(is_told(&world, "held"));
    assert!(!is_told(&world, "free"));
    world.register("n1", &[("cpu", 3_000), ("pods", 20)], 1);
    world.run(3_000);
    assert_eq!(world.found("held").live(), 0);
    assert!(no_conflicts(&world), "nobody asks in vain");
    put(&mut world, StopPolicy::None);
    world.run(1_000);
    assert!(world.found("held").live() > 0);
}

#[test]
fn what_runs_in_a_held_queue_does_not_grow() {
    let mut world = world();
    world.submit(vec![of_team("array")]);
    world.run(1_000);
    assert_eq!(world.found("array").live(), 2);
    put(&mut world, StopPolicy::Hold);
    world.register("n1", &[("cpu", 2_000), ("pods", 20)], 1);
    world.run(3_000);
    assert_eq!(world.found("array").live(), 2);
    assert!(is_told(&world, "array"));
    assert!(no_conflicts(&world), "nobody asks in vain");
    put(&mut world, StopPolicy::None);
    world.run(1_000);
    assert_eq!(world.found("array").live(), 3);
}
