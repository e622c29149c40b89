//! Who was not ready in time waits as long as the log says, and no scheduler tries before.

use crate::world::{FirstFit, World, job};
use ohm_framework::{Answer, Obstacle, explain_job};
use ohm_model::{Class, Command, JobSpec, QueueSpec, ReadyTimeout};

/// A queue in which what is placed has five seconds to run, and then waits for ten. Here nothing of a service ever runs.
fn world() -> World {
    let mut world = World::new(7);
    world.register("n0", &[("cpu", 2_000), ("pods", 20)], 1);
    world.take_health();
    let ready_timeout = Some(ReadyTimeout { backoff_base_seconds: 10, ..ReadyTimeout::of(5) });
    let (name, nominal) = ("team".to_string(), [("cpu".to_string(), 2_000)].into());
    world.command(Command::PutQueue(QueueSpec {
        name,
        nominal,
        ready_timeout: ready_timeout.map(Box::new),
        ..QueueSpec::default()
    }));
    world.add(Class::SERVICE, false);
    world.run(4_000);
    world
}

fn of_team(name: &str) -> JobSpec {
    JobSpec { queue: "team".into(), ..job(name, Class::SERVICE, 2, 2, 1_000) }
}

#[test]
fn who_was_not_ready_in_time_is_placed_again_after_its_back_off() {
    let mut world = world();
    world.submit(vec![of_team("late")]);
    world.run(3_000);
    assert_eq!(world.found("late").live(), 2);
    world.run(4_000);
    let until_ms = world.found("late").readiness.until_ms;
    assert!(world.found("late").live() == 0 && until_ms > world.reference.now_ms());
    // Who comes meanwhile takes its place, and its quota.
    world.submit(vec![of_team("next")]);
    world.run(2_000);
    assert_eq!((world.found("late").live(), world.found("next").live()), (0, 2));
    world.command(Command::CancelJob { name: "next".into(), grace_ms: None });
    world.run(3_000);
    let mut planner = FirstFit::new(Class::SERVICE, false);
    let Answer::Waits(why) = explain_job(&world.reference, &mut planner, world.found("late").id) else {
        panic!("it waits");
    };
    assert!(matches!(&why.obstacle, Obstacle::Waiting { what } if what.contains("not ready within 5 s")), "{why:?}");
    assert!(world.reference.now_ms() < until_ms && world.found("late").live() == 0);
    assert!(world.replicas.iter().all(|replica| replica.core.counters().conflicts.is_empty()), "nobody asks in vain");
    world.run(until_ms - world.reference.now_ms() + 1_500);
    assert_eq!(world.found("late").live(), 2);
}
