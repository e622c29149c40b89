//! Whom jobs stop where disruption budgets keep some: those only where nothing else helps, and as few as can be.

use super::preemption_room::{plan, text};
use super::{fresh, fresh_of};
use ohm_cell::live_runs;
use ohm_framework::Decision;
use ohm_model::{
    Budget, BudgetLimit, BudgetTerms, Command, Operator, Requirement, RunReport, RunReportKind, TaskAmount,
    UnhealthyEviction,
};
use ohm_placement::fixture::World;

/// Tasks of the namespace that are `app: APP`: so many of them are healthy.
fn put(world: &mut World, app: &str, least: u32) {
    let requirement = Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let limit = BudgetLimit::MinAvailable(TaskAmount::Tasks(least));
    let terms = BudgetTerms { limit, unhealthy: UnhealthyEviction::IfHealthyBudget };
    world.apply(Command::PutBudget(Budget { name: app.into(), selector: Some(vec![requirement]), terms }));
}

fn start_all(world: &mut World) {
    let jobs: Vec<_> = world.cell.jobs().iter().cloned().collect();
    let runs: Vec<_> = jobs.iter().flat_map(|job| live_runs(&world.cell, job)).map(|run| (run.node, run.run)).collect();
    for (node, run) in runs {
        let reports = vec![RunReport { run, kind: RunReportKind::Started { pid: 1 } }];
        world.apply(Command::Report { node, reports });
    }
}

/// Whom the last job stops in this cell of the services, in which so many tasks of each app are to be healthy, and how
/// many of these go beyond; the log takes it.
fn check(services: &str, budgets: &[(&str, u32)], job: &str, expected: (&str, u32)) {
    let mut world = World::of(services, &mut fresh_of("service"));
    budgets.iter().for_each(|(app, least)| put(&mut world, app, *least));
    start_all(&mut world);
    let mut planner = fresh();
    world.extend(job, &mut planner);
    let name = job.split_whitespace().nth(1).expect("a name");
    let planned = plan(&world, name, &mut planner);
    let told = planned.as_ref().map(|planned| (text(&world, planned), planned.breaks));
    assert_eq!(told, Some((expected.0.to_string(), expected.1)), "{budgets:?} {job}");
    let verdict = world.commit(&Decision::Planned(Box::new(planned.expect("a plan")))).expect("a verdict");
    assert_eq!(verdict.conflicts, vec![], "{budgets:?} {job}");
    assert_eq!(world.cell.invariants(), Vec::<String>::new());
}

/// Two of the least important on node n1, one that is more important beside them; the same alone on n2.
const CELL: &str = "node n1 cpu=4 at=n1\nnode n2 cpu=4 at=n2\n\
    job low class=service priority=1\ngroup g count=2 cpu=1 select=at:n1 label=app:low\nplace low\nwait 1000\n\
    job mid class=service priority=2\ngroup g cpu=2 select=at:n1 label=app:mid\nplace mid\nwait 1000\n\
    job top class=service priority=3\ngroup g cpu=4 select=at:n2 label=app:top\nplace top\n";

#[test]
fn what_a_budget_keeps_goes_only_where_nothing_else_helps() {
    check(CELL, &[], "job one class=batch priority=9\ngroup g cpu=2", ("low 0 1 -> 1 on n1", 0));
    // One of the two may go: that is not enough, and the more important one goes for both.
    check(CELL, &[("low", 1)], "job one class=batch priority=9\ngroup g cpu=2", ("mid 0 -> 1 on n1", 0));
    check(CELL, &[("low", 1)], "job one class=batch priority=9\ngroup g cpu=1", ("low 1 -> 1 on n1", 0));
    check(CELL, &[("low", 2), ("mid", 1)], "job one class=batch priority=9\ngroup g cpu=2", ("top 0 -> 1 on n2", 0));
    // Where all of them are kept the fewest budgets are broken, then the least important goes.
    let all = [("low", 2), ("mid", 1), ("top", 1)];
    check(CELL, &all, "job one class=batch priority=9\ngroup g cpu=1", ("low 1 -> 1 on n1", 1));
    check(CELL, &all, "job one class=batch priority=9\ngroup g cpu=2", ("top 0 -> 1 on n2", 1));
    check(CELL, &all, "job one class=batch priority=9\ngroup g cpu=4", ("top 0 -> 1 on n2", 1));
}

#[test]
fn gangs_keep_budgets_too() {
    check(CELL, &[], "job two class=batch priority=9\ngroup g count=2 cpu=1", ("low 0 1 -> 2 on n1", 0));
    check(CELL, &[("low", 1)], "job two class=batch priority=9\ngroup g count=2 cpu=1", ("mid 0 -> 2 on n1", 0));
    let all = [("low", 2), ("mid", 1), ("top", 1)];
    check(
        CELL,
        &all,
        "job all class=batch priority=9\ngroup g count=2 cpu=4",
        ("low 0 1, mid 0, top 0 -> 1 on n1, 1 on n2", 4),
    );
}
