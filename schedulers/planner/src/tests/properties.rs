//! Properties on small random cells, against brute force and against the cell's own judgement.

use super::fresh;
use crate::ProfilePlanner;
use ohm_cell::{Cell, Fence, Overlay, Scratch};
use ohm_framework::{Board, Decision, Explanation, Planner, View};
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{Grain, GroupIndex, JobId, NodeId, Placement, TaskIndex, TopologyMode};
use ohm_placement::Subject;
use ohm_placement::fixture::random::{self, Kinds};
use ohm_placement::fixture::{self, World};
use ohm_stdx::Prng;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CLASSES: [Kinds; 4] = [
    Kinds { topology: false, class: "batch", groups: true, rules: true },
    Kinds { topology: true, class: "tas", groups: true, rules: true },
    Kinds { topology: false, class: "service", groups: true, rules: true },
    Kinds { topology: true, class: "batch", groups: false, rules: true },
];

/// A cell with a few jobs placed in it, and all there is to know about it as text.
pub(super) fn lived_in(dice: &mut Prng, planner: &mut ProfilePlanner) -> (World, String) {
    let mut text = random::nodes(dice);
    let mut world = World::of(&text, planner);
    for number in 0..dice.below(6) {
        let kinds = *dice.pick(&CLASSES).unwrap();
        let name = format!("j{number}");
        let job = random::job(dice, &name, kinds);
        world.extend(&job, planner);
        text += &job;
        world.attempt = dice.below(3) as u32;
        let (found, verdict) = world.place(&name, planner);
        text += &format!("# {}\n", found.replace('\n', "\n# "));
        assert_accepted(verdict.map(|verdict| verdict.conflicts), &text);
        for _ in 0..dice.below(3) {
            let line = random::disturbance(dice, &world);
            world.extend(&line, planner);
            text += &line;
            let earlier = format!("j{}", dice.between(0, number));
            let (found, verdict) = world.place(&earlier, planner);
            text += &format!("# again {earlier}: {}\n", found.replace('\n', "\n# "));
            assert_accepted(verdict.map(|verdict| verdict.conflicts), &text);
        }
        if dice.chance(100) && world.cell.nominations().is_empty() {
            let nominate = format!("nominate {name} n0 {}\n", dice.between(1, 2));
            world.extend(&nominate, planner);
            text += &nominate;
        }
    }
    (world, text)
}

fn assert_accepted(conflicts: Option<Vec<ohm_model::Conflict>>, text: &str) {
    assert_eq!(conflicts.unwrap_or_default(), [], "the log refuses:\n{text}");
}

/// How many tasks of the group the judge takes on `node`, asked row by row, with devices counted by hand.
fn brute_room(world: &World, planned: &ohm_model::Transaction, job: JobId, node: NodeId) -> u32 {
    let cell = &world.cell;
    let found = cell.jobs().get(job).unwrap();
    let shape = cell.shape_of(found, 0).unwrap();
    let count = found.spec.groups[0].count;
    let mut best = 0;
    for tasks in 1..=count {
        let Some(devices) = brute_devices(cell, shape, node, tasks) else { break };
        let class = cell.nodes().class(node);
        let (group, first) = (GroupIndex(0), TaskIndex(0));
        let row = Placement { job, group, first, count: tasks, node, class, devices };
        let transaction = ohm_model::Transaction { place: vec![row], grain: Grain::PerTask, ..planned.clone() };
        let verdict = cell.judge(world.session, &transaction, &mut Scratch::default());
        if verdict.accepted_of(&transaction, 0) == tasks {
            best = tasks;
        }
    }
    best
}

/// Masks for `tasks` tasks, the first device that will do each time; fractions of one size can't be packed better.
fn brute_devices(cell: &Cell, shape: &ohm_cell::Shape, node: NodeId, tasks: u32) -> Option<Vec<u64>> {
    let record = cell.nodes().get(node)?;
    let mut free: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for bank in &record.devices {
        free.insert(bank.resource, bank.free_milli.iter().map(|milli| i64::from(*milli)).collect());
    }
    let mut masks = Vec::new();
    for _ in 0..tasks {
        for &(resource, request) in &shape.devices {
            let Some(bank) = free.get_mut(&resource) else { return (request % DEVICE_MILLI == 0).then(Vec::new) };
            let mut mask = 0u64;
            for _ in 0..(request / DEVICE_MILLI).max(1) {
                let each = request.min(DEVICE_MILLI);
                let device = (0..bank.len()).find(|at| mask >> at & 1 == 0 && bank[*at] >= each)?;
                bank[device] -= each;
                mask |= 1 << device;
            }
            masks.push(mask);
        }
    }
    Some(masks)
}

/// The most tasks of the single group that can stand together, its spares among them.
fn brute_most(world: &World, name: &str) -> u32 {
    // The question is asked for a group that may start with one task.
    let mut probe = world.clone();
    let job = world.cell.jobs().find(name).unwrap();
    let mut spec = (*job.spec).clone();
    spec.name = "probe".into();
    spec.groups[0].min_count = 1;
    let group = &mut spec.groups[0];
    group.count += std::mem::take(&mut group.spares).min(group.count);
    probe.submit(Some(spec));
    let job = probe.cell.jobs().find("probe").unwrap().clone();
    let over = Overlay::default();
    let guard = View::new(&probe.cell, &over, probe.session).guard(&job);
    let planned = Decision::Planned(Box::new(ohm_framework::PlannedJob::placing(guard, Grain::PerTask, Vec::new())));
    let planned = probe.transaction(&planned).unwrap();
    let request = &job.spec.groups[0].topology;
    let mut by_domain: BTreeMap<u32, u32> = BTreeMap::new();
    for (node, _) in probe.cell.nodes().iter() {
        let topology = probe.cell.topologies().get("main").unwrap();
        let domain = match request.mode {
            TopologyMode::None => Some(0),
            TopologyMode::Required => topology.key_of(node, topology.level(&request.level).unwrap()),
            _ => topology.key_of(node, 2).map(|_| 0),
        };
        if let Some(domain) = domain {
            *by_domain.entry(domain).or_insert(0) += brute_room(&probe, &planned, job.id, node);
        }
    }
    let quota = quota_tasks(&probe, &job);
    by_domain.into_values().max().unwrap_or(0).min(quota).min(job.spec.groups[0].count)
}

fn quota_tasks(world: &World, job: &ohm_cell::Job) -> u32 {
    let cpu = job.spec.groups[0].requests.get("cpu").copied().unwrap_or(0);
    let column = world.cell.quota().columns().find(ohm_cell::NO_FLAVOR, ohm_cell::CPU);
    let available = column.and_then(|column| world.cell.quota().available(&job.spec.queue, column));
    available.map_or(u32::MAX, |available| (available.max(0) / cpu) as u32)
}

fn assert_counts(why: &Explanation, text: &str) {
    let missed: u32 = why.misses.values().sum();
    assert_eq!(missed + why.open_nodes, why.total_nodes, "{why:?}\n{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Everything planned is taken by the judge: the assertion is made while the cell is lived in.
    #[test]
    fn the_log_takes_every_plan(seed in any::<u64>()) {
        let (world, text) = lived_in(&mut Prng::new(seed), &mut fresh());
        prop_assert_eq!(world.cell.invariants(), Vec::<String>::new(), "{}", text);
    }

    /// A gang of one group is placed exactly when brute force finds room, and with as many tasks as there is room for,
    /// then spares.
    #[test]
    fn a_gang_is_placed_whenever_it_can_be(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut planner = fresh();
        let (mut world, mut text) = lived_in(&mut dice, &mut planner);
        let kinds = Kinds { topology: dice.chance(500), class: "tas", groups: false, rules: false };
        let job = random::job(&mut dice, "last", kinds);
        world.extend(&job, &mut planner);
        text += &job;
        let most = brute_most(&world, "last");
        let decision = world.plan("last", &mut planner);
        let placed = match &decision {
            Decision::Planned(planned) => {
                let tasks: u32 = planned.place.iter().map(|row| row.count).sum();
                (tasks, planned.nominate.iter().map(|row| row.count).sum())
            }
            Decision::Unplaced(why) => {
                assert_counts(why, &text);
                (0, 0)
            }
            Decision::Nothing(_) => (0, 0),
        };
        let group = &world.cell.jobs().find("last").unwrap().spec.groups[0];
        let tasks = if most >= group.min_count { most.min(group.count) } else { 0 };
        let expected = (tasks, most.saturating_sub(group.count));
        prop_assert_eq!(placed, expected, "{}\n{}", world.text(&decision), text);
    }

    /// The fast scan, the exact room and the filters that explain agree on every node.
    #[test]
    fn fast_and_slow_agree(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut planner = fresh();
        let (mut world, mut text) = lived_in(&mut dice, &mut planner);
        let job = random::job(&mut dice, "last", Kinds { rules: false, ..CLASSES[0] });
        world.extend(&job, &mut planner);
        text += &job;
        let over = Overlay::default();
        let view = View::new(&world.cell, &over, world.session);
        planner.reset(&view);
        let job = world.cell.jobs().find("last").unwrap();
        let subject = Subject::new(view, job, GroupIndex(0)).unwrap();
        let scanned = fixture::scanned(&mut planner.placer, &subject);
        for (node, record) in world.cell.nodes().iter() {
            let misses = subject.first_miss(node);
            if let Some(fast) = scanned.get(&node) {
                prop_assert_eq!(*fast, misses.is_none(), "{} {:?}\n{}", record.spec.name, misses, text);
            }
            prop_assert_eq!(subject.room(node) > 0, misses.is_none(), "{} {:?}\n{}", record.spec.name, misses, text);
        }
        let mut laid = Overlay::default();
        let pass = planner.placer.begin(Board::new(&world.cell, &mut laid, world.session));
        let topology = world.cell.topologies().iter().next();
        let keys = [None, Some(0), Some(1)];
        let within = topology.into_iter().flat_map(|topology| keys.map(|key| Fence { topology, level: 0, key }));
        // Twice, so that what is remembered is asked for, too.
        let fences = std::iter::once(None).chain(within.map(Some)).flat_map(|fence| [fence, fence]);
        for fence in fences {
            let subject = Subject { fence, ..subject };
            let why = planner.placer.explain(&pass, &subject, 1, ohm_framework::Obstacle::Room);
            assert_counts(&why, &text);
            let mut slow: BTreeMap<_, u32> = BTreeMap::new();
            for (node, _) in world.cell.nodes().iter() {
                if let Some(miss) = subject.first_miss(node) {
                    *slow.entry(miss).or_insert(0) += 1;
                }
            }
            prop_assert_eq!(why.misses, slow, "{}", text);
        }
    }

    /// A table that followed every change plans what a table made anew plans.
    #[test]
    fn following_changes_equals_reading_anew(seed in any::<u64>()) {
        let mut dice = Prng::new(seed);
        let mut text = random::nodes(&mut dice);
        let mut world = World::of(&text, &mut fresh());
        let mut follower = fresh();
        let over = Overlay::default();
        follower.reset(&View::new(&world.cell, &over, world.session));
        for number in 0..6 {
            let name = format!("j{number}");
            let kinds = *dice.pick(&CLASSES).unwrap();
            let job = random::job(&mut dice, &name, kinds);
            world.extend(&job, &mut fresh());
            text += &job;
            let anew = world.plan(&name, &mut fresh());
            let work = ohm_framework::Work { jobs: vec![world.item(&name)], budget: ohm_framework::Budget::UNBOUNDED };
            let followed = follower.plan(&mut Board::new(&world.cell, &mut Overlay::default(), world.session), &work, &mut Prng::new(1)).decisions.remove(0);
            prop_assert_eq!(&followed, &anew, "{}", text);
            world.commit(&followed);
            let nodes: Vec<NodeId> = match &followed {
                Decision::Planned(planned) => {
                    let spares = planned.nominate.iter().map(|row| row.node);
                    planned.place.iter().map(|row| row.node).chain(spares).collect()
                }
                _ => Vec::new(),
            };
            follower.changed(&View::new(&world.cell, &over, world.session), &nodes, &[]);
        }
    }
}
