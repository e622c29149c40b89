//! P7 of rollouts, and P1 of two revisions side by side.

use super::*;
use ohm_model::{RolloutEvent, RolloutStep, RolloutStrategy, TaskAmount};

const JOB: u32 = 0;

/// A service of three tasks of one cpu each, of which one may be unavailable and one may be beyond.
fn web(cpu: i64, change: impl FnOnce(&mut RolloutStrategy)) -> JobSpec {
    let mut strategy = RolloutStrategy {
        max_surge: TaskAmount::Tasks(1),
        max_unavailable: TaskAmount::Tasks(1),
        ..RolloutStrategy::default()
    };
    change(&mut strategy);
    job("web", 3, |job| {
        job.class = Class::SERVICE;
        job.strategy = Some(Box::new(strategy));
        job.groups[0].requests.insert("cpu".into(), cpu);
    })
}

fn started(task: u32, node: u32) -> EventKind {
    EventKind::Started { job: JobId::new(JOB, 0), group: 0, task, incarnation: Incarnation(1), node: NodeId(node) }
}

fn rollout(revision: u32, step: RolloutStep) -> EventKind {
    EventKind::Rollout(RolloutEvent { job: JobId::new(JOB, 0), name: "web".into(), revision, step })
}

fn aimed(revision: u32, count: u32) -> EventKind {
    rollout(2, RolloutStep::Aimed { group: 0, revision, count })
}

fn replaced(task: u32) -> EventKind {
    stopping(JOB, task, 0, StopCause::RolledOut)
}

fn gone(task: u32, exit: Exit, cause: Option<StopCause>) -> EventKind {
    let incarnation = Incarnation(1);
    EventKind::Ended { job: JobId::new(JOB, 0), group: 0, task, incarnation, node: NodeId(0), exit, cause }
}

/// Three tasks have run on node 0 for 12 s, and the job is rolled out to tasks of two cpus: one is to be placed beyond the count.
fn rolling(change: impl Fn(&mut RolloutStrategy)) -> History {
    let mut history = History::default();
    history.node(0, node("a", &[])).node(1, node("b", &[])).job(JOB, web(1000, &change));
    history.happened(vec![placed(JOB, 0, 3, 0)]);
    history.happened(vec![started(0, 0), started(1, 0), started(2, 0)]);
    (0..12).for_each(|_| _ = history.happened(Vec::new()));
    history.update(JOB, web(2000, &change), vec![rollout(2, RolloutStep::Started), aimed(2, 4)]);
    history
}

/// What is broken when these happen, one entry each.
fn check(mut history: History, entries: &[&[EventKind]], expected: &[&str]) {
    for kinds in entries {
        history.happened(kinds.to_vec());
    }
    assert_eq!(history.broken(), expected, "{entries:?}");
}

#[test]
fn p7_sees_a_rollout_that_leaves_too_few_available() {
    check(rolling(|_| ()), &[&[replaced(2)]], &[]);
    check(rolling(|_| ()), &[&[replaced(2), replaced(1)]], &["P7"]);
    // One more that is ready lets one more go; one that has just been placed does not.
    check(rolling(|_| ()), &[&[placed(JOB, 3, 1, 1)], &[replaced(2), replaced(1)]], &["P7"]);
    check(rolling(|_| ()), &[&[placed(JOB, 3, 1, 1)], &[started(3, 1)], &[replaced(2), replaced(1)]], &[]);
    let waits = |strategy: &mut RolloutStrategy| strategy.min_ready_seconds = 10;
    check(rolling(waits), &[&[placed(JOB, 3, 1, 1)], &[started(3, 1)], &[replaced(2), replaced(1)]], &["P7"]);
    // What is not available by itself is nobody's loss.
    let lost = gone(0, Exit::NodeLost, None);
    check(rolling(|_| ()), &[&[lost], &[replaced(2)]], &["P7"]);
}

#[test]
fn p7_sees_more_beyond_the_count_than_may_be() {
    check(rolling(|_| ()), &[&[aimed(2, 5)]], &["P7"]);
    check(rolling(|strategy| strategy.canary = 2), &[&[aimed(2, 5)]], &[]);
}

#[test]
fn p7_sees_what_is_replaced_while_nothing_may_be() {
    check(rolling(|strategy| strategy.pause = true), &[&[replaced(2)]], &["P7"]);
    let waits = [placed(JOB, 3, 1, 1), started(3, 1), rollout(2, RolloutStep::Waits)];
    let promoted = rollout(2, RolloutStep::Promoted);
    check(rolling(|strategy| strategy.canary = 1), &[&waits, &[replaced(2)]], &["P7"]);
    check(rolling(|strategy| strategy.canary = 1), &[&waits, &[promoted, replaced(2)]], &[]);
}

#[test]
fn p7_sees_what_is_lost_and_comes_back_as_something_else() {
    let lost = gone(0, Exit::NodeLost, None);
    check(rolling(|_| ()), &[&[lost.clone(), started(1, 0)], &[placed(JOB, 0, 1, 1)]], &["P7"]);
    check(rolling(|_| ()), &[&[lost.clone(), aimed(1, 4)], &[placed(JOB, 0, 1, 1)]], &[]);
    // What was told to stop makes room for the next, whatever became of its node.
    let replaced_and_lost = gone(2, Exit::NodeLost, Some(StopCause::RolledOut));
    check(rolling(|_| ()), &[&[replaced(2)], &[replaced_and_lost], &[placed(JOB, 2, 1, 1)]], &[]);
}

#[test]
fn p7_sees_a_rollout_that_is_never_over() {
    let mut history = rolling(|_| ());
    for task in [2, 1, 0] {
        history.happened(vec![replaced(task)]);
        history.happened(vec![gone(task, Exit::Signal(15), Some(StopCause::RolledOut))]);
        history.happened(vec![placed(JOB, task, 1, task.min(1))]).happened(vec![started(task, task.min(1))]);
    }
    (0..4).for_each(|_| _ = history.happened(Vec::new()));
    history.happened(vec![EventKind::NodeCordoned { node: NodeId(0), name: "a".into(), cordoned: true }]);
    assert_eq!(history.broken(), ["P7"]);
}

#[test]
fn p1_counts_tasks_as_they_were_made() {
    // Two of one cpu and one of two are on a node of four; one more of two is one too many.
    let made = [gone(2, Exit::Signal(15), Some(StopCause::RolledOut)), placed(JOB, 2, 1, 0)];
    check(rolling(|_| ()), &[&[replaced(2)], &made], &[]);
    check(rolling(|_| ()), &[&[replaced(2)], &made, &[placed(JOB, 3, 1, 0)]], &["P1"]);
}
