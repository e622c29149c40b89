//! Runs that are kept where a node is cut off.

use super::*;
use ohm_model::{
    NodeHealth, OnDisconnect, PreemptionChange, PreemptionEvent, PreemptionNeed, PreemptionReason, QueueStopEvent,
    StopPolicy,
};

fn run(task: u32, incarnation: u32) -> RunRef {
    RunRef::new(JobId::new(0, 0), 0, task, incarnation)
}

fn began(at_ms: u64, node: &str, run: RunRef) -> Record {
    Record::Began { at_ms, node: node.into(), run, keeps: true, fence_in_ms: 1 }
}

fn over(at_ms: u64, node: &str, run: RunRef) -> Record {
    Record::Over { at_ms, node: node.into(), run }
}

fn reconciled(lives: bool) -> EventKind {
    let (job, name, reason) = (JobId::new(0, 0), "j".to_string(), String::new());
    let (group, task, incarnation, node) = (0, 0, Incarnation(1), NodeId(0));
    EventKind::Reconciled { job, name, group, task, incarnation, node, lives, reason }
}

/// A run whose node was lost, a replacement beside it, and the node back with that run alive.
fn returned(said: Vec<EventKind>) -> History {
    returned_after(vec![vec![ended(0, 0, 0, Exit::NodeLost)]], said)
}

/// The same, where its node went away with these entries.
fn returned_after(gone: Vec<Vec<EventKind>>, said: Vec<EventKind>) -> History {
    let mut history = History::default();
    let keeps = |spec: &mut JobSpec| spec.on_disconnect = OnDisconnect::Keep;
    history.node(0, node("a", &[])).node(1, node("b", &[])).job(0, job("j", 1, keeps));
    history.happened(vec![placed(0, 0, 1, 0)]);
    history.oracle.watch(&began(4_100, "a", run(0, 1)));
    for kinds in gone {
        history.happened(kinds);
    }
    history.happened(vec![placed(0, 0, 1, 1)]);
    history.oracle.watch(&began(6_100, "b", run(0, 2)));
    let (spec, incarnation) = (node("a", &[]), Incarnation(9));
    let registered = EventKind::NodeRegistered { node: NodeId(0), name: "a".into(), incarnation };
    let alive = vec![run(0, 1)];
    let command = Command::RegisterNode { spec, key: 1, instance: 2, boot: 1, alive };
    let kinds = std::iter::once(registered).chain(said).collect();
    history.entry(command, Outcome::Node { node: NodeId(0), incarnation }, kinds);
    history
}

#[test]
fn p2_lets_two_runs_of_a_kept_task_live_until_their_node_is_back() {
    let mut history = returned(vec![reconciled(false)]);
    history.oracle.watch(&over(7_100, "a", run(0, 1)));
    assert!(history.broken().is_empty());
    assert_eq!(returned(vec![reconciled(false)]).broken(), ["P2"], "both live on");
    let mut strays = returned(vec![reconciled(false)]);
    strays.oracle.watch(&over(7_100, "b", run(0, 2)));
    assert_eq!(strays.broken(), ["P2"], "the one that lives is not the one that counts");
}

#[test]
fn p2_wants_the_replacement_of_what_lives_on_to_stop() {
    let told = || stopping(0, 0, 1, StopCause::Reconciled);
    let judged = |said: Vec<EventKind>| {
        let mut history = returned(said);
        history.oracle.watch(&over(7_100, "b", run(0, 2)));
        history.oracle.broken().iter().filter(|broken| broken.what.contains("as well")).count()
    };
    assert_eq!(judged(vec![reconciled(true)]), 1);
    assert_eq!(judged(vec![reconciled(true), told()]), 0);
    assert_eq!(judged(vec![reconciled(true), reconciled(false)]), 0, "it is given up in the same entry");
}

#[test]
fn p2_wants_a_word_about_every_kept_run_that_is_back() {
    let mut history = returned(Vec::new());
    history.oracle.watch(&over(7_100, "a", run(0, 1)));
    assert_eq!(history.broken(), ["P2"]);
}

#[test]
fn p10_counts_what_lives_on_before_its_replacement_is_over() {
    let takes_all = |said: Vec<EventKind>| {
        let mut history = returned(said);
        history.job(9, job("all", 1, |job| job.groups[0].requests = [("cpu".to_string(), 4000)].into()));
        history.oracle.stuck_jobs().iter().any(|stuck| stuck.job == JobId::new(9, 0))
    };
    assert!(takes_all(vec![reconciled(false)]));
    assert!(!takes_all(vec![reconciled(true)]), "its room is taken");
}

#[test]
fn p2_lets_runs_of_a_node_that_was_removed_be_forgotten() {
    let lost = EventKind::NodeHealth { node: NodeId(0), name: "a".into(), health: NodeHealth::Lost };
    let gone = vec![lost, ended(0, 0, 0, Exit::NodeLost)];
    let removed = vec![EventKind::NodeRemoved { name: "a".into() }];
    let mut history = returned_after(vec![gone, removed], Vec::new());
    history.oracle.watch(&over(7_100, "a", run(0, 1)));
    assert!(history.broken().is_empty());
    let mut lives_on = returned_after(vec![vec![ended(0, 0, 0, Exit::NodeLost)]], vec![reconciled(false)]);
    assert_eq!(lives_on.broken(), ["P2"], "it is to stop all the same");
}

#[test]
fn p8_takes_what_stood_there_all_the_time_for_no_new_work() {
    let mut history = returned(vec![reconciled(true), stopping(0, 0, 1, StopCause::Reconciled)]);
    let mut ended = ended(0, 0, 1, Exit::Signal(15));
    if let EventKind::Ended { incarnation, .. } = &mut ended {
        *incarnation = Incarnation(2);
    }
    let cordoned = EventKind::NodeCordoned { node: NodeId(0), name: "a".into(), cordoned: true };
    history.happened(vec![cordoned]).happened(vec![ended, reconciled(true), placed(0, 0, 1, 0)]);
    history.oracle.watch(&over(8_100, "b", run(0, 2)));
    assert!(history.broken().is_empty());
}

#[test]
fn p2_does_not_ask_what_becomes_of_a_run_that_was_stopped_with_its_queue_or_preempted_whole() {
    let (job, name, queue) = (JobId::new(0, 0), "j".to_string(), "q".to_string());
    let queue_stop = |stopped| {
        let (name, queue) = (name.clone(), queue.clone());
        EventKind::QueueStop(QueueStopEvent { job, name, queue, policy: StopPolicy::HoldAndDrain, stopped })
    };
    let preempted = |runs| {
        let (by, need, reason) = ("other".into(), PreemptionNeed::Room, PreemptionReason::LowerPriority);
        let change = PreemptionChange::Stopped { by, need, runs, reason };
        EventKind::Preemption(PreemptionEvent { job, name: name.clone(), change })
    };
    for (stop, expected) in [
        (queue_stop(true), &[][..]),
        (queue_stop(false), &["P2"]),
        (preempted(None), &[]),
        (preempted(Some(1)), &["P2"]),
    ] {
        let gone = vec![vec![ended(0, 0, 0, Exit::NodeLost)], vec![stop.clone()]];
        let mut history = returned_after(gone, Vec::new());
        history.oracle.watch(&over(8_100, "a", run(0, 1)));
        assert_eq!(history.broken(), expected, "{stop:?}");
    }
}
