//! Jobs that ask for the same wait for each other's answer only where the answer is the same.

use crate::world::{self, World, job};
use ohm_model::{Class, JobSpec};

fn live(world: &World, name: &str) -> u32 {
    world.reference.jobs().find(name).expect("it is there").live()
}

#[test]
fn a_job_that_may_stop_others_does_not_wait_for_one_that_may_not() {
    let mut world = World::new(7);
    world.register("n0", &[("cpu", 1_000), ("pods", 20)], 1);
    world.take_health();
    world.add(Class::SERVICE, false);
    world.run(4_000);
    world.submit(vec![job("low", Class::SERVICE, 1, 1, 1_000)]);
    world.run(2_000);
    assert_eq!(live(&world, "low"), 1);
    let high = |name: &str, preempts| JobSpec { priority: 1, preempts, ..job(name, Class::SERVICE, 1, 1, 1_000) };
    world.submit(vec![high("meek", false)]);
    world.run(1_000);
    world.submit(vec![high("bold", true)]);
    world.run(5_000);
    assert_eq!((live(&world, "bold"), live(&world, "meek"), live(&world, "low")), (1, 0, 0));
}

#[test]
fn equal_jobs_stop_others_side_by_side() {
    const NODES: u32 = 8;
    let mut world = World::new(7);
    (0..NODES).for_each(|node| world.register(&format!("n{node}"), &[("cpu", 1_000), ("pods", 20)], 1));
    world.take_health();
    world.add(Class::SERVICE, false);
    world.run(4_000);
    let jobs = |kind: &str, priority| {
        let job = |number| job(&format!("{kind}-{number}"), Class::SERVICE, 1, 1, 1_000);
        (0..NODES).map(|number| JobSpec { priority, ..job(number) }).collect::<Vec<_>>()
    };
    world.submit(jobs("low", 0));
    world.run(2_000);
    world.submit(jobs("high", 1));
    let stopping = |world: &World| world.reference.runs().iter().filter(|(_, run)| run.stop.is_some()).count();
    let mut at_once = 0;
    for _ in 0..100 {
        world.run(10);
        at_once = at_once.max(stopping(&world));
    }
    assert_eq!(at_once, world::IN_FLIGHT, "nobody waits until the victims of another one have ended");
    assert!((0..NODES).all(|number| live(&world, &format!("high-{number}")) == 1));
}
