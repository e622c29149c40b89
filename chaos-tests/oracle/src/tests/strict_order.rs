//! P8 of StrictFIFO queues.

use super::*;
use ohm_model::{QueueSpec, QueueingStrategy, UsageBasedOrder};

/// A node, and two jobs of a queue: the first one older, the second one as important as said.
fn line(strategy: QueueingStrategy, priority: i32) -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[]));
    let queue = QueueSpec { name: "q".into(), queueing_strategy: strategy, ..QueueSpec::default() };
    history.entry(Command::PutQueue(queue), Outcome::Done, Vec::new());
    history.job(0, job("first", 1, |job| job.queue = "q".into()));
    history.job(1, job("second", 1, |job| (job.queue, job.priority) = ("q".into(), priority)));
    history.job(2, job("beside", 1, |_| {}));
    history
}

#[test]
fn nobody_starts_out_of_turn() {
    let strict = |priority| line(QueueingStrategy::StrictFifo, priority);
    assert_eq!(strict(0).places(1, 0, 0).broken(), ["P8"]);
    assert_eq!(strict(5).places(0, 0, 0).broken(), ["P8"], "the second one is more important");
    assert!(strict(0).places(0, 0, 0).places(1, 0, 0).broken().is_empty());
    assert!(strict(5).places(1, 0, 0).places(0, 0, 0).broken().is_empty());
    assert!(strict(0).places(2, 0, 0).broken().is_empty(), "it is of no queue");
    assert!(line(QueueingStrategy::BestEffortFifo, 0).places(1, 0, 0).broken().is_empty());
}

#[test]
fn who_waits_no_more_keeps_nobody_back() {
    let mut history = line(QueueingStrategy::StrictFifo, 0);
    let (name, state, reason) = ("first".into(), "suspended".into(), String::new());
    history.happened(vec![EventKind::JobState { job: JobId::new(0, 0), name, state, reason }]);
    assert!(history.places(1, 0, 0).broken().is_empty());
}

#[test]
fn who_waits_behind_another_one_is_not_stuck() {
    let stuck = |strategy, cpu: i64| {
        let mut history = line(strategy, 0);
        history.update(
            0,
            job("first", 1, |job| {
                (job.queue, job.groups[0].requests) = ("q".into(), [("cpu".to_string(), cpu)].into());
            }),
            Vec::new(),
        );
        let stuck = history.oracle.stuck_jobs();
        stuck.iter().map(|stuck| stuck.job).filter(|job| *job != JobId::new(2, 0)).collect::<Vec<_>>()
    };
    let (first, second) = (JobId::new(0, 0), JobId::new(1, 0));
    assert_eq!(stuck(QueueingStrategy::BestEffortFifo, 1000), [first, second]);
    assert_eq!(stuck(QueueingStrategy::BestEffortFifo, 9000), [second], "the first one fits nowhere");
    assert_eq!(stuck(QueueingStrategy::StrictFifo, 1000), [first]);
    assert_eq!(stuck(QueueingStrategy::StrictFifo, 9000), []);
}

#[test]
fn what_was_reserved_starts_out_of_turn() {
    let mut history = line(QueueingStrategy::StrictFifo, 0);
    assert!(history.reserve(1).places(1, 0, 0).broken().is_empty(), "it was let in when it was reserved");
}

/// A StrictFIFO queue ordered by usage, of which a job of part "a" runs; one of "a" waits, and younger ones of "b".
fn parts(checks: &[&str]) -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[]));
    let put = |history: &mut History, checks: &[&str], order: bool| {
        let usage_based_order = order.then(|| Box::new(UsageBasedOrder::default()));
        let checks =
            checks.iter().map(|check| ohm_model::AdmissionCheck { name: check.to_string(), ..Default::default() });
        let queueing_strategy = QueueingStrategy::StrictFifo;
        let admission_checks = checks.collect();
        let queue = QueueSpec {
            name: "q".into(),
            queueing_strategy,
            usage_based_order,
            admission_checks,
            ..QueueSpec::default()
        };
        history.entry(Command::PutQueue(queue), Outcome::Done, Vec::new());
    };
    put(&mut history, &[], true);
    for (at, part) in [(0, "a"), (1, "a"), (2, "b"), (3, "b")] {
        history.job(at, job(&format!("j{at}"), 1, |job| (job.queue, job.subqueue) = ("q".into(), part.into())));
    }
    history.places(0, 0, 0);
    // Neither a queue without order for a while nor one without checks tells what was reserved before.
    put(&mut history, checks, true);
    put(&mut history, &[], false);
    put(&mut history, &[], true);
    history
}

#[test]
fn parts_that_used_less_come_first_as_far_as_it_is_known() {
    assert_eq!(parts(&[]).places(1, 0, 0).broken(), ["P8", "P8"], "both of b come first: it has used nothing");
    assert!(parts(&[]).places(2, 0, 0).places(1, 0, 0).broken().is_empty());
    assert!(parts(&[]).reserve(3).places(1, 0, 0).broken().is_empty(), "what is reserved is in use, too");
    assert!(parts(&["spot"]).places(1, 0, 0).broken().is_empty(), "jobs may have reserved before");
}
