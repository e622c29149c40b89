//! Of all nodes a single task takes the one where what has to stop is least important, whatever has changed meanwhile.

use super::fresh;
use super::preemption_room::end_stopping;
use ohm_cell::{Cell, Overlay, Run};
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{Board, Decision, LiveJobs, PlannedJob, Planner, View};
use ohm_model::{JobId, NodeId, RunRef, Victim};
use ohm_placement::fixture::World;
use ohm_stdx::Prng;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How important a piece of a job is: its priority, and when the first of it was placed.
type Importance = (i32, Reverse<u64>);

/// What the job `name` would stop, with what was known of the cell before.
fn plan(world: &mut World, name: &str, live: &mut LiveJobs) -> Option<PlannedJob> {
    let (jobs, nodes) = std::mem::take(&mut world.changed);
    live.changed(&jobs, &nodes);
    live.bring_up(&world.cell);
    let (mut over, mut planner) = (Overlay::default(), fresh());
    planner.reset(&View::new(&world.cell, &over, world.session));
    let Decision::Unplaced(why) = world.plan(name, &mut planner) else { return None };
    let mut board = Board::new(&world.cell, &mut over, world.session);
    plan_preemption(&mut planner, &mut board, world.item(name), (&why, live), &mut Prng::new(1)).planned
}

/// The importance of what goes together with a run: all of a gang, of a service the run alone.
fn importance(cell: &Cell, run: &Run) -> Importance {
    let job = cell.jobs().get(run.run.task.job).expect("its job");
    let runs = cell.runs().iter().map(|(_, run)| run);
    let all = runs.filter(|other| other.run.task.job == job.id && other.stop.is_none());
    let since_ms = if job.starts_whole() { all.map(|run| run.placed_ms).min() } else { Some(run.placed_ms) };
    (job.spec.priority, Reverse(since_ms.expect("it is live")))
}

/// How important the last piece is that has to stop on `node` for so many cpus, if the least important stop first.
fn last_to_stop(cell: &Cell, node: NodeId, cpus: i64, priority: i32) -> Option<Importance> {
    let runs: Vec<&Run> = cell.runs().iter().map(|(_, run)| run).filter(|run| run.node == node).collect();
    let takes = |run: &Run| cpus_of(cell, run);
    let capacity = 4_000 - runs.iter().map(|run| takes(run)).sum::<i64>();
    let stopping: i64 = runs.iter().filter(|run| run.stop.is_some()).map(|run| takes(run)).sum();
    let mut free = capacity + stopping;
    let mut pieces: BTreeMap<Importance, i64> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.stop.is_none()) {
        let importance = importance(cell, run);
        if importance.0 < priority {
            *pieces.entry(importance).or_default() += takes(run);
        }
    }
    for (importance, cpus_there) in pieces {
        free += cpus_there;
        if free >= cpus {
            return Some(importance);
        }
    }
    None
}

fn cpus_of(cell: &Cell, run: &Run) -> i64 {
    let shape = cell.shapes().get(run.shape).expect("its shape");
    shape.requests.iter().map(|(_, amount)| *amount).max().unwrap_or(0)
}

/// The most important of what stops.
fn most_important(cell: &Cell, victims: &[Victim]) -> Importance {
    let of = |job: JobId, runs: &[RunRef]| {
        let live = cell.runs().iter().map(|(_, run)| run).filter(move |run| run.run.task.job == job);
        let named = live.filter(|run| run.stop.is_none() && (runs.is_empty() || runs.contains(&run.run)));
        named.map(|run| importance(cell, run)).max()
    };
    victims.iter().filter_map(|victim| of(victim.job, &victim.runs)).max().expect("a victim")
}

/// Elastic gangs at their minimum, and those that are as important, do not hide what is less important elsewhere.
#[test]
fn elastic_gangs_do_not_hide_others() {
    let mut planner = fresh();
    let mut world = World::of("node n1 cpu=2\nnode n2 cpu=2\nnode n3 cpu=2\n", &mut planner);
    world.extend("job wide priority=2\ngroup g count=2 min=2 elastic cpu=1\nplace wide", &mut planner);
    world.extend("job tall priority=9\ngroup g count=2 min=1 elastic cpu=1\nplace tall", &mut planner);
    world.extend("job low\ngroup g cpu=2\nplace low", &mut planner);
    world.extend("job big priority=5\ngroup g cpu=2", &mut planner);
    let mut live = LiveJobs::of(&world.cell);
    let planned = plan(&mut world, "big", &mut live).expect("it stops others");
    let victims: Vec<JobId> = planned.preempt.iter().map(|victim| victim.job).collect();
    assert_eq!(victims, [world.job("low")]);
}

/// Jobs come, of one task, gangs and services; others end; now and then one comes that has to stop others.
#[test]
fn a_single_task_stops_the_least_important() {
    let (mut found, mut exact) = (0, 0);
    for seed in 0..300 {
        let (mut dice, mut planner) = (Prng::new(seed), fresh());
        let mut world = World::of(&(1..=5).map(|at| format!("node n{at} cpu=4\n")).collect::<String>(), &mut planner);
        let mut live = LiveJobs::of(&world.cell);
        for step in 0..40 {
            let (priority, cpus) = (dice.below(4), 1 + dice.below(3));
            let group = match dice.below(5) {
                0 => format!("group g count=2 cpu={cpus}"),
                1 => format!("group g count=3 min=2 cpu={cpus}"),
                _ => format!("group g cpu={cpus}"),
            };
            world.extend(&format!("wait {}", dice.below(3) * 500), &mut planner);
            world.extend(&format!("job j{step} priority={priority}\n{group}"), &mut planner);
            world.place(&format!("j{step}"), &mut planner);
            if dice.below(4) == 0 {
                end_stopping(&mut world);
            }
            if dice.below(3) > 0 {
                continue;
            }
            let (priority, cpus) = (1 + dice.below(5), 1 + dice.below(4));
            let name = format!("p{step}");
            world.extend(&format!("job {name} priority={priority}\ngroup g cpu={cpus}"), &mut planner);
            let Some(planned) = plan(&mut world, &name, &mut live) else { continue };
            let cell = &world.cell;
            let kept: Vec<NodeId> = cell.nominations().iter().map(|(node, _)| node).collect();
            let nodes = cell.nodes().present().filter(|node| !kept.contains(node));
            let best = nodes.filter_map(|node| last_to_stop(cell, node, cpus as i64 * 1_000, priority as i32)).min();
            let stopped = most_important(cell, &planned.preempt);
            assert!(best.is_none_or(|best| stopped <= best), "seed {seed}, {name}: {stopped:?} for {best:?}");
            if kept.is_empty() {
                assert_eq!(Some(stopped), best, "seed {seed}, {name}");
                exact += 1;
            }
            let verdict = world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
            assert_eq!(verdict.conflicts, vec![], "seed {seed}, {name}");
            found += 1;
            if dice.below(2) == 0 {
                end_stopping(&mut world);
                world.place(&name, &mut planner);
            }
        }
    }
    assert!(found > 300 && exact > 100, "only {found} stopped others, {exact} where nothing was kept");
}
