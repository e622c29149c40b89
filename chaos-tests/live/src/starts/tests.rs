//! Histories in which a task was started again, with a reason and without one.

use super::*;
use crate::history::{Logged, Sign, Tape};
use crate::scenario::{Load, Pool, Stands};
use ohm_model::{Class, Entry, Event, Incarnation, Index, NodeId};
use ohm_oracle::Caused;
use ohm_runtime::recorder::{Happened, Line};
use std::sync::Arc;

fn run(incarnation: u32) -> RunRef {
    RunRef::new(JobId(7), 0, 3, incarnation)
}

/// What a process of `role` recorded of runs: beginning and end.
fn tape(role: &str, pid: u32, runs: &[(u32, u64, Option<u64>)]) -> Tape {
    let (node, mut lines) = ("node-1".to_string(), Vec::new());
    let head = Happened::Process { role: role.into(), name: node.clone(), pid, wall_ms: 1 };
    let head_ms = runs.first().map_or(1, |(_, began_ms, _)| began_ms - 1);
    lines.push(Line { at_ms: head_ms, what: head });
    for (incarnation, at_ms, over_ms) in runs {
        let run = run(*incarnation);
        let what = Happened::Began { node: node.clone(), run, keeps: false, fence_in_ms: 1 };
        lines.push(Line { at_ms: *at_ms, what });
        let over = |at_ms| Line { at_ms, what: Happened::Over { node: node.clone(), run } };
        lines.extend(over_ms.map(over));
    }
    Tape::of(lines).unwrap()
}

fn gone(pid: u32, at_ms: u64) -> Tape {
    let head = Happened::Process { role: "chaos".into(), name: "chaos".into(), pid: 1, wall_ms: 1 };
    let exited = Happened::Exited { name: "shim-1".into(), pid };
    Tape::of(vec![Line { at_ms: 1, what: head }, Line { at_ms, what: exited }]).unwrap()
}

fn ended(exit: Exit, cause: Option<StopCause>) -> EventKind {
    let (incarnation, node) = (Incarnation(1), NodeId(0));
    EventKind::Ended { job: JobId(7), group: 0, task: 3, incarnation, node, exit, cause }
}

/// The log, one entry for each event, at its moment.
fn log(kinds: Vec<(u64, EventKind)>) -> Vec<Logged> {
    let submitted = EventKind::JobSubmitted { job: JobId(7), name: "a".into() };
    let all = [vec![(0, submitted)], kinds].concat().into_iter().enumerate();
    let one = |(number, (stamp_ms, kind))| {
        let index = Index(number as u64 + 1);
        let applied = Caused { events: vec![Event { index, at_ms: stamp_ms, kind }], ..Caused::default() };
        let entry = Arc::new(Entry { stamp_ms, commands: Vec::new() });
        Logged { index, entry, applied: Arc::new(applied), chain: 1 }
    };
    all.map(one).collect()
}

/// The job `a` of one task, which writes three signs until its work is done.
fn timeline() -> Timeline {
    let (class, pool, stands) = (Class::BATCH, Pool::Real, Stands::Anywhere);
    let load = Load { jobs: 1, class, pool, per_second: 1, tasks: (4, 4), task_ms: Some(200), stands, repair: None };
    let submission = Submission { at_ms: 0, job: "a".into(), tasks: 4, load };
    Timeline { submissions: vec![vec![submission]], ..Timeline::default() }
}

fn judged(tapes: &[Tape], kinds: Vec<(u64, EventKind)>, signs: usize) -> (Starts, usize) {
    let sign = |number| Sign { run: run(1), at_ms: 100 + number as u64, node: "node-1".into() };
    let history = History::merge(tapes, &log(kinds), (0..signs).map(sign).collect());
    let (starts, findings) = Starts::of(&history, &timeline());
    assert!(findings.iter().all(|finding| finding.broken.promise == "P7"));
    (starts, findings.len())
}

#[test]
fn a_task_that_runs_once_needs_no_reason() {
    let (starts, found) =
        judged(&[tape("shim", 11, &[(1, 100, Some(300))])], vec![(310, ended(Exit::Code(0), None))], 3);
    assert_eq!((starts.tasks, starts.starts, starts.most_of_one, found), (1, 1, 1, 0));
}

#[test]
fn a_second_start_needs_a_loss_or_a_stop() {
    let twice = |exit, cause| {
        judged(&[tape("shim", 11, &[(1, 100, Some(300)), (2, 400, None)])], vec![(310, ended(exit, cause))], 1)
    };
    for (exit, cause, reasons) in [
        (Exit::Code(0), None, (0, 0, 1)),
        (Exit::Signal(9), None, (0, 0, 1)),
        (Exit::LeaseExpired, None, (1, 0, 0)),
        (Exit::Signal(15), Some(StopCause::Moved), (0, 1, 0)),
        (Exit::Vanished, None, (0, 0, 1)),
        (Exit::NodeLost, None, (0, 0, 1)),
    ] {
        let (starts, found) = twice(exit, cause);
        assert_eq!((starts.after_losses, starts.after_stops, starts.without_reason), reasons, "{exit}");
        assert_eq!((starts.starts, starts.most_of_one, found), (2, 2, reasons.2), "{exit}");
    }
}

#[test]
fn a_node_is_lost_when_the_log_says_so_between_the_two_runs() {
    let lost = |at_ms| {
        let kind = EventKind::NodeHealth { node: NodeId(0), name: "node-1".into(), health: NodeHealth::Lost };
        let tapes = [tape("shim", 11, &[(1, 100, Some(300))]), tape("shim", 12, &[(2, 400, None)])];
        judged(&tapes, vec![(at_ms, kind), (390, ended(Exit::NodeLost, None))], 3)
    };
    assert_eq!((lost(350).1, lost(350).0.done_and_lost), (0, 1), "it had done all of its work");
    assert_eq!((lost(50).1, lost(50).0.done_again), (1, 1));
}

#[test]
fn what_a_shim_wrote_down_is_not_lost_with_it() {
    let vanished = |role, over_ms, gone_ms: Option<u64>| {
        let tapes = [tape(role, 11, &[(1, 100, over_ms)]), tape(role, 12, &[(2, 9_000, None)])];
        let gone = gone_ms.map(|gone_ms| gone(11, gone_ms));
        judged(&[&tapes[..], gone.as_slice()].concat(), vec![(8_000, ended(Exit::Vanished, None))], 3)
    };
    assert_eq!(vanished("shim", None, Some(300)).1, 0, "killed with its shim");
    assert_eq!(vanished("shim", Some(300), Some(310)).1, 0, "the shim had no time to write it down");
    let (starts, found) = vanished("shim", Some(300), Some(5_000));
    assert_eq!((starts.done_again, found), (1, 1));
    assert_eq!(vanished("shim", Some(300), None).1, 0, "another one came after it, and this was its last word");
    let later = [(1, 100, Some(300)), (4, 2_000, Some(2_100))];
    let tapes = [tape("shim", 11, &later), tape("shim", 12, &[(2, 9_000, None)])];
    assert!(judged(&tapes, vec![(8_000, ended(Exit::Vanished, None))], 3).1 > 0, "it wrote on long after that");
    let tapes = [tape("shim", 11, &[(1, 100, Some(300)), (2, 9_000, None)])];
    assert_eq!(judged(&tapes, vec![(8_000, ended(Exit::Vanished, None))], 3).1, 1, "the shim lives");
    assert_eq!(vanished("fleet", Some(300), Some(5_000)).1, 0, "simulated nodes write nothing down");
}
