//! Probed runs of an agent: what is told of them, and how they end.

use super::*;
use ohm_model::{Probe, ProbeAction, Probes, SimHealth};

fn probe(period_seconds: u32, failure_threshold: u32) -> Option<Probe> {
    let action = ProbeAction::TcpSocket { port: 80, host: String::new() };
    Some(Probe { period_seconds, failure_threshold, ..Probe::of(action) })
}

/// A run with these probes, which is to be started.
fn probed(task: u32, probes: Probes) -> WantedRun {
    let mut wanted = wanted(task, 0);
    let mut launch = Launch::clone(wanted.launch.as_ref().unwrap());
    launch.task.probes = Some(Box::new(probes));
    wanted.launch = Some(Arc::new(launch));
    wanted
}

/// The same as a set shows it once it was started.
fn shown(task: u32, probes: &Probes, ready: bool) -> WantedRun {
    WantedRun { started: true, probes: Some(Arc::new(probes.clone())), ready, launch: None, ..wanted(task, 0) }
}

/// What is said of readiness, with the numbers of the words.
fn words(reports: &[RunReport]) -> Vec<(bool, u64)> {
    let word = |report: &RunReport| match report.kind {
        RunReportKind::Ready { ready, number, .. } => Some((ready, number)),
        _ => None,
    };
    reports.iter().filter_map(word).collect()
}

/// Lets time pass with beats answered and reports accepted at this index and above; gives what was reported.
fn live(node: &mut Node, seconds: u64, index: &mut u64) -> Vec<RunReport> {
    let mut reports = Vec::new();
    for _ in 0..seconds * 4 {
        node.pass(250);
        let sent = std::mem::take(&mut node.sent);
        for effect in &sent {
            if let AgentEffect::SendReports { batch, reports: some, .. } = effect {
                *index += 1;
                reports.extend(some.clone());
                node.tell(AgentInput::ReportsAccepted { batch: *batch, index: Index(*index) });
            }
        }
        if let Some(AgentEffect::Beat { incarnation, sequence, .. }) =
            sent.iter().rev().find(|effect| matches!(effect, AgentEffect::Beat { .. }))
        {
            let (incarnation, sequence) = (*incarnation, *sequence);
            let answer =
                BeatAnswer { incarnation, duty_epoch: Epoch(1), sequence, lease_ms: LEASE_MS, interval_ms: 1000 };
            node.tell(AgentInput::BeatAnswer(answer));
        }
    }
    reports
}

#[test]
fn only_changes_of_readiness_are_told_each_with_a_higher_number() {
    let sim =
        SimHealth { ready_after_ms: 2_500, unready_after_ms: 8_500, unready_for_ms: 4_000, ..SimHealth::default() };
    let probes = Probes { readiness: probe(1, 2), sim, ..Probes::default() };
    let (mut node, mut index) = (Node::ready(), 10);
    node.want(1, 10, vec![probed(0, probes)]);
    let reports = live(&mut node, 30, &mut index);
    assert_eq!(reports[0], started(0));
    let words = words(&reports);
    // Not yet, ready, not any more, and ready again.
    assert_eq!(words.iter().map(|(ready, _)| *ready).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(words.is_sorted_by(|one, next| one.1 < next.1) && words[0].1 >> 32 == 1, "{words:?}");
}

#[test]
fn an_agent_that_comes_back_probes_on_and_tells_nothing_that_is_known() {
    let sim = SimHealth { unready_after_ms: 20_000, ..SimHealth::default() };
    let probes = Probes { startup: probe(1, 3), readiness: probe(1, 3), sim, ..Probes::default() };
    let (mut node, mut index) = (Node::ready(), 10);
    node.want(1, 10, vec![probed(0, probes.clone())]);
    assert_eq!(words(&live(&mut node, 5, &mut index)).len(), 1);
    node.restart_agent(7);
    node.register(2);
    node.answer_beat(2, 1);
    index += 1;
    node.want(2, index, vec![shown(0, &probes, true)]);
    assert_eq!(words(&live(&mut node, 10, &mut index)), [], "it is as ready as the cell says");
    let said = words(&live(&mut node, 10, &mut index));
    assert_eq!(said, [(false, (2 << 32) + 1)], "a word under the later registration has the higher number");
    // What the cell does not show although it should is told again.
    index += 1;
    node.want(2, index, vec![shown(0, &probes, true)]);
    assert_eq!(words(&live(&mut node, 1, &mut index)), [(false, (2 << 32) + 2)]);
    index += 1;
    node.want(2, index, vec![shown(0, &probes, false)]);
    assert_eq!(words(&live(&mut node, 5, &mut index)), []);
}

#[test]
fn what_fails_its_liveness_probe_is_stopped_with_the_grace_of_the_probe() {
    let sim = SimHealth { unhealthy_after_ms: 3_500, ..SimHealth::default() };
    let liveness = probe(1, 2).map(|probe| Probe { grace_ms: Some(7), ..probe });
    let (mut node, mut index) = (Node::ready(), 10);
    node.want(1, 10, vec![probed(0, Probes { liveness, sim, ..Probes::default() }), wanted(1, 0)]);
    let reports = live(&mut node, 10, &mut index);
    assert_eq!(reports[..2], [started(0), started(1)]);
    let RunReportKind::Ended { exit: Exit::Unhealthy, message } = &reports[2].kind else { panic!("{reports:?}") };
    assert!(message.starts_with("livenessProbe failed 2 times: "), "{message}");
    assert_eq!((reports.len(), node.stops.clone(), node.live()), (3, vec![7], vec![run(1)]));
}

#[test]
fn what_ends_for_another_reason_is_not_called_unhealthy() {
    let sim = SimHealth { ready_after_ms: 60_000, ..SimHealth::default() };
    let startup = probe(1, 3).map(|probe| Probe { grace_ms: Some(5_000), ..probe });
    let (mut node, mut index) = (Node::ready(), 10);
    node.want(1, 10, vec![probed(0, Probes { startup, sim, ..Probes::default() })]);
    assert_eq!(live(&mut node, 1, &mut index), [started(0)]);
    // The cell stops it first; the probe has nothing to say any more.
    index += 1;
    node.want(1, index, vec![WantedRun { stop: true, started: true, launch: None, ..wanted(0, 0) }]);
    let reports = live(&mut node, 5, &mut index);
    assert_eq!(reports, [ended(0, Exit::Signal(15))]);
}
