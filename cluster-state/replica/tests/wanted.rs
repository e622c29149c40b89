//! What nodes are told stays short, whatever the jobs on them look like.

use crate::world;

use ohm_agent::WantedSet;
use ohm_model::{NodeId, RunReport, RunReportKind, TaskSpec};
use ohm_replica::Launches;
use ohm_stdx::codec;
use world::World;

fn wanted(world: &World, node: NodeId) -> (WantedSet, usize) {
    let set = Launches::default().wanted(&world.cell, node, 1).unwrap();
    let bytes = codec::encode(&set);
    assert_eq!(codec::decode::<WantedSet>(&bytes).unwrap(), set);
    (set, bytes.len())
}

fn with_env(bytes: usize) -> TaskSpec {
    TaskSpec { env: vec![("LONG".into(), "x".repeat(bytes))], ..TaskSpec::default() }
}

#[test]
fn a_description_travels_once_and_lists_of_peers_only_where_tasks_start_together() {
    let mut world = World::new();
    let node = world.register("a");
    let array = world.submit("array", 100_000, 1, with_env(100_000));
    world.place(array, 50, node);
    let (set, bytes) = wanted(&world, node);
    assert_eq!(set.runs.len(), 50);
    assert!(bytes < 110_000, "{bytes} bytes for 50 runs of an array of 100,000");
    let gang = world.submit("gang", 60, 60, TaskSpec::default());
    world.place(gang, 60, node);
    let (set, _) = wanted(&world, node);
    let launch = set.runs.iter().find(|run| run.run.task.job == gang).unwrap().launch.as_ref().unwrap();
    assert_eq!(launch.peers, vec!["127.1.0.1"; 60]);
}

#[test]
fn descriptions_that_are_too_long_together_come_one_after_the_other() {
    let mut world = World::new();
    let node = world.register("a");
    for number in 0..20 {
        let job = world.submit(&format!("job-{number}"), 1, 1, with_env(500_000));
        world.place(job, 1, node);
    }
    for round in 1.. {
        let (set, bytes) = wanted(&world, node);
        assert!(bytes < 5 << 20, "{bytes} bytes");
        assert_eq!(set.runs.len(), 20, "a run that is not named would be stopped");
        let starting: Vec<_> = set.runs.iter().filter(|run| run.launch.is_some()).map(|run| run.run).collect();
        if starting.is_empty() {
            assert!(set.runs.iter().all(|run| run.started), "all came to their turn");
            assert_eq!(round, 4);
            return;
        }
        let started = |run| RunReport { run, kind: RunReportKind::Started { pid: 9 } };
        world.report(node, starting.into_iter().map(started).collect());
    }
}
