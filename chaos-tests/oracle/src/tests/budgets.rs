//! P7 of disruption budgets.

use super::*;
use ohm_model::{Budget, BudgetLimit, BudgetTerms, Operator, Purpose, Requirement, TaskAmount, UnhealthyEviction};
use ohm_model::{Epoch, Grain, GroupIndex, Nomination, Shard, TaskIndex, Transaction, Verdict};

fn terms(limit: BudgetLimit) -> BudgetTerms {
    BudgetTerms { limit, unhealthy: UnhealthyEviction::IfHealthyBudget }
}

fn least(tasks: u32) -> BudgetTerms {
    terms(BudgetLimit::MinAvailable(TaskAmount::Tasks(tasks)))
}

fn put(history: &mut History, app: &str, terms: BudgetTerms) {
    let requirement = Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let budget = Budget { name: app.into(), selector: Some(vec![requirement]), terms };
    history.entry(Command::PutBudget(budget), Outcome::Done, Vec::new());
}

fn web(name: &str, count: u32) -> JobSpec {
    job(name, count, |job| job.groups[0].labels = [("app".to_string(), "web".to_string())].into())
}

fn started(job: u32, task: u32, node: u32) -> EventKind {
    EventKind::Started { job: JobId::new(job, 0), group: 0, task, incarnation: Incarnation(1), node: NodeId(node) }
}

/// Two jobs of two tasks that run on node 0, which drains.
fn draining(terms: BudgetTerms) -> History {
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[]));
    put(&mut history, "web", terms);
    history.job(0, web("one", 2)).job(1, web("two", 2));
    history.happened(vec![placed(0, 0, 2, 0), placed(1, 0, 2, 0)]);
    history.happened(vec![started(0, 0, 0), started(0, 1, 0), started(1, 0, 0)]);
    history.happened(vec![EventKind::NodeDraining { node: NodeId(0), name: "a".into(), runs: 4, deadline_ms: 0 }]);
    history
}

/// Tasks of one job move to node 1.
fn moves(history: &mut History, job: u32, tasks: &[u32]) {
    let id = JobId::new(job, 0);
    let shard = Shard { class: Class::BATCH, number: 0 };
    let room = |task: &u32| Nomination {
        job: id,
        group: GroupIndex(0),
        node: NodeId(1),
        first: TaskIndex(*task),
        count: 1,
        purpose: Purpose::Move,
    };
    let evict = tasks.iter().map(|task| (RunRef::new(id, 0, *task, 1), StopCause::Drained)).collect();
    let nominate = tasks.iter().map(room).collect();
    let transaction =
        Transaction { evict, nominate, ..Transaction::empty(shard, Epoch(1), Index(0), Grain::AllOrNothing) };
    let verdict = Verdict { accepted: Vec::new(), conflicts: Vec::new(), refresh: Index(0) };
    let stops = tasks.iter().map(|task| stopping(job, *task, 0, StopCause::Drained)).collect();
    history.entry(Command::Commit(transaction), Outcome::Verdict(verdict), stops);
}

#[test]
fn no_more_tasks_move_than_a_budget_lets() {
    let check = |terms: BudgetTerms, job: u32, tasks: &[u32], expected: &[&str]| {
        let mut history = draining(terms);
        moves(&mut history, job, tasks);
        assert_eq!(history.broken(), expected, "{terms:?} {job} {tasks:?}");
    };
    check(least(2), 0, &[0], &[]);
    check(least(2), 0, &[0, 1], &["P7"]);
    check(least(3), 1, &[0], &["P7"]);
    // What does not run yet may go while enough others do.
    check(least(3), 1, &[1], &[]);
    check(least(4), 1, &[1], &["P7"]);
    check(terms(BudgetLimit::MaxUnavailable(TaskAmount::Percent(50))), 0, &[0], &[]);
    check(terms(BudgetLimit::MaxUnavailable(TaskAmount::Percent(25))), 0, &[0], &["P7"]);
}

#[test]
fn what_moves_counts_until_it_runs_again() {
    let mut history = draining(least(2));
    moves(&mut history, 0, &[0]);
    moves(&mut history, 0, &[1]);
    assert_eq!(history.broken(), ["P7"]);
    let mut history = draining(least(2));
    moves(&mut history, 0, &[0]);
    history.happened(vec![ended(0, 0, 0, Exit::Signal(15)), placed(0, 0, 1, 1)]);
    history.happened(vec![started(0, 0, 1)]);
    moves(&mut history, 0, &[1]);
    assert!(history.broken().is_empty());
}

#[test]
fn what_is_lost_counts_and_deadlines_ask_nobody() {
    let mut history = draining(least(2));
    history.happened(vec![ended(1, 0, 0, Exit::Vanished)]);
    moves(&mut history, 0, &[0]);
    assert_eq!(history.broken(), ["P7"]);
    let mut history = draining(least(4));
    let late = EventKind::DrainDeadline { node: NodeId(0), name: "a".into(), runs: 4 };
    history.happened(vec![late, stopping(0, 0, 0, StopCause::Drained)]);
    assert!(history.broken().is_empty());
}

#[test]
fn a_group_has_a_budget_of_its_own() {
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[]));
    let own = |job: &mut JobSpec| job.groups[0].disruption_budget = Some(Box::new(least(1)));
    history.job(0, job("one", 2, own)).job(1, job("two", 2, |_| {}));
    history.happened(vec![placed(0, 0, 2, 0), placed(1, 0, 2, 0), started(0, 0, 0), started(1, 0, 0)]);
    history.happened(vec![EventKind::NodeDraining { node: NodeId(0), name: "a".into(), runs: 4, deadline_ms: 0 }]);
    moves(&mut history, 1, &[0]);
    assert!(history.broken().is_empty());
    moves(&mut history, 0, &[0]);
    assert_eq!(history.broken(), ["P7"]);
}
