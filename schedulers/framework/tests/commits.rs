//! How plans become transactions: put together, cut, refused for their size, shown as taken.

use crate::world;

use ohm_client::{FollowerCore, SessionInput};
use ohm_framework::{
    Again, Board, Decision, Explanation, Holds, Obstacle, Plan, PlannedJob, Planner, Proceed, SchedulerConfig,
    SchedulerCore, SchedulerEffect, SchedulerInput, Standing, TRANSACTION_BYTES_MAX, View, Work,
};
use ohm_model::{
    Class, Command, Entry, Envelope, Epoch, Grain, GroupIndex, HostPort, Index, JobId, NodeId, Placement, Sequence,
    SessionId, Shard, TaskIndex, Transaction,
};
use ohm_stdx::Prng;
use world::{World, job};

/// Puts every task on node 0, one row each.
struct OneByOne;

impl Planner for OneByOne {
    fn class(&self) -> Class {
        Class::BATCH
    }

    fn plan(&mut self, board: &mut Board<'_>, work: &Work, _dice: &mut Prng) -> Plan {
        let view = board.view();
        let decide = |id: JobId| {
            let job = view.cell().jobs().get(id)?;
            let (node, class) = (NodeId(0), view.cell().nodes().class(NodeId(0)));
            let pending = view.pending(job, GroupIndex(0));
            let tasks = pending.values();
            let (group, count, devices) = (GroupIndex(0), 1, Vec::new());
            let row = |task| Placement {
                job: id,
                group,
                first: TaskIndex(task),
                count,
                node,
                class,
                devices: devices.clone(),
            };
            let rows = tasks.map(row).collect();
            Some(Decision::Planned(Box::new(PlannedJob::placing(view.guard(job), Grain::PerTask, rows))))
        };
        let decisions = work.jobs.iter().map(|item| decide(item.job).unwrap_or(Decision::Nothing(item.job))).collect();
        Plan { decisions, examined: 1 }
    }

    fn changed(&mut self, _view: &View<'_>, _nodes: &[NodeId], _jobs: &[JobId]) {}

    fn reset(&mut self, _view: &View<'_>) {}
}

/// One core on a perfect network, so that what it sends can be counted.
struct Alone {
    world: World,
    core: SchedulerCore<OneByOne>,
    now_ms: u64,
    sent: Vec<Envelope>,
}

impl Alone {
    fn new(world: World) -> Self {
        let core = SchedulerCore::new(SchedulerConfig::new("alone"), OneByOne, Prng::new(5));
        let mut alone = Alone { world, core, now_ms: 0, sent: Vec::new() };
        alone.step(SchedulerInput::Snapshot(Box::new(alone.world.reference.clone())));
        alone.step(SchedulerInput::Session(SessionInput::Connected));
        alone
    }

    fn step(&mut self, input: SchedulerInput) {
        let mut effects = Vec::new();
        self.core.step(self.now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                SchedulerEffect::Send(envelopes) => {
                    self.sent.extend(envelopes.clone());
                    let stamp_ms = 1_000 + self.now_ms;
                    let entry = Entry { stamp_ms, commands: envelopes };
                    let index = Index(self.core.cell().applied().0 + 1);
                    self.step(SchedulerInput::Entry { index, entry });
                }
                SchedulerEffect::Own(Again) => self.step(SchedulerInput::Own(Proceed)),
                _ => {}
            }
        }
    }

    fn run(&mut self, for_ms: u64) {
        let end_ms = self.now_ms + for_ms;
        while self.now_ms < end_ms {
            self.now_ms += 100;
            self.step(SchedulerInput::Session(SessionInput::Tick));
        }
    }

    fn commits(&self) -> Vec<usize> {
        let rows = self.sent.iter().filter_map(|envelope| match &envelope.command {
            Command::Commit(transaction) => Some((transaction.place.len(), envelope.encode().len())),
            _ => None,
        });
        rows.map(|(rows, bytes)| {
            assert!(bytes <= TRANSACTION_BYTES_MAX, "{bytes} bytes");
            rows
        })
        .collect()
    }
}

fn world(pods: i64, jobs: Vec<ohm_model::JobSpec>) -> World {
    let mut world = World::new(3);
    world.register("one", &[("cpu", 1 << 40), ("pods", pods)], 1);
    world.submit(jobs);
    world
}

#[test]
fn many_small_plans_travel_together() {
    let jobs = (0..500).map(|number| job(&format!("j{number}"), Class::BATCH, 1, 1, 1)).collect();
    let mut alone = Alone::new(world(1_000, jobs));
    alone.run(3_000);
    let live = alone.core.cell().runs().len();
    let commits = alone.commits();
    assert_eq!((live, commits.iter().sum::<usize>()), (500, 500));
    assert!(commits.len() <= 48, "at most one per shard and pass: {}", commits.len());
    assert_eq!((alone.core.in_flight(), alone.core.backlog()), (0, 0));
    assert!(alone.core.cell().invariants().is_empty());
}

#[test]
fn a_gang_too_large_for_an_entry_is_told_so() {
    let mut alone = Alone::new(world(100_000, vec![job("gang", Class::BATCH, 30_000, 30_000, 1)]));
    alone.run(3_000);
    let id = alone.core.cell().jobs().find("gang").expect("it is there").id;
    let explanation = alone.core.explain(id).expect("it is explained");
    assert!(matches!(explanation.obstacle, Obstacle::TooLarge { rows: 30_000, .. }), "{explanation:?}");
    assert!(matches!(alone.core.standing(id), Standing::Waiting { ahead: 0, explanation: Some(_) }));
    assert_eq!(alone.commits(), []);
}

#[test]
fn what_may_grow_is_cut_and_goes_on() {
    let mut spec = job("array", Class::BATCH, 60_000, 10, 1);
    spec.groups[0].elastic = true;
    let mut alone = Alone::new(world(100_000, vec![spec]));
    alone.run(3_000);
    assert_eq!(alone.core.cell().runs().len(), 60_000);
    let commits = alone.commits();
    assert!(commits.len() >= 3 && commits.iter().sum::<usize>() == 60_000, "{commits:?}");
}

#[test]
fn what_is_planned_twice_is_refused_and_parks_in_the_end() {
    // The planner takes no notice of room: with one place for two tasks the gang collides until it waits.
    let mut alone = Alone::new(world(1, vec![job("gang", Class::BATCH, 2, 2, 1)]));
    alone.run(2_500);
    let id = alone.core.cell().jobs().find("gang").expect("it is there").id;
    let explanation = alone.core.explain(id).expect("it is explained");
    assert!(matches!(explanation.obstacle, Obstacle::Conflicts { attempts: 9, .. }), "{explanation:?}");
    assert!(alone.core.counters().conflicts.contains_key("GangShort"), "{:?}", alone.core.counters());
}

#[test]
fn closing_gives_the_shards_back() {
    let mut alone = Alone::new(world(10, Vec::new()));
    alone.run(1_000);
    assert_eq!(alone.core.shards().count(), 16);
    alone.step(SchedulerInput::Session(SessionInput::Close));
    assert_eq!(alone.core.shards().count(), 0);
    assert!(alone.core.cell().sessions().leases().all(|(_, state)| state.holder.is_none()));
}

#[test]
fn entries_that_were_seen_are_passed_over() {
    let mut alone = Alone::new(world(10, Vec::new()));
    let chain = alone.core.cell().chain();
    let tick = Envelope::new(SessionId(0), Sequence(0), Sequence(0), Command::Tick);
    alone.step(SchedulerInput::Entry { index: Index(1), entry: Entry { stamp_ms: 1, commands: vec![tick] } });
    assert_eq!(alone.core.cell().chain(), chain);
}

/// Whatever is taken and given back in whatever order, nothing is left and nothing is counted wrongly on the way.
#[test]
fn holds_are_exact() {
    let mut spec = job("array", Class::BATCH, 1_000, 1, 250);
    spec.groups[0].ports = vec![HostPort::tcp(8_080)];
    let world = world(1_000, vec![spec]);
    let cell = &world.reference;
    let id = cell.jobs().find("array").expect("it is there").id;
    let mut dice = Prng::new(11);
    let (mut holds, mut taken, mut tasks) = (Holds::default(), Vec::new(), 0i64);
    let batch = Class::BATCH;
    let nothing = Transaction::empty(Shard { class: batch, number: 0 }, Epoch(0), Index(0), Grain::PerTask);
    let check = |holds: &mut Holds, tasks: i64| {
        let view = holds.view(cell, SessionId(0));
        let held = |node| cell.nodes().free(node, ohm_cell::CPU) - view.free(node, ohm_cell::CPU);
        assert_eq!((0..3).map(|node| held(NodeId(node))).sum::<i64>(), tasks * 250);
        assert_eq!(i64::from(view.in_flight(id, GroupIndex(0))), tasks);
        let on_node = |node| view.live_on(id, GroupIndex(0), node);
        assert_eq!((0..3).map(|node| i64::from(on_node(NodeId(node)))).sum::<i64>(), tasks);
        for (node, _) in cell.nodes().iter() {
            assert_eq!(view.port_taken(node, HostPort::tcp(8_080)), on_node(node) > 0);
        }
    };
    for first in 0..500 {
        let (job, group, node) = (id, GroupIndex(0), NodeId(dice.below(3) as u32));
        let count = 1 + dice.below(3) as u32;
        let row =
            Placement { job, group, first: TaskIndex(first), count, node, class: Default::default(), devices: vec![] };
        let transaction = Transaction { place: vec![row], ..nothing.clone() };
        taken.push((holds.take(cell, &transaction), i64::from(count)));
        tasks += i64::from(count);
        if dice.chance(600) {
            let (back, count) = taken.swap_remove(dice.below(taken.len() as u64) as usize);
            holds.give_back(&back);
            tasks -= count;
        }
        check(&mut holds, tasks);
    }
    taken.iter().for_each(|(back, _)| holds.give_back(back));
    check(&mut holds, 0);
}

#[test]
fn explanations_keep_the_largest_miss() {
    let mut explanation = Explanation::of_obstacle(JobId(1), Index(1), 1, Obstacle::Room);
    for (free, node) in [(100, "a"), (300, "b"), (200, "c")] {
        explanation.near(ohm_cell::CPU, 500, free, node);
    }
    assert_eq!((explanation.nearest[0].free, explanation.nearest[0].node.as_str()), (300, "b"));
}
