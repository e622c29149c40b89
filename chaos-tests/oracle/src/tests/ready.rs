//! P7 of ready timeouts. One entry per second.

use super::*;
use ohm_model::{ReadyTimeout, ReadyTimeoutEvent};

/// A queue that gives 20 s, and 10 s again, and has jobs wait for 30, 60 and then 100 s, three times at most.
fn queue() -> QueueSpec {
    let ready_timeout = Some(ReadyTimeout {
        timeout_seconds: 20,
        recovery_timeout_seconds: 10,
        backoff_base_seconds: 30,
        backoff_max_seconds: 100,
        backoff_limit: Some(3),
    });
    QueueSpec { name: "q".into(), ready_timeout: ready_timeout.map(Box::new), ..QueueSpec::default() }
}

/// A gang of two that was placed in second 4.
fn stands(change: impl FnOnce(&mut JobSpec)) -> History {
    let spec = job("j", 2, |job| {
        (job.queue, job.groups[0].min_count, job.groups[0].elastic) = ("q".into(), 2, false);
        change(job);
    });
    let mut history = History::default();
    history.put(queue()).job(0, spec).node(0, node("n0", &[]));
    history.happened(vec![placed(0, 0, 2, 0)]);
    history
}

fn started(task: u32) -> EventKind {
    let (job, incarnation) = (JobId::new(0, 0), Incarnation(1));
    EventKind::Started { job, group: 0, task, incarnation, node: NodeId(0) }
}

impl History {
    /// Until this second, nothing happens.
    fn idle_until(&mut self, second: u64) -> &mut Self {
        while self.index + 1 < second {
            self.happened(Vec::new());
        }
        self
    }

    /// In this second the job is stopped as not ready, for the `attempt`th time, to wait for so long.
    fn late_at(&mut self, second: u64, attempt: u32, wait_s: u64) -> &mut Self {
        let until_ms = if wait_s > 0 { (second + wait_s) * 1000 } else { 0 };
        let (job, name, queue, limit) = (JobId::new(0, 0), "j".into(), "q".into(), Some(3));
        let late = ReadyTimeoutEvent { job, name, queue, seconds: 20, attempt, limit, until_ms };
        let stops = [0, 1].map(|task| stopping(0, task, 0, StopCause::ReadyTimeout));
        let told = stops.into_iter().chain([EventKind::ReadyTimeout(late)]).collect();
        self.idle_until(second).happened(told)
    }

    fn both_end(&mut self) -> &mut Self {
        self.happened([0, 1].map(|task| ended(0, task, 0, Exit::Signal(15))).to_vec())
    }
}

#[test]
fn p7_sees_a_ready_timeout_that_comes_early() {
    assert!(stands(|_| {}).late_at(24, 1, 30).broken().is_empty());
    assert_eq!(stands(|_| {}).late_at(23, 1, 30).broken(), ["P7"]);
    let mut runs = stands(|_| {});
    assert_eq!(runs.happened(vec![started(0), started(1)]).late_at(40, 1, 30).broken(), ["P7"], "it runs");
    let mut half = stands(|_| {});
    assert!(half.happened(vec![started(0)]).late_at(24, 1, 30).broken().is_empty());
    let mut enough = stands(|job| (job.groups[0].elastic, job.groups[0].min_count) = (true, 1));
    assert_eq!(enough.happened(vec![started(0)]).late_at(24, 1, 30).broken(), ["P7"], "its minimum runs");
    let lost = |second| {
        let mut history = stands(|_| {});
        history.happened(vec![started(0), started(1)]).idle_until(30).happened(vec![ended(0, 1, 0, Exit::NodeLost)]);
        history.late_at(second, 1, 30).broken()
    };
    assert_eq!(lost(39), ["P7"]);
    assert!(lost(40).is_empty(), "it has the shorter time");
    let anew = |second| {
        let mut history = stands(|_| {});
        let mut timeout = queue().ready_timeout.unwrap();
        (timeout.timeout_seconds, timeout.recovery_timeout_seconds) = (10, 20);
        history.put(QueueSpec { ready_timeout: Some(timeout), ..queue() });
        history.happened(vec![started(0), started(1)]).idle_until(30);
        let gone = [0, 1].map(|task| ended(0, task, 0, Exit::NodeLost));
        history.happened([gone.as_slice(), &[state(0, "pending"), placed(0, 0, 2, 0)]].concat());
        history.late_at(second, 1, 30).broken()
    };
    assert_eq!(anew(39), ["P7"]);
    assert!(anew(40).is_empty(), "which of both times it has is not known");
    let mut none = stands(|_| {});
    none.put(QueueSpec { ready_timeout: None, ..queue() });
    assert_eq!(none.late_at(24, 1, 30).broken(), ["P7"], "its queue gives it no such time");
}

#[test]
fn p7_sees_a_ready_timeout_that_is_missed() {
    assert_eq!(stands(|_| {}).idle_until(37).broken(), ["P7"]);
    assert!(stands(|_| {}).idle_until(33).broken().is_empty(), "not by far");
    assert!(stands(|job| job.queue.clear()).idle_until(60).broken().is_empty());
    assert!(stands(|_| {}).happened(vec![started(0), started(1)]).idle_until(60).broken().is_empty());
    assert!(stands(|_| {}).happened(vec![state(0, "suspended")]).idle_until(60).broken().is_empty());
}

#[test]
fn p7_sees_whoever_is_placed_before_its_back_off_is_over() {
    let again = |second: u64| {
        let mut history = stands(|_| {});
        history.late_at(24, 1, 30).both_end().idle_until(second).happened(vec![placed(0, 0, 2, 0)]).broken()
    };
    assert_eq!(again(53), ["P7"]);
    assert!(again(54).is_empty());
    let mut resumed = stands(|_| {});
    resumed.late_at(24, 1, 30).both_end().happened(vec![state(0, "suspended")]).happened(vec![state(0, "pending")]);
    assert!(resumed.happened(vec![placed(0, 0, 2, 0)]).broken().is_empty(), "a person said so");
    let late = || {
        let mut history = stands(|_| {});
        history.late_at(24, 1, 30).both_end();
        history
    };
    let spec = |retries: u32| {
        job("j", 2, |job| (job.queue, job.retries, job.groups[0].elastic) = ("q".into(), retries, false))
    };
    let mut updated = late();
    updated.update(0, spec(7), Vec::new()).happened(vec![placed(0, 0, 2, 0)]);
    assert!(updated.broken().is_empty(), "it may be mended");
    assert!(updated.late_at(50, 1, 30).broken().is_empty());
    assert_eq!(updated.both_end().happened(vec![placed(0, 0, 2, 0)]).broken(), ["P7"], "it waits again");
    let mut second = late();
    second.update(0, spec(7), Vec::new()).happened(vec![placed(0, 0, 2, 0)]);
    assert_eq!(second.late_at(50, 2, 60).broken(), ["P7"], "it is the first again");
    let mut untimed = late();
    untimed.put(QueueSpec { ready_timeout: None, ..queue() }).happened(vec![placed(0, 0, 2, 0)]);
    assert!(untimed.broken().is_empty(), "its queue has nobody wait");
    let mut shorter = late();
    shorter.put(QueueSpec { max_waiting_jobs: 9, ..queue() }).happened(vec![placed(0, 0, 2, 0)]);
    assert_eq!(shorter.broken(), ["P7"], "it has still");
    let mut at_once = stands(|_| {});
    at_once.late_at(24, 1, 30).happened(vec![state(0, "suspended")]).happened(vec![state(0, "running")]).both_end();
    assert!(at_once.happened(vec![placed(0, 0, 2, 0)]).broken().is_empty(), "while it stops, too");
}

#[test]
fn p7_counts_attempts_and_how_long_each_waits() {
    let twice = |attempt, wait_s, ready: bool| {
        let mut history = stands(|_| {});
        history.late_at(24, 1, 30).both_end().idle_until(60).happened(vec![placed(0, 0, 2, 0)]);
        if ready {
            history.happened(vec![started(0), started(1)]).happened(vec![ended(0, 1, 0, Exit::NodeLost)]);
        }
        history.late_at(80, attempt, wait_s).broken()
    };
    assert!(twice(2, 60, false).is_empty());
    assert_eq!(twice(2, 30, false), ["P7"]);
    assert_eq!(twice(1, 30, false), ["P7"]);
    assert!(twice(1, 30, true).is_empty(), "it was ready meanwhile");
    assert_eq!(twice(2, 60, true), ["P7"]);
    let mut silent = stands(|_| {});
    assert_eq!(silent.idle_until(30).happened(vec![stopping(0, 0, 0, StopCause::ReadyTimeout)]).broken(), ["P7"]);
}
