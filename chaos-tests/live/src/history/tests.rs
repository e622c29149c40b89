//! The verdict must be able to fail: recorded histories with a planted break, and the same without it.

use super::*;
use crate::scenario::{Expectation, Load, Pool, Stands};
use crate::timeline::{Submission, Timeline};
use crate::verdict::{self, Finding, expected};
use ohm_model::{Class, Event, EventKind, Incarnation, JobId, NodeHealth, NodeId};

fn line(at_ms: u64, what: Happened) -> Line {
    Line { at_ms, what }
}

fn tape(role: &str, name: &str, pid: u32, lines: Vec<Line>) -> Tape {
    let (role, name) = (role.to_string(), name.to_string());
    let head = line(1, Happened::Process { role, name, pid, wall_ms: 1_000_001 });
    Tape::of([vec![head], lines].concat()).unwrap()
}

fn run(incarnation: u32) -> RunRef {
    RunRef::new(JobId(7), 0, 3, incarnation)
}

fn began(at_ms: u64, node: &str, incarnation: u32) -> Line {
    line(at_ms, Happened::Began { node: node.into(), run: run(incarnation), keeps: false, fence_in_ms: 1 })
}

fn over(at_ms: u64, node: &str, incarnation: u32) -> Line {
    line(at_ms, Happened::Over { node: node.into(), run: run(incarnation) })
}

fn promises(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.broken.promise).collect()
}

fn judge(history: &History, expectations: &[Expectation]) -> Vec<Finding> {
    verdict::judge(history, &Timeline::default(), expectations)
}

fn judged(tapes: &[Tape], signs: Vec<Sign>) -> Vec<Finding> {
    judge(&History::merge(tapes, &[], signs), &[])
}

#[test]
fn a_task_that_runs_twice_at_once_is_seen_across_the_files_of_two_nodes() {
    let second = tape("shim", "node-2", 12, vec![began(500, "node-2", 2)]);
    let early = tape("shim", "node-1", 11, vec![began(100, "node-1", 1), over(499, "node-1", 1)]);
    assert!(judged(&[second.clone(), early], Vec::new()).is_empty());
    let same = tape("shim", "node-1", 11, vec![began(100, "node-1", 1), over(500, "node-1", 1)]);
    assert!(judged(&[second.clone(), same], Vec::new()).is_empty(), "ends come first");
    let none = tape("shim", "node-1", 11, vec![began(500, "node-1", 1), over(500, "node-1", 1)]);
    assert!(judged(&[second.clone(), none], Vec::new()).is_empty(), "but not before their own beginning");
    let late = tape("shim", "node-1", 11, vec![began(100, "node-1", 1), over(501, "node-1", 1)]);
    let findings = judged(&[second, late], Vec::new());
    assert_eq!(promises(&findings), ["P2"]);
    assert!(findings[0].before.iter().any(|line| line.contains("begins on node-1")), "{findings:?}");
}

#[test]
fn what_a_killed_process_ran_is_over_when_it_ended() {
    let lost = tape("fleet", "fleet", 11, vec![began(100, "sim-1", 1)]);
    let next = tape("fleet", "fleet", 12, vec![began(500, "sim-2", 2)]);
    assert_eq!(promises(&judged(&[lost.clone(), next.clone()], Vec::new())), ["P2"]);
    let exited =
        |at_ms| tape("chaos", "chaos", 1, vec![line(at_ms, Happened::Exited { name: "fleet".into(), pid: 11 })]);
    assert!(judged(&[exited(300), lost.clone(), next.clone()], Vec::new()).is_empty());
    assert_eq!(promises(&judged(&[exited(501), lost, next], Vec::new())), ["P2"]);
}

#[test]
fn a_task_that_writes_after_its_end_or_without_a_beginning_is_seen() {
    let shim = tape("shim", "node-1", 11, vec![began(100, "node-1", 1), over(400, "node-1", 1)]);
    let sign = |at_ms, incarnation| Sign { run: run(incarnation), at_ms, node: "node-1".into() };
    assert!(judged(std::slice::from_ref(&shim), vec![sign(100, 1), sign(400, 1)]).is_empty());
    assert_eq!(promises(&judged(std::slice::from_ref(&shim), vec![sign(410, 1), sign(420, 1)])), ["P2"], "said once");
    assert_eq!(promises(&judged(&[shim], vec![sign(200, 2)])), ["P2"]);
}

/// A log whose only entry submits a job, applied by two copies.
fn log(job: &str, chain: u64) -> Vec<Logged> {
    let kind = EventKind::JobSubmitted { job: JobId(7), name: job.into() };
    let applied = Caused { events: vec![Event { index: Index(1), at_ms: 0, kind }], ..Caused::default() };
    let entry = Entry { stamp_ms: 1_000_050, commands: Vec::new() };
    vec![Logged { index: Index(1), entry: Arc::new(entry), applied: Arc::new(applied), chain }]
}

#[test]
fn an_acknowledged_job_that_the_log_does_not_hold_is_seen() {
    let client = tape("client", "clients", 20, vec![line(60, Happened::Acknowledged { job: "a".into() })]);
    let kept = History::merge(std::slice::from_ref(&client), &log("a", 9), Vec::new());
    assert!(judge(&kept, &[]).is_empty());
    let lost = History::merge(&[client], &log("b", 9), Vec::new());
    assert_eq!(promises(&judge(&lost, &[])), ["P3"]);
}

#[test]
fn a_copy_that_differs_is_seen_and_the_log_is_judged_all_the_same() {
    let copied = |chain| line(3, Happened::Copied { index: Index(1), chain });
    let client = line(60, Happened::Acknowledged { job: "a".into() });
    let tapes = |chain| [tape("follower", "batch-1", 30, vec![copied(chain), client.clone()])];
    assert!(judge(&History::merge(&tapes(9), &log("a", 9), Vec::new()), &[]).is_empty());
    assert_eq!(promises(&judge(&History::merge(&tapes(8), &log("a", 9), Vec::new()), &[])), ["P9"]);
}

#[test]
fn the_log_stands_at_its_moment_between_the_others() {
    let server = tape("server", "server", 2, Vec::new());
    let shim = tape("shim", "node-1", 11, vec![began(49, "node-1", 1), over(51, "node-1", 1)]);
    let history = History::merge(&[server, shim], &log("a", 9), Vec::new());
    assert!(matches!(history.records[1], Record::Applied { at_ms: 50, .. }), "{:?}", history.records);
}

#[test]
fn expectations_are_judged_from_the_log() {
    let mut log = log("a", 9);
    let expected = [Expectation::Lost("node-1".into()), Expectation::NoneLost];
    let history = History::merge(&[], &log, Vec::new());
    assert_eq!(judge(&history, &expected).len(), 1, "it was not lost");
    let kind = EventKind::NodeHealth { node: NodeId(0), name: "node-1".into(), health: NodeHealth::Lost };
    let applied = Caused { events: vec![Event { index: Index(2), at_ms: 0, kind }], ..Caused::default() };
    log.push(Logged { index: Index(2), applied: Arc::new(applied), ..log[0].clone() });
    let findings = judge(&History::merge(&[], &log, Vec::new()), &expected);
    assert_eq!(findings[0].broken.what, "declared lost: node-1");
    assert_eq!(findings.len(), 1);
    let shim = |incarnation| tape("shim", "node-1", 11, vec![began(49, "node-1", incarnation)]);
    let judged = |incarnation| {
        judge(&History::merge(&[shim(incarnation)], &[], Vec::new()), &[Expectation::NoneStartedAgain]).len()
    };
    assert_eq!((judged(1), judged(2)), (0, 1));
}

#[test]
fn a_run_that_nobody_recorded_is_seen() {
    let (job, node, incarnation) = (JobId(7), NodeId(0), Incarnation(1));
    let kind = EventKind::Started { job, group: 0, task: 3, incarnation, node };
    let applied = Caused { events: vec![Event { index: Index(1), at_ms: 0, kind }], ..Caused::default() };
    let log = [Logged { applied: Arc::new(applied), ..log("a", 9)[0].clone() }];
    let fleet = |run| tape("fleet", "fleet", 11, vec![began(10, "sim-1", run)]);
    assert!(judge(&History::merge(&[fleet(1)], &log, Vec::new()), &[]).is_empty());
    assert_eq!(promises(&judge(&History::merge(&[fleet(2)], &log, Vec::new()), &[])), ["evidence"]);
}

#[test]
fn what_is_to_break_must_break() {
    let wanted = [Expectation::Broken("P2".into()), Expectation::NoneLost];
    let finding = |promise| Finding::alone(promise, String::new());
    let (hits, rest) = expected(&wanted, vec![finding("P2"), finding("P3")]);
    assert_eq!((promises(&hits), promises(&rest)), (vec!["P2"], vec!["P3"]));
    let (hits, rest) = expected(&wanted, Vec::new());
    assert_eq!((promises(&hits), promises(&rest)), (vec![], vec!["expectation"]));
}

#[test]
fn a_job_that_succeeded_did_all_of_its_work() {
    let (class, pool, stands) = (Class::BATCH, Pool::Real, Stands::Anywhere);
    let load = Load { jobs: 1, class, pool, per_second: 1, tasks: (4, 4), task_ms: Some(200), stands, repair: None };
    let timeline = |tasks| {
        let submission = Submission { at_ms: 0, job: "a".into(), tasks, load: load.clone() };
        Timeline { submissions: vec![vec![submission]], ..Timeline::default() }
    };
    let mut log = log("a", 9);
    let state = "succeeded".to_string();
    let kind = EventKind::JobState { job: JobId(7), name: "a".into(), state, reason: String::new() };
    let applied = Caused { events: vec![Event { index: Index(2), at_ms: 0, kind }], ..Caused::default() };
    log.push(Logged { index: Index(2), applied: Arc::new(applied), ..log[0].clone() });
    let run = |task, incarnation| RunRef::new(JobId(7), 0, task, incarnation);
    let sign = |run| Sign { run, at_ms: 50, node: "node-1".into() };
    let began = |run| line(1, Happened::Began { node: "node-1".into(), run, keeps: true, fence_in_ms: 1 });
    let over = |run| line(60, Happened::Over { node: "node-1".into(), run });
    let runs = [run(0, 1), run(0, 2), run(1, 1)];
    let lines = runs.into_iter().map(began).chain(runs.into_iter().map(over));
    let shim = tape("shim", "node-1", 11, lines.collect());
    let found = |tasks, signs: &[RunRef]| {
        let signs = signs.iter().map(|run| sign(*run)).collect();
        promises(&verdict::judge(&History::merge(std::slice::from_ref(&shim), &log, signs), &timeline(tasks), &[]))
    };
    assert_eq!(found(1, &[run(0, 1), run(0, 1), run(0, 1)]), [""; 0]);
    assert_eq!(found(1, &[run(0, 1), run(0, 1)]), ["P3"]);
    assert_eq!(found(1, &[run(0, 1), run(0, 1), run(0, 2)]), ["P3"], "two halves are no whole");
    assert_eq!(found(2, &[run(0, 1), run(0, 1), run(0, 1)]), ["P3"], "a task that never wrote");
}
