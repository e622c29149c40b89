//! Whom jobs stop that have their quota and find no room, and that the log agrees with every answer.

use super::properties::lived_in;
use super::{fresh, fresh_of};
use crate::ProfilePlanner;
use ohm_cell::JobState;
use ohm_framework::preempt::plan_preemption;
use ohm_framework::{Board, Decision, LiveJobs, PlannedJob, Planner};
use ohm_model::{Exit, RunReport, RunReportKind};
use ohm_placement::fixture::World;
use ohm_placement::fixture::random::{self, Kinds};
use ohm_stdx::Prng;

/// Who is stopped for the job `name`, and where it will stand; nothing where nobody is.
pub(super) fn plan(world: &World, name: &str, planner: &mut ProfilePlanner) -> Option<PlannedJob> {
    let mut over = ohm_cell::Overlay::default();
    let Decision::Unplaced(why) = world.plan(name, planner) else { return None };
    let mut board = Board::new(&world.cell, &mut over, world.session);
    let mut live = LiveJobs::of(&world.cell);
    plan_preemption(planner, &mut board, world.item(name), (&why, &mut live), &mut Prng::new(1)).planned
}

/// The same in words: `low; mid main/1 -> big 1 on n1`.
pub(super) fn text(world: &World, planned: &PlannedJob) -> String {
    let victims = planned.preempt.iter().map(|victim| {
        let job = world.cell.jobs().get(victim.job).expect("the victim");
        let runs = victim.runs.iter().map(|run| format!(" {}", run.task.task.0));
        format!("{}{}", job.spec.name, runs.collect::<String>())
    });
    let mut rooms: Vec<String> = Vec::new();
    for room in &planned.nominate {
        rooms.push(format!("{} on {}", room.count, world.cell.nodes().name(room.node)));
    }
    format!("{} -> {}", victims.collect::<Vec<_>>().join(", "), rooms.join(", "))
}

/// What is said of the last job of the world, and that the log takes it.
fn check(cell: &str, job: &str, expected: &str) {
    let mut planner = fresh();
    let mut world = World::of(cell, &mut planner);
    world.extend(job, &mut planner);
    let name = job.split_whitespace().nth(1).expect("a name");
    check_next(&mut world, name, &mut planner, expected);
}

/// The same of any job.
pub(super) fn check_next(world: &mut World, name: &str, planner: &mut ProfilePlanner, expected: &str) {
    let planned = plan(world, name, planner);
    assert_eq!(planned.as_ref().map_or("nobody".to_string(), |planned| text(world, planned)), expected);
    if let Some(planned) = planned {
        let verdict = world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
        assert_eq!(verdict.conflicts, vec![], "{expected}");
        assert_eq!(world.cell.invariants(), Vec::<String>::new());
    }
}

const TWO: &str = "node n1 cpu=4\nnode n2 cpu=4\n\
    job old\ngroup g cpu=4\nplace old\nwait 1000\njob mid priority=1\ngroup g cpu=4\nplace mid\n";

#[test]
fn the_least_important_goes_first() {
    check(TWO, "job big priority=5\ngroup g cpu=3", "old -> 1 on n1");
    check(TWO, "job equal\ngroup g cpu=3", "nobody");
    check(TWO, "job huge priority=5\ngroup g cpu=5", "nobody");
    check(TWO, "job pair priority=5\ngroup g count=2 cpu=3", "old, mid -> 1 on n1, 1 on n2");
    check(TWO, "job two priority=1\ngroup g count=2 cpu=3", "nobody");
}

#[test]
fn of_equals_the_youngest_goes_first_and_no_more_than_are_needed() {
    let cell = "node n1 cpu=4\njob a\ngroup g cpu=1\nplace a\nwait 1000\njob b\ngroup g cpu=1\nplace b\nwait 1000\n\
        job c\ngroup g cpu=2\nplace c\n";
    check(cell, "job big priority=5\ngroup g cpu=2", "c -> 1 on n1");
    check(cell, "job big priority=5\ngroup g cpu=1", "c -> 1 on n1");
    check(cell, "job big priority=5\ngroup g cpu=3", "c, b -> 1 on n1");
}

#[test]
fn a_gang_is_one_victim_and_what_it_has_beyond_its_minimum_goes_first() {
    let gang = "node n1 cpu=4\nnode n2 cpu=4\njob low\ngroup g count=4 cpu=2\nplace low\n";
    check(gang, "job big priority=5\ngroup g cpu=2", "low -> 1 on n1");
    let elastic = "node n1 cpu=4\nnode n2 cpu=4\njob wide priority=2\ngroup g count=3 min=2 elastic cpu=2\nplace wide\n\
        job low priority=1\ngroup g cpu=2\nplace low\n";
    check(elastic, "job big priority=5\ngroup g cpu=2", "wide 2 -> 1 on n2");
    check(elastic, "job two priority=5\ngroup g count=2 cpu=2", "wide 2, low -> 2 on n2");
    check(elastic, "job all priority=5\ngroup g count=4 cpu=2", "low, wide -> 2 on n1, 2 on n2");
}

#[test]
fn of_a_service_single_tasks_go() {
    let mut planner = fresh_of("service");
    let mut world = World::of("node n1 cpu=4\n", &mut planner);
    world.extend("job web class=service\ngroup g count=4 cpu=1\nplace web", &mut planner);
    world.extend("job big class=batch priority=5\ngroup g cpu=2", &mut fresh());
    check_next(&mut world, "big", &mut fresh(), "web 2 3 -> 1 on n1");
}

#[test]
fn a_topology_job_frees_one_domain() {
    let cell = "topology main rack kubernetes.io/hostname\nnode a1 cpu=4 rack=a\nnode a2 cpu=4 rack=a\n\
        node b1 cpu=4 rack=b\nnode b2 cpu=4 rack=b\n\
        job a priority=1\ngroup g cpu=4\nplace a\njob aa priority=1\ngroup g cpu=4\nplace aa\n\
        job b priority=2\ngroup g cpu=4\nplace b\njob bb\ngroup g cpu=4\nplace bb\n";
    check(cell, "job big priority=5\ngroup g count=2 cpu=4 topology=required:rack", "aa, a -> 1 on a1, 1 on a2");
    check(cell, "job big priority=5\ngroup g count=2 cpu=4 topology=preferred:rack", "bb, aa -> 1 on a2, 1 on b2");
}

#[test]
fn who_stops_already_is_waited_for() {
    let cell = "node n1 cpu=4\njob low\ngroup g cpu=4\nplace low\nsuspend low\n";
    check(cell, "job big priority=5\ngroup g cpu=4", "nobody");
}

#[test]
fn what_is_under_way_is_counted_once() {
    let mut planner = fresh();
    let mut world = World::of(TWO, &mut planner);
    for (name, expected) in [("first", "old -> 1 on n1"), ("second", "mid -> 1 on n2")] {
        world.extend(&format!("job {name} priority=5\ngroup g cpu=4"), &mut planner);
        check_next(&mut world, name, &mut planner, expected);
        assert!(plan(&world, name, &mut planner).is_none(), "it waits for its victims");
    }
}

const CLASSES: [Kinds; 4] = [
    Kinds { topology: false, class: "batch", groups: true, rules: false },
    Kinds { topology: true, class: "tas", groups: true, rules: false },
    Kinds { topology: false, class: "service", groups: false, rules: false },
    Kinds { topology: true, class: "batch", groups: false, rules: false },
];

/// In drawn cells with jobs of all classes: whatever a job stops, the log takes it; once its victims have ended it
/// stands in its rooms.
#[test]
fn the_log_agrees_with_every_answer_and_the_job_stands_then() {
    let (mut found, mut parts) = (0, 0);
    for seed in 0..2000 {
        let mut dice = Prng::new(seed);
        let (mut world, mut told) = lived_in(&mut dice, &mut fresh());
        let kinds = *dice.pick(&CLASSES).expect("a class");
        let mut planner = fresh_of(kinds.class);
        let job = random::job(&mut dice, "last", kinds).replace(" priority=", " priority=1");
        told += &job;
        world.extend(&job, &mut planner);
        planner.reset(&ohm_framework::View::new(&world.cell, &Default::default(), world.session));
        let Some(planned) = plan(&world, "last", &mut planner) else { continue };
        found += 1;
        parts += planned.preempt.iter().filter(|victim| !victim.is_whole()).count();
        told += &format!("# {}\n", text(&world, &planned));
        let rooms: u32 = planned.nominate.iter().map(|room| room.count).sum();
        let verdict = world.commit(&Decision::Planned(Box::new(planned))).expect("a verdict");
        assert_eq!(verdict.conflicts, vec![], "seed {seed}:\n{told}");
        assert_eq!(world.cell.invariants(), Vec::<String>::new(), "seed {seed}:\n{told}");
        end_stopping(&mut world);
        let mut planner = fresh_of(kinds.class);
        planner.reset(&ohm_framework::View::new(&world.cell, &Default::default(), world.session));
        world.place("last", &mut planner);
        let last = world.cell.jobs().get(world.job("last")).expect("the job");
        assert!(last.state != JobState::Active || last.live() >= rooms, "seed {seed}: it stands not:\n{told}");
        assert_eq!(world.cell.invariants(), Vec::<String>::new(), "seed {seed}:\n{told}");
    }
    assert!(found > 60 && parts > 10, "only {found} jobs stopped others, {parts} of them in part");
}

/// Lets all runs end that are told to.
pub(super) fn end_stopping(world: &mut World) {
    while end_one(world) {}
}

/// Lets the first run end that is told to; says whether there is one.
pub(super) fn end_one(world: &mut World) -> bool {
    let first = world.cell.runs().iter().map(|(_, run)| run).find(|run| run.stop.is_some());
    let Some((node, run)) = first.map(|run| (run.node, run.run)) else { return false };
    let kind = RunReportKind::Ended { exit: Exit::Signal(15), message: String::new() };
    world.apply(ohm_model::Command::Report { node, reports: vec![RunReport { run, kind }] });
    true
}
