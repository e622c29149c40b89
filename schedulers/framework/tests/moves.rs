//! What a scheduler does about tasks that have to leave their nodes: nothing stops before there is a place for it.

use crate::world;

use ohm_model::selector::{Toleration, TolerationOperator};
use ohm_model::{
    Budget, BudgetLimit, BudgetTerms, Class, Command, ConditionAction, ConditionKind, JobSpec, NodeCondition, NodeId,
    Operator, QueueSpec, Requirement, RunReport, RunReportKind, TaskAmount, UnhealthyEviction,
};
use world::{World, job};

/// A cell of `nodes` nodes with two cores each, and this job that just stands on the first ones.
fn world(nodes: usize, spec: JobSpec) -> World {
    let mut world = World::new(1);
    for node in 0..nodes {
        world.register(&format!("n{node}"), &[("cpu", 2_000), ("pods", 20)], 1);
    }
    world.add(spec.class, false);
    world.run(3_000);
    stand(&mut world, spec);
    world
}

fn stand(world: &mut World, spec: JobSpec) {
    let (name, count) = (spec.name.clone(), spec.groups[0].count);
    world.submit(vec![spec]);
    while world.found(&name).live() < count {
        world.run(20);
        assert!(world.now_ms < 10_000, "{name} does not start");
    }
}

fn node(world: &World, name: &str) -> NodeId {
    world.reference.nodes().find(name).expect("a node that was registered")
}

fn drain(world: &mut World, name: &str) {
    world.command(Command::DrainNode { name: name.into(), deadline_ms: 0, at_once: 1 });
}

/// The agent of the node says that its health check fails, or that all is well.
fn tell_ill(world: &mut World, name: &str, number: u64, is_ill: bool) {
    let (kind, action) = (ConditionKind::HealthCheckFailed, ConditionAction::Drain);
    let conditions = is_ill.then(|| NodeCondition { kind, action, message: String::new() }).into_iter().collect();
    let node = node(world, name);
    let incarnation = world.reference.nodes().get(node).expect("its record").incarnation;
    world.command(Command::ReportConditions { node, incarnation, number, conditions });
}

/// How many runs of the job there are on the node, and how many of them are to stop.
fn runs_on(world: &World, job: &str, name: &str) -> (usize, usize) {
    let job = world.found(job).id;
    let runs = world.reference.runs().on_node(world.reference.nodes(), node(world, name));
    let runs: Vec<bool> = runs.filter(|(_, run)| run.run.task.job == job).map(|(_, run)| run.stop.is_some()).collect();
    (runs.len(), runs.iter().filter(|stops| **stops).count())
}

/// Lets everything run that was placed and not told to stop.
fn start_all(world: &mut World) {
    let waits = world.reference.runs().iter().filter(|(_, run)| run.started_ms == 0 && run.stop.is_none());
    let waits: Vec<_> = waits.map(|(_, run)| (run.node, run.run)).collect();
    for (node, run) in waits {
        let reports = vec![RunReport { run, kind: RunReportKind::Started { pid: 1 } }];
        world.command(Command::Report { node, reports });
    }
}

#[test]
fn a_gang_is_told_to_leave_all_its_nodes_at_once() {
    let mut world = world(4, job("gang", Class::BATCH, 4, 4, 1_000));
    drain(&mut world, "n0");
    drain(&mut world, "n1");
    while world.found("gang").groups[0].stopping == 0 {
        world.run(20);
        assert!(world.now_ms < 10_000, "nothing leaves");
    }
    assert_eq!((runs_on(&world, "gang", "n0"), runs_on(&world, "gang", "n1")), ((2, 2), (2, 2)));
    world.run(100);
    assert_eq!((runs_on(&world, "gang", "n2").0, runs_on(&world, "gang", "n3").0), (2, 2));
}

#[test]
fn nothing_stops_as_long_as_there_is_no_place() {
    let mut world = world(2, job("web", Class::SERVICE, 4, 1, 1_000));
    drain(&mut world, "n0");
    world.run(1_000);
    assert_eq!(runs_on(&world, "web", "n0"), (2, 0));
    world.register("n2", &[("cpu", 2_000), ("pods", 20)], 1);
    world.run(100);
    assert_eq!(runs_on(&world, "web", "n2"), (1, 0));
}

#[test]
fn a_service_moves_one_task_after_the_other() {
    let mut world = world(4, job("web", Class::SERVICE, 4, 1, 1_000));
    start_all(&mut world);
    drain(&mut world, "n0");
    drain(&mut world, "n1");
    let mut seen = 0;
    while runs_on(&world, "web", "n0").0 + runs_on(&world, "web", "n1").0 > 0 {
        world.run(20);
        let web = world.found("web").clone();
        let missing = web.groups[0].on_the_move();
        assert!(missing <= 1, "{missing} are on the move");
        seen += usize::from(missing == 1);
        // Only what runs lets the next one go, and agents take their time.
        if world.now_ms.is_multiple_of(100) {
            start_all(&mut world);
        }
        assert!(world.now_ms < 20_000, "the nodes are not left");
    }
    assert!(seen >= 4, "each of them moved by itself");
}

#[test]
fn conditions_drive_away_what_does_not_tolerate_them_and_only_while_they_last() {
    let mut calm = job("calm", Class::SERVICE, 1, 1, 1_000);
    calm.groups[0].tolerations = vec![Toleration {
        toleration_seconds: None,
        key: "node.ohm/health-check-failed".into(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
    }];
    let mut world = world(1, calm);
    stand(&mut world, job("web", Class::SERVICE, 1, 1, 1_000));
    start_all(&mut world);
    tell_ill(&mut world, "n0", 1, true);
    world.run(500);
    tell_ill(&mut world, "n0", 2, false);
    world.register("n1", &[("cpu", 2_000), ("pods", 20)], 1);
    world.run(500);
    assert_eq!((runs_on(&world, "web", "n0"), runs_on(&world, "web", "n1")), ((1, 0), (0, 0)), "it is well again");
    tell_ill(&mut world, "n0", 3, true);
    world.run(500);
    assert_eq!((runs_on(&world, "web", "n0"), runs_on(&world, "web", "n1")), ((0, 0), (1, 0)));
    assert_eq!(runs_on(&world, "calm", "n0"), (1, 0), "it tolerates that");
}

#[test]
fn what_waits_for_quota_keeps_nobody_on_a_drained_node() {
    let queue = Command::PutQueue(QueueSpec {
        name: "team".into(),
        nominal: [("cpu".into(), 2_000)].into(),
        borrowing_limit: Default::default(),
        lending_limit: Default::default(),
        weight_milli: 1_000,
        ..QueueSpec::default()
    });
    let web = |count| JobSpec { queue: "team".into(), ..job("web", Class::SERVICE, count, 1, 1_000) };
    let mut world = world(2, job("other", Class::SERVICE, 1, 1, 100));
    world.command(queue);
    stand(&mut world, web(2));
    start_all(&mut world);
    world.command(Command::UpdateJob { spec: Box::new(web(3)), version: None });
    world.run(500);
    assert_eq!(world.found("web").pending(), 1, "it waits for quota");
    world.register("n2", &[("cpu", 2_000), ("pods", 20)], 1);
    let from = ["n0", "n1"].into_iter().find(|name| runs_on(&world, "web", name).0 > 0).expect("a node of it");
    drain(&mut world, from);
    while runs_on(&world, "web", from).0 > 0 {
        world.run(20);
        start_all(&mut world);
        assert!(world.now_ms < 20_000, "the node is not left");
    }
}

/// Two services whose tasks are one application, of which no more than one task is missing by anybody's wish.
#[test]
fn what_a_budget_holds_goes_on_as_soon_as_another_job_lets_it() {
    let service = |name: &str| {
        let mut spec = job(name, Class::SERVICE, 2, 1, 1_000);
        spec.groups[0].labels = [("app".to_string(), "web".to_string())].into();
        spec
    };
    let mut world = world(5, service("one"));
    stand(&mut world, service("two"));
    let requirement = Requirement { key: "app".into(), operator: Operator::In, values: vec!["web".into()] };
    let limit = BudgetLimit::MaxUnavailable(TaskAmount::Tasks(1));
    let terms = BudgetTerms { limit, unhealthy: UnhealthyEviction::IfHealthyBudget };
    world.command(Command::PutBudget(Budget { name: "web".into(), selector: Some(vec![requirement]), terms }));
    start_all(&mut world);
    let began_ms = world.now_ms;
    for node in ["n0", "n1"] {
        world.command(Command::DrainNode { name: node.into(), deadline_ms: 0, at_once: 9 });
    }
    let (mut most, mut seen) = (0, 0);
    while ["n0", "n1"].iter().any(|name| runs_on(&world, "one", name).0 + runs_on(&world, "two", name).0 > 0) {
        world.run(20);
        let healthy = world.reference.runs().iter().filter(|(_, run)| run.started_ms > 0 && run.stop.is_none()).count();
        most = most.max(4 - healthy);
        seen += usize::from(healthy < 4);
        if world.now_ms.is_multiple_of(100) {
            start_all(&mut world);
        }
        // Nothing waits for the next sweep.
        assert!(world.now_ms < began_ms + 3_000, "the nodes are not left");
    }
    assert!(most == 1 && seen >= 4, "at most {most} were missing, {seen} times");
}
