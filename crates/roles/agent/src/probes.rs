//! The probes of one run: when each is due, what their results decide, and what the cell is to know of it.
//!
//! ```text
//!            startupProbe succeeds                 readinessProbe, successThreshold in a row
//!  starting ──────────────────────▶ not ready ◀──────────────────────────────────────────────▶ ready
//!     │ failureThreshold in a row       │          failureThreshold in a row                     │
//!     └────────────▶ unhealthy ◀────────┴──────── livenessProbe, failureThreshold in a row ──────┘
//! ```
//! Without a readiness probe what has started is ready; without both of them nothing is told of readiness. Unhealthy is
//! for ever: the run is stopped.

use ohm_model::{Index, MESSAGE_CHARS_MAX, Probe, ProbeKind, Probes, RunRef, RunReportKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How long a result is waited for beyond its time-out: the runner may have many to do. One that is lost decides
/// nothing, and the probe is sent again.
const LOST_AFTER_MS: u64 = 30_000;
/// A startup probe that failed so often in a row is told of, although more failures are allowed.
const FAILURES_TOLD: u32 = 3;

/// Probe this run now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOrder {
    /// The run.
    pub run: RunRef,
    /// Comes back with the result.
    pub number: u64,
    /// Which of the probes.
    pub kind: ProbeKind,
    /// All of them.
    pub probes: Arc<Probes>,
}

impl ProbeOrder {
    /// What is to be done.
    pub fn probe(&self) -> Option<&Probe> {
        self.probes.get(self.kind)
    }
}

/// What came of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeResult {
    /// It succeeded.
    Success,
    /// It failed; why, for people.
    Failure(String),
    /// The node could not probe; it decides nothing.
    Unknown(String),
}

/// How far the cell knows of what there is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    Underway,
    /// Accepted by this entry: a set that takes it into account must show it.
    Accepted(Index),
}

/// One of the probes.
#[derive(Clone, Copy, Debug)]
struct Line {
    due_ms: u64,
    /// The order whose result is waited for, and until when.
    under_way: Option<(u64, u64)>,
    successes: u32,
    failures: u32,
}

/// The probes of one run that runs.
#[derive(Clone, Debug)]
pub(crate) struct Probing {
    probes: Arc<Probes>,
    lines: [Line; 3],
    /// The startup probe has succeeded, or there is none.
    has_started: bool,
    ready: bool,
    /// Why it is not ready; empty before anything has failed often enough.
    message: String,
    told: Told,
    /// The probe that ends the run, and why.
    unhealthy: Option<(ProbeKind, String)>,
    /// Its place among the times of its node.
    pub(crate) planned_ms: Option<u64>,
}

fn place(kind: ProbeKind) -> usize {
    match kind {
        ProbeKind::Startup => 0,
        ProbeKind::Readiness => 1,
        ProbeKind::Liveness => 2,
    }
}

fn millis(seconds: u32) -> u64 {
    u64::from(seconds) * 1000
}

impl Probing {
    /// The probes of a run that was started at `started_ms`. The cell counts it as `ready`, as an earlier agent process
    /// may have told it: such a run has started.
    pub(crate) fn new(probes: Arc<Probes>, started_ms: u64, ready: bool) -> Self {
        let line = |kind| {
            let delay_ms = probes.get(kind).map_or(0, |probe| millis(probe.initial_delay_seconds));
            Line { due_ms: started_ms.saturating_add(delay_ms), under_way: None, successes: 0, failures: 0 }
        };
        let gates = probes.gates_readiness();
        Probing {
            lines: ProbeKind::ALL.map(line),
            has_started: probes.startup.is_none() || ready,
            ready: ready || !gates,
            message: String::new(),
            told: Told::Accepted(Index(0)),
            unhealthy: None,
            planned_ms: None,
            probes,
        }
    }

    /// The probes that have their turn, each with its place.
    fn turns(&self) -> impl Iterator<Item = (ProbeKind, &Probe)> {
        let has_turn = |kind: &ProbeKind| self.has_started != (*kind == ProbeKind::Startup);
        let kinds = ProbeKind::ALL.into_iter().filter(has_turn).filter(|_| self.unhealthy.is_none());
        kinds.filter_map(|kind| Some((kind, self.probes.get(kind)?)))
    }

    /// When something is to be done by itself.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let due_ms = |kind| {
            let line = &self.lines[place(kind)];
            line.under_way.map_or(line.due_ms, |(_, lost_ms)| lost_ms)
        };
        self.turns().map(|(kind, _)| due_ms(kind)).min()
    }

    /// The probes to send at `now_ms`. Orders are numbered on from `number`.
    pub(crate) fn send(&mut self, now_ms: u64, run: RunRef, number: &mut u64) -> Vec<ProbeOrder> {
        let turns: Vec<(ProbeKind, u64, u64)> = self
            .turns()
            .map(|(kind, probe)| (kind, millis(probe.timeout_seconds), millis(probe.period_seconds)))
            .collect();
        let mut orders = Vec::new();
        for (kind, timeout_ms, period_ms) in turns {
            let line = &mut self.lines[place(kind)];
            if line.under_way.map_or(line.due_ms, |(_, lost_ms)| lost_ms) > now_ms {
                continue;
            }
            *number += 1;
            line.under_way = Some((*number, now_ms.saturating_add(timeout_ms).saturating_add(LOST_AFTER_MS)));
            line.due_ms = now_ms.saturating_add(period_ms);
            orders.push(ProbeOrder { run, number: *number, kind, probes: Arc::clone(&self.probes) });
        }
        orders
    }

    /// Takes the result of an order; of one that is not waited for any more it is nobody's.
    pub(crate) fn take(&mut self, kind: ProbeKind, number: u64, result: ProbeResult) {
        let line = &mut self.lines[place(kind)];
        if line.under_way.is_none_or(|(waited_for, _)| waited_for != number) {
            return;
        }
        line.under_way = None;
        let (Some(probe), None) = (self.probes.get(kind), &self.unhealthy) else { return };
        match result {
            ProbeResult::Success => {
                (line.successes, line.failures) = (line.successes.saturating_add(1), 0);
                if line.successes >= probe.success_threshold {
                    self.succeeded(kind);
                }
            }
            ProbeResult::Failure(why) => {
                (line.successes, line.failures) = (0, line.failures.saturating_add(1));
                let failures = line.failures;
                let times = if failures == 1 { "once".to_string() } else { format!("{failures} times") };
                let message = format!("{} failed {times}: {why}", kind.name());
                let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
                if failures >= probe.failure_threshold {
                    self.failed(kind, message);
                } else if kind == ProbeKind::Startup && failures == FAILURES_TOLD {
                    self.stand(false, message);
                }
            }
            ProbeResult::Unknown(_) => {}
        }
    }

    fn succeeded(&mut self, kind: ProbeKind) {
        match kind {
            ProbeKind::Startup => {
                self.has_started = true;
                if self.probes.readiness.is_none() {
                    self.stand(true, String::new());
                }
            }
            ProbeKind::Readiness => self.stand(true, String::new()),
            ProbeKind::Liveness => {}
        }
    }

    fn failed(&mut self, kind: ProbeKind, message: String) {
        match kind {
            ProbeKind::Startup | ProbeKind::Liveness => self.unhealthy = Some((kind, message)),
            ProbeKind::Readiness => self.stand(false, message),
        }
    }

    /// It is ready or not from now on. Why it is not is told once.
    fn stand(&mut self, ready: bool, message: String) {
        if self.ready != ready || self.message.is_empty() != message.is_empty() {
            (self.ready, self.message, self.told) = (ready, message, Told::Nothing);
        }
    }

    /// Which probe ends the run and how it failed, and what the run has from the polite signal to the kill, if that is
    /// said.
    pub(crate) fn unhealthy(&self) -> Option<(&str, Option<u64>)> {
        let (kind, message) = self.unhealthy.as_ref()?;
        Some((message, self.probes.get(*kind).and_then(|probe| probe.grace_ms)))
    }

    /// What a set of entry `index` shows. What was accepted before, and is still not shown, is told again.
    pub(crate) fn renew(&mut self, index: Index, ready: bool) {
        if let Told::Accepted(accepted) = self.told
            && accepted <= index
            && ready != self.ready
        {
            self.told = Told::Nothing;
        }
    }

    /// What is to be told to the cell now, once.
    pub(crate) fn tell(&mut self) -> Option<RunReportKind> {
        if self.told != Told::Nothing || !self.probes.gates_readiness() {
            return None;
        }
        self.told = Told::Underway;
        Some(RunReportKind::Ready { ready: self.ready, number: 0, message: self.message.clone() })
    }

    /// Such a word was applied by entry `index`.
    pub(crate) fn accepted(&mut self, index: Index, ready: bool) {
        if self.told == Told::Underway && self.ready == ready {
            self.told = Told::Accepted(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::{JobId, ProbeAction};

    fn probe(change: impl FnOnce(&mut Probe)) -> Option<Probe> {
        let mut probe = Probe::of(ProbeAction::TcpSocket { port: 80, host: String::new() });
        change(&mut probe);
        Some(probe)
    }

    /// Probes that are asked by hand.
    struct Hand {
        probing: Probing,
        number: u64,
        sent: Vec<ProbeOrder>,
    }

    impl Hand {
        fn of(probes: Probes) -> Self {
            Hand { probing: Probing::new(Arc::new(probes), 1_000, false), number: 0, sent: Vec::new() }
        }

        /// What is sent at this moment, by kind.
        fn at(&mut self, now_ms: u64) -> Vec<ProbeKind> {
            let run = RunRef::new(JobId(1), 0, 0, 1);
            self.sent = self.probing.send(now_ms, run, &mut self.number);
            self.sent.iter().map(|order| order.kind).collect()
        }

        /// What was sent last ends so.
        fn answer(&mut self, kind: ProbeKind, ok: bool) -> Option<RunReportKind> {
            let order = self.sent.iter().find(|order| order.kind == kind).expect("it was sent");
            let result = if ok { ProbeResult::Success } else { ProbeResult::Failure("no".into()) };
            self.probing.take(kind, order.number, result);
            self.probing.tell()
        }
    }

    fn ready(ready: bool, message: &str) -> Option<RunReportKind> {
        Some(RunReportKind::Ready { ready, number: 0, message: message.into() })
    }

    #[test]
    fn thresholds_count_results_in_a_row_and_only_changes_are_told() {
        let readiness = probe(|probe| (probe.success_threshold, probe.initial_delay_seconds) = (2, 3));
        let mut hand = Hand::of(Probes { readiness, ..Probes::default() });
        assert_eq!((hand.at(3_999), hand.probing.due_ms()), (vec![], Some(4_000)));
        let mut said = Vec::new();
        for (round, ok) in
            [true, false, true, true, true, false, false, true, true, false, false, false].iter().enumerate()
        {
            assert_eq!(hand.at(4_000 + 10_000 * round as u64), [ProbeKind::Readiness]);
            said.push(hand.answer(ProbeKind::Readiness, *ok));
        }
        let changes: Vec<_> = said.into_iter().enumerate().filter_map(|(round, said)| Some((round, said?))).collect();
        let failed = ready(false, "readinessProbe failed 3 times: no").unwrap();
        assert_eq!(changes, [(3, ready(true, "").unwrap()), (11, failed)]);
    }

    #[test]
    fn a_startup_probe_holds_the_others_back() {
        let startup = probe(|probe| probe.failure_threshold = 30);
        let probes = Probes { startup, readiness: probe(|_| {}), liveness: probe(|_| {}), ..Probes::default() };
        let mut hand = Hand::of(probes);
        for (round, told) in [None, None, ready(false, "startupProbe failed 3 times: no"), None].into_iter().enumerate()
        {
            assert_eq!(hand.at(1_000 + 10_000 * round as u64), [ProbeKind::Startup]);
            assert_eq!(hand.answer(ProbeKind::Startup, false), told);
        }
        assert_eq!(hand.at(41_000), [ProbeKind::Startup]);
        assert_eq!(hand.answer(ProbeKind::Startup, true), None, "it is not ready yet");
        assert_eq!(hand.at(41_000), [ProbeKind::Readiness, ProbeKind::Liveness]);
        assert_eq!(hand.answer(ProbeKind::Liveness, true), None);
        assert_eq!(hand.answer(ProbeKind::Readiness, true), ready(true, ""));
    }

    #[test]
    fn started_is_ready_without_a_readiness_probe() {
        let mut hand = Hand::of(Probes { startup: probe(|_| {}), ..Probes::default() });
        hand.at(1_000);
        assert_eq!(hand.answer(ProbeKind::Startup, true), ready(true, ""));
        assert_eq!((hand.at(90_000), hand.probing.due_ms()), (vec![], None), "nothing is left to look at");
        let mut hand = Hand::of(Probes { liveness: probe(|_| {}), ..Probes::default() });
        hand.at(1_000);
        assert_eq!(hand.answer(ProbeKind::Liveness, true), None, "the cell takes it for ready by itself");
    }

    #[test]
    fn failed_startup_and_liveness_end_the_run_with_their_grace() {
        let once = |grace_ms| probe(|probe| (probe.failure_threshold, probe.grace_ms) = (1, grace_ms));
        let mut hand = Hand::of(Probes { liveness: once(Some(500)), readiness: probe(|_| {}), ..Probes::default() });
        hand.at(1_000);
        assert_eq!(hand.answer(ProbeKind::Liveness, false), None);
        assert_eq!(hand.probing.unhealthy(), Some(("livenessProbe failed once: no", Some(500))));
        assert_eq!(hand.answer(ProbeKind::Readiness, true), None, "it is over");
        assert_eq!((hand.at(99_000), hand.probing.due_ms()), (vec![], None));
        let mut hand = Hand::of(Probes { startup: once(None), ..Probes::default() });
        hand.at(1_000);
        hand.answer(ProbeKind::Startup, false);
        assert_eq!(hand.probing.unhealthy(), Some(("startupProbe failed once: no", None)));
    }

    #[test]
    fn one_result_is_waited_for_at_a_time_and_not_for_ever() {
        let mut hand = Hand::of(Probes { readiness: probe(|_| {}), ..Probes::default() });
        assert_eq!(hand.at(1_000), [ProbeKind::Readiness]);
        let late = hand.sent[0].number;
        assert_eq!(hand.at(31_999), [], "the time-out and what a busy node may take are not over");
        assert_eq!(hand.at(32_000), [ProbeKind::Readiness]);
        hand.probing.take(ProbeKind::Readiness, late, ProbeResult::Success);
        assert_eq!(hand.probing.tell(), None, "nobody waits for that one any more");
        hand.probing.take(ProbeKind::Readiness, hand.sent[0].number, ProbeResult::Unknown("no process".into()));
        assert_eq!((hand.probing.tell(), hand.at(42_000)), (None, vec![ProbeKind::Readiness]));
        assert_eq!(hand.answer(ProbeKind::Readiness, true), ready(true, ""));
    }

    #[test]
    fn what_the_cell_does_not_show_is_told_again() {
        let mut probing = Probing::new(Arc::new(Probes { readiness: probe(|_| {}), ..Probes::default() }), 0, true);
        probing.renew(Index(3), true);
        assert_eq!(probing.tell(), None, "an adopted run is as ready as it was");
        probing.renew(Index(4), false);
        assert_eq!(probing.tell(), ready(true, ""));
        probing.accepted(Index(9), true);
        probing.renew(Index(8), false);
        assert_eq!(probing.tell(), None, "the set is from before");
        probing.renew(Index(9), false);
        assert_eq!(probing.tell(), ready(true, ""));
    }
}
