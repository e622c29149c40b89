//! P8 and P10 of queues that are held.

use super::p10::told_nothing;
use super::*;
use crate::{KeptBack, Reason};
use ohm_model::{QueueStopEvent, QueueingStrategy, StopPolicy};

/// Two nodes, and a job of up to four tasks in queue `q`, of which two were placed.
fn stands() -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[])).node(1, node("n1", &[]));
    history.put(held(StopPolicy::None)).job(0, in_queue("first", 4));
    history.happened(vec![placed(0, 0, 2, 0)]);
    history
}

fn in_queue(name: &str, count: u32) -> JobSpec {
    job(name, count, |job| job.queue = "q".into())
}

fn held(stop_policy: StopPolicy) -> QueueSpec {
    QueueSpec { name: "q".into(), stop_policy, ..QueueSpec::default() }
}

#[test]
fn nothing_of_a_held_queue_starts() {
    let with = |policy: StopPolicy| {
        let mut history = stands();
        history.job(1, in_queue("second", 1)).job(2, job("beside", 1, |_| {})).put(held(policy));
        history
    };
    assert_eq!(with(StopPolicy::Hold).places(1, 0, 1).broken(), ["P8"]);
    assert!(with(StopPolicy::Hold).places(2, 0, 1).broken().is_empty(), "it is of no queue");
    assert!(with(StopPolicy::None).places(1, 0, 1).broken().is_empty());
    let mut lifted = with(StopPolicy::Hold);
    assert!(lifted.put(held(StopPolicy::None)).places(1, 0, 1).broken().is_empty());
    let mut reserved = stands();
    reserved.job(1, in_queue("second", 1)).reserve(1).put(held(StopPolicy::Hold));
    assert!(reserved.places(1, 0, 1).broken().is_empty(), "its quota may be its own");
}

#[test]
fn what_stands_goes_on_and_does_not_grow() {
    let held = || {
        let mut history = stands();
        history.put(held(StopPolicy::Hold));
        history
    };
    let ends = |tasks: &[u32]| tasks.iter().map(|task| ended(0, *task, 0, Exit::NodeLost)).collect::<Vec<_>>();
    assert_eq!(held().places(0, 2, 1).broken(), ["P8"], "a task that never stood");
    assert!(held().happened(ends(&[1])).places(0, 1, 1).broken().is_empty(), "a repair");
    assert_eq!(held().happened(ends(&[0, 1])).places(0, 1, 1).broken(), ["P8"], "nothing stands any more");
}

#[test]
fn a_queue_is_drained_at_once() {
    let drained = |stops: &[u32]| {
        let mut history = stands();
        let stops = stops.iter().map(|task| stopping(0, *task, 0, StopCause::QueueHeld)).collect();
        history.entry(Command::PutQueue(held(StopPolicy::HoldAndDrain)), Outcome::Done, stops);
        history
    };
    assert!(drained(&[0, 1]).broken().is_empty());
    assert_eq!(drained(&[0]).broken(), ["P8"]);
    assert_eq!(drained(&[0, 1]).happened(vec![ended(0, 1, 0, Exit::Signal(15))]).places(0, 1, 1).broken(), ["P8"]);
}

#[test]
fn what_a_held_queue_keeps_back_is_not_stuck() {
    let stuck = |policy: StopPolicy, standing: bool, lost: bool| {
        let mut history = History::default();
        history.node(0, node("n0", &[])).node(1, node("n1", &[])).put(held(StopPolicy::None));
        history.job(0, in_queue("j", 4));
        if standing {
            history.happened(vec![placed(0, 0, 2, 0)]);
        }
        if lost {
            history.happened(vec![ended(0, 1, 0, Exit::NodeLost)]);
        }
        history.put(held(policy)).oracle.stuck_jobs().len()
    };
    assert_eq!([stuck(StopPolicy::None, false, false), stuck(StopPolicy::None, true, false)], [1, 1]);
    assert_eq!([stuck(StopPolicy::Hold, false, false), stuck(StopPolicy::Hold, true, false)], [0, 0]);
    assert_eq!(stuck(StopPolicy::Hold, true, true), 1, "what it lost is placed again");
    assert_eq!(stuck(StopPolicy::HoldAndDrain, true, true), 0);
}

#[test]
fn what_was_reserved_is_taken_back_with_the_queue() {
    let stuck = |stopped: bool| {
        let mut history = History::default();
        let cpu = |cpu: i64| QueueSpec { nominal: [("cpu".to_string(), cpu)].into(), ..held(StopPolicy::None) };
        history.node(0, node("n0", &[])).put(cpu(4000)).job(0, in_queue("j", 4)).reserve(0);
        let (queue, policy) = ("q".to_string(), StopPolicy::Hold);
        let stop = QueueStopEvent { job: JobId::new(0, 0), name: "j".into(), queue, policy, stopped: false };
        let stops = if stopped { vec![EventKind::QueueStop(stop)] } else { Vec::new() };
        history.happened(stops).put(cpu(0)).oracle.stuck_jobs().len()
    };
    assert_eq!(stuck(false), 1, "its quota is reserved");
    assert_eq!(stuck(true), 0, "and now there is none");
}

#[test]
fn who_is_told_that_its_queue_keeps_it_back_is_told_the_truth() {
    let is_told = |queue: QueueSpec, kept_back: KeptBack| {
        let mut history = History::default();
        history.node(0, node("n0", &[])).put(queue).job(0, in_queue("first", 1)).job(1, in_queue("second", 1));
        let reason = Reason { kept_back: Some(kept_back), ..told_nothing() };
        history.oracle.judge_reason(JobId::new(1, 0), &reason).is_none()
    };
    let by_policy = |policy| is_told(held(policy), KeptBack::Held(StopPolicy::Hold));
    let all = [StopPolicy::None, StopPolicy::Hold, StopPolicy::HoldAndDrain];
    assert_eq!(all.map(by_policy), [false, true, false]);
    let behind = |queueing_strategy, job: u32| {
        is_told(QueueSpec { queueing_strategy, ..held(StopPolicy::None) }, KeptBack::Behind(JobId::new(job, 0)))
    };
    assert!(behind(QueueingStrategy::StrictFifo, 0));
    assert!(!behind(QueueingStrategy::StrictFifo, 1), "it does not wait for itself");
    assert!(!behind(QueueingStrategy::BestEffortFifo, 0));
}
