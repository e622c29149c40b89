//! P7 of probes.

use super::*;
use ohm_model::{Probe, ProbeAction, Probes, ReadinessEvent, RunReport, RunReportKind, SimHealth};

fn probe() -> Option<Probe> {
    Some(Probe::of(ProbeAction::TcpSocket { port: 80, host: String::new() }))
}

fn probed(probes: Probes) -> JobSpec {
    job("web", 2, |job| job.groups[0].task.probes = Some(Box::new(probes)))
}

/// A job with a readiness probe whose task 0 runs on node 0.
fn running() -> History {
    let mut history = History::default();
    history.node(0, node("n0", &[])).node(1, node("n1", &[]));
    history.job(0, probed(Probes { readiness: probe(), ..Probes::default() }));
    history.happened(vec![placed(0, 0, 1, 0), started(0)]);
    history
}

fn run(task: u32) -> RunRef {
    RunRef::new(JobId::new(0, 0), 0, task, 1)
}

fn started(task: u32) -> EventKind {
    let RunRef { task: of, incarnation } = run(task);
    EventKind::Started { job: of.job, group: 0, task, incarnation, node: NodeId(0) }
}

fn told(task: u32, ready: bool) -> EventKind {
    let RunRef { task: of, incarnation } = run(task);
    let (node, message) = (NodeId(0), String::new());
    EventKind::Readiness(ReadinessEvent { job: of.job, group: 0, task, incarnation, node, ready, message })
}

fn says(history: &mut History, node: u32, words: &[(u64, bool)], kinds: Vec<EventKind>) {
    let report = |&(number, ready): &(u64, bool)| RunReport {
        run: run(0),
        kind: RunReportKind::Ready { ready, number, message: String::new() },
    };
    let command = Command::Report { node: NodeId(node), reports: words.iter().map(report).collect() };
    history.entry(command, Outcome::Done, kinds);
}

#[test]
fn what_is_ready_was_said_to_be_so_last() {
    let check = |node, words: &[(u64, bool)], kinds: Vec<EventKind>, expected: &[&str]| {
        let mut history = running();
        says(&mut history, node, words, kinds);
        assert_eq!(history.broken(), expected, "{words:?} of {node}");
    };
    check(0, &[(1, true)], vec![told(0, true)], &[]);
    check(0, &[(1, true)], vec![], &["P7"]);
    check(0, &[(1, true), (2, false)], vec![told(0, true), told(0, false)], &[]);
    check(0, &[(1, true), (2, false)], vec![told(0, true)], &["P7"]);
    // A word that comes late says nothing, nor does one of another node.
    check(0, &[(2, false), (1, true)], vec![], &[]);
    check(0, &[(2, false), (1, true)], vec![told(0, true)], &["P7"]);
    check(1, &[(1, true)], vec![], &[]);
    // Nobody is told of what does not run.
    check(0, &[], vec![told(1, true)], &["P7"]);
}

#[test]
fn nothing_is_ended_by_a_probe_that_it_does_not_have() {
    assert_eq!(running().happened(vec![ended(0, 0, 0, Exit::Unhealthy)]).broken(), ["P7"]);
    assert_eq!(running().happened(vec![ended(0, 0, 0, Exit::Code(1))]).broken(), [] as [&str; 0]);
}

#[test]
fn what_a_probe_ends_may_start_again_in_place() {
    let restarted = |exit, probes, node| {
        let mut history = History::default();
        history.node(0, node_of("n0")).node(1, node_of("n1")).job(0, probed(probes));
        history.happened(vec![placed(0, 0, 1, 0), started(0)]);
        let EventKind::Ended { job, group, task, incarnation, node: from, .. } = ended(0, 0, 0, exit) else {
            unreachable!("an end")
        };
        let cause = Some(StopCause::Restarted);
        let end = EventKind::Ended { job, group, task, incarnation, node: from, exit, cause };
        history.happened(vec![end, placed(0, 0, 1, node)]).broken()
    };
    let liveness = || Probes { liveness: probe(), ..Probes::default() };
    assert_eq!(restarted(Exit::Unhealthy, liveness(), 0), [] as [&str; 0]);
    assert!(restarted(Exit::Unhealthy, liveness(), 1).contains(&"P7"), "it moves");
    assert!(restarted(Exit::Code(1), liveness(), 0).contains(&"P7"), "nobody asked for that");
}

fn node_of(name: &str) -> NodeSpec {
    node(name, &[])
}

#[test]
fn what_fails_its_liveness_probe_does_not_live_on() {
    let lives_on = |unhealthy_after_ms, until_ms| {
        let sim = SimHealth { unhealthy_after_ms, ..SimHealth::default() };
        let mut history = History::default();
        history.node(0, node_of("n0")).job(0, probed(Probes { liveness: probe(), sim, ..Probes::default() }));
        history.happened(vec![placed(0, 0, 1, 0), started(0)]);
        let began = Record::Began { at_ms: 1_000, node: "n0".into(), run: run(0), keeps: false, fence_in_ms: u64::MAX };
        history.oracle.watch(&began);
        history.oracle.watch(&Record::Over { at_ms: until_ms, node: "n0".into(), run: run(1) });
        history.broken()
    };
    assert_eq!(lives_on(5_000, 70_000), [] as [&str; 0]);
    assert_eq!(lives_on(5_000, 80_000), ["P7"]);
    assert_eq!(lives_on(0, 80_000), [] as [&str; 0]);
}
