//! The runs of one node: what the cell wants of them, what the runner says of them, and the step from one to the other.

mod leaving;
mod probed;

use crate::probes::{Probing, Told};
use crate::runner::{FoundExit, FoundRun};
use crate::wanted::{PeersNotice, StartOrder, WantedRun};
use ohm_model::{Exit, Index, MESSAGE_CHARS_MAX, RunRef, RunReport, RunReportKind};
use ohm_stdx::hash;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn digest(addresses: &[String]) -> u64 {
    hash::bytes(addresses.join("\n").as_bytes())
}

/// So many runs are named with a registration; those beyond are stopped if the cell has given them up.
const ALIVE_MAX: usize = 4_096;

/// What has to be done about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start(StartOrder),
    Stop { run: RunRef, grace_ms: u64 },
    TellPeers { run: RunRef, notice: Arc<PeersNotice> },
    Forget(RunRef),
    Report(RunReport),
}

/// What its probes find unhealthy is stopped as what is wanted no more.
///
/// ```text
///            Start              Started      Stop, after its delay
///  Waiting ────────▶ Starting ──────────▶ Running ────────▶ Stopping
///     │  ▲              │ │ └──────────────Stop──────────────▶ │
///     │  └─runner lost──┘ │                  │                 │
///     │     the order     └─StartFailed──┐   │ Exited, gone    │ Exited
///     │ unwanted, or known to be gone    ▼   ▼                 ▼
///     └───────────────────────────────▶ Ended ──no set wants it──▶ forgotten
/// ```
#[derive(Clone, Debug)]
enum Phase {
    Waiting(StartOrder),
    Starting(StartOrder),
    Running { pid: u32, started_ms: u64 },
    Stopping,
    Ended { exit: Exit, message: String },
}

/// What the newest wanted set says. `Unknown`: there is none for this registration yet, so nothing is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Unknown,
    Run,
    Stop,
    Gone,
}

#[derive(Clone, Debug)]
struct LocalRun {
    phase: Phase,
    wish: Wish,
    grace_ms: u64,
    /// When it gets the polite signal, where it is to stop.
    leaves_ms: Option<u64>,
    /// How far the cell knows of the present phase.
    told: Told,
    /// A digest of the peers it knows of; nothing when an earlier agent process has told it.
    peers: Option<u64>,
    /// What is looked at while it runs.
    probing: Option<Box<Probing>>,
}

/// All runs that the cell wants here, or that the runner knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: BTreeMap<RunRef, LocalRun>,
    waiting: usize,
    /// When which run is to be probed.
    probe_times: BTreeSet<(u64, RunRef)>,
    /// When which run that is to stop gets its signal.
    leave_times: BTreeSet<(u64, RunRef)>,
    /// Of the last probe that was sent.
    probe_number: u64,
}

impl Runs {
    /// How many runs are known, in any phase.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The runs that live and are to go on living, as far as anybody knows; no more than a message takes.
    pub(crate) fn alive(&self) -> Vec<RunRef> {
        let is_alive = |local: &LocalRun| matches!(local.phase, Phase::Running { .. });
        self.runs.iter().filter(|(_, local)| is_alive(local)).map(|(run, _)| *run).take(ALIVE_MAX).collect()
    }

    /// A new registration: what earlier sets said is void. What has not been started yet would be named again.
    pub(crate) fn forget_wishes(&mut self) {
        self.runs.retain(|_, local| !matches!(local.phase, Phase::Waiting(_)));
        self.runs.values_mut().for_each(|local| local.wish = Wish::Unknown);
        self.waiting = 0;
    }

    /// When anything is to be done about a run that nobody says.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.probes_due_ms().into_iter().chain(self.leaves_due_ms()).min()
    }

    /// Takes a newer wanted set.
    pub(crate) fn want(
        &mut self,
        (now_ms, index): (u64, Index),
        set: Vec<WantedRun>,
        may_start: bool,
        out: &mut Vec<Action>,
    ) {
        let mut wanted: BTreeMap<RunRef, WantedRun> = set.into_iter().map(|wanted| (wanted.run, wanted)).collect();
        for (run, local) in &mut self.runs {
            match wanted.remove(run) {
                Some(wanted) => {
                    let grace_ms = local.grace_ms;
                    local.renew((now_ms, index), &wanted);
                    local.tell_peers(&wanted, out);
                    if matches!(local.phase, Phase::Stopping) && local.grace_ms < grace_ms {
                        out.push(Action::Stop { run: *run, grace_ms: local.grace_ms });
                    }
                }
                None => local.wish = Wish::Gone,
            }
        }
        for (run, wanted) in wanted {
            // One that cannot be started yet is known when its description has come.
            if let Some(local) = LocalRun::new(&wanted) {
                self.runs.insert(run, local);
            }
        }
        self.settle(now_ms, may_start, out);
        self.plan_all_probes();
        self.plan_leaves();
    }

    /// Starts what waits, when a lease has come.
    pub(crate) fn start_waiting(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        if self.waiting > 0 {
            self.settle(now_ms, true, out);
        }
    }

    /// Takes all that the runner knows: it is the whole truth about what lives.
    pub(crate) fn found(
        &mut self,
        now_ms: u64,
        (live, exits): (Vec<FoundRun>, Vec<FoundExit>),
        (has_set, may_start): (bool, bool),
        out: &mut Vec<Action>,
    ) {
        let wish = if has_set { Wish::Gone } else { Wish::Unknown };
        let mut alive: BTreeMap<RunRef, FoundRun> = live.into_iter().map(|found| (found.run, found)).collect();
        for FoundExit { run, exit, message } in exits {
            alive.remove(&run);
            let local = self.runs.entry(run).or_insert_with(|| LocalRun::adopted(Phase::Stopping, wish, 0));
            local.end(exit, message);
        }
        for (run, local) in &mut self.runs {
            local.meet(alive.remove(run), *run, out);
        }
        for (run, FoundRun { pid, started_ms, grace_ms, .. }) in alive {
            self.runs.insert(run, LocalRun::adopted(Phase::Running { pid, started_ms }, wish, grace_ms));
        }
        self.settle(now_ms, may_start, out);
        self.plan_all_probes();
        self.plan_leaves();
    }

    /// The runner started `run`.
    pub(crate) fn started(&mut self, now_ms: u64, run: RunRef, pid: u32, out: &mut Vec<Action>) {
        if let Some(local) = self.runs.get_mut(&run)
            && let Phase::Starting(order) = &local.phase
        {
            let probes = order.probes();
            local.begin_probes(probes, now_ms);
            local.phase = Phase::Running { pid, started_ms: now_ms };
            self.settle_one((now_ms, run), false, out);
            self.plan_probes(run);
        }
    }

    /// Nothing of `run` lives any more, the runner says.
    pub(crate) fn ended(&mut self, (now_ms, run): (u64, RunRef), exit: Exit, message: String, out: &mut Vec<Action>) {
        match self.runs.get_mut(&run) {
            Some(local) => {
                local.end(exit, message);
                self.settle_one((now_ms, run), false, out);
            }
            None => out.push(Action::Forget(run)),
        }
    }

    /// A batch of reports was applied by entry `index`.
    pub(crate) fn accepted(&mut self, index: Index, reports: &[RunReport]) {
        for report in reports {
            let Some(local) = self.runs.get_mut(&report.run) else { continue };
            if let (RunReportKind::Ready { ready, .. }, Some(probing)) = (&report.kind, &mut local.probing) {
                probing.accepted(index, *ready);
                continue;
            }
            let ended = matches!(local.phase, Phase::Ended { .. });
            if ended == matches!(report.kind, RunReportKind::Ended { .. }) && local.told == Told::Underway {
                local.told = Told::Accepted(index);
            }
        }
    }

    fn settle(&mut self, now_ms: u64, may_start: bool, out: &mut Vec<Action>) {
        self.waiting = 0;
        self.runs.retain(|&run, local| {
            let keep = local.settle((now_ms, run), may_start, out);
            self.waiting += usize::from(keep && matches!(local.phase, Phase::Waiting(_)));
            keep
        });
    }

    /// As `settle`, for a run that does not wait.
    fn settle_one(&mut self, (now_ms, run): (u64, RunRef), may_start: bool, out: &mut Vec<Action>) {
        if let Some(local) = self.runs.get_mut(&run)
            && !local.settle((now_ms, run), may_start, out)
        {
            self.runs.remove(&run);
        }
    }
}

impl LocalRun {
    /// A run that the runner does not know. If the cell saw it start, it is gone: it must not run a second time.
    fn new(wanted: &WantedRun) -> Option<Self> {
        let wish = if wanted.stop { Wish::Stop } else { Wish::Run };
        let grace_ms = wanted.launch.as_ref().map_or(0, |launch| launch.task.grace_ms);
        let phase = match (wanted.started, wanted.stop) {
            (true, _) => Phase::Ended { exit: Exit::Vanished, message: String::new() },
            (false, true) => Phase::Ended { exit: Exit::NeverStarted, message: String::new() },
            (false, false) => Phase::Waiting(wanted.order()?),
        };
        let peers = wanted.launch.as_ref().map(|launch| digest(&launch.peers));
        Some(LocalRun { phase, wish, grace_ms, leaves_ms: None, told: Told::Nothing, peers, probing: None })
    }

    fn adopted(phase: Phase, wish: Wish, grace_ms: u64) -> Self {
        LocalRun { phase, wish, grace_ms, leaves_ms: None, told: Told::Nothing, peers: None, probing: None }
    }

    /// Takes what a newer set says of this run. What was accepted before, and is still not shown, is told again.
    fn renew(&mut self, (now_ms, index): (u64, Index), wanted: &WantedRun) {
        self.wish = if wanted.stop { Wish::Stop } else { Wish::Run };
        self.renew_leave(now_ms, wanted);
        self.grace_ms = wanted.launch.as_ref().map_or(self.grace_ms, |launch| launch.task.grace_ms);
        self.grace_ms = wanted.grace_ms_max.map_or(self.grace_ms, |max_ms| self.grace_ms.min(max_ms));
        let shown = match self.phase {
            Phase::Ended { .. } => false,
            _ => wanted.started,
        };
        match self.told {
            Told::Accepted(accepted) if !shown && accepted <= index => self.told = Told::Nothing,
            _ if shown => self.told = Told::Accepted(index),
            _ => {}
        }
        self.renew_probes(index, wanted);
    }

    /// Peers are told once; what has not been started finds them where it starts.
    fn tell_peers(&mut self, wanted: &WantedRun, out: &mut Vec<Action>) {
        let Some(notice) = wanted.peers.as_ref().filter(|_| matches!(self.phase, Phase::Running { .. })) else {
            return;
        };
        let peers = Some(digest(&notice.addresses));
        if self.peers != peers {
            self.peers = peers;
            out.push(Action::TellPeers { run: wanted.run, notice: Arc::clone(notice) });
        }
    }

    fn end(&mut self, exit: Exit, message: String) {
        if !matches!(self.phase, Phase::Ended { .. }) {
            let (exit, message) = self.exit_of(exit, message);
            // The cell keeps no more, and an entry holds many reports.
            let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
            self.phase = Phase::Ended { exit, message };
            self.told = Told::Nothing;
        }
    }

    /// Compares with what the runner found alive of this run after a reconnection.
    fn meet(&mut self, found: Option<FoundRun>, run: RunRef, out: &mut Vec<Action>) {
        match (&self.phase, found) {
            // Never to happen; if a runner finds alive what it called dead, it has to make that true.
            (Phase::Ended { .. }, Some(_)) => out.push(Action::Stop { run, grace_ms: 0 }),
            (Phase::Waiting(_) | Phase::Starting(_) | Phase::Running { .. } | Phase::Stopping, Some(found)) => {
                if let Phase::Waiting(order) | Phase::Starting(order) = &self.phase {
                    let probes = order.probes();
                    self.begin_probes(probes, found.started_ms);
                }
                self.phase = Phase::Running { pid: found.pid, started_ms: found.started_ms };
            }
            (Phase::Starting(wanted), None) => self.phase = Phase::Waiting(wanted.clone()),
            (Phase::Running { .. } | Phase::Stopping, None) => self.end(Exit::Vanished, String::new()),
            (Phase::Waiting(_) | Phase::Ended { .. }, None) => {}
        }
    }

    /// The one place where wish and phase meet. Says whether the run is still of interest.
    fn settle(&mut self, (now_ms, run): (u64, RunRef), may_start: bool, out: &mut Vec<Action>) -> bool {
        match (&self.phase, self.wish) {
            (Phase::Waiting(_), Wish::Gone) => return false,
            (Phase::Waiting(_), Wish::Stop) => self.end(Exit::NeverStarted, String::new()),
            (Phase::Waiting(wanted), Wish::Run) if may_start => {
                let wanted = wanted.clone();
                self.phase = Phase::Starting(wanted.clone());
                out.push(Action::Start(wanted));
            }
            (Phase::Running { .. }, Wish::Stop) if self.runs_on(now_ms) => {}
            (Phase::Starting(_) | Phase::Running { .. }, Wish::Stop | Wish::Gone) => {
                self.phase = Phase::Stopping;
                out.push(Action::Stop { run, grace_ms: self.grace_ms });
            }
            (Phase::Running { .. }, Wish::Run | Wish::Unknown) if self.is_unhealthy() => {
                self.phase = Phase::Stopping;
                out.push(Action::Stop { run, grace_ms: self.grace_ms });
            }
            (Phase::Ended { .. }, Wish::Gone) => {
                out.push(Action::Forget(run));
                return false;
            }
            _ => {}
        }
        self.tell(run, out);
        true
    }

    /// Reports the present phase once. What no set wants any more is of no interest to the cell.
    fn tell(&mut self, run: RunRef, out: &mut Vec<Action>) {
        let kind = match &self.phase {
            // The earlier agent process has probably told it; the first set will show.
            Phase::Running { .. } if self.wish == Wish::Unknown => return,
            Phase::Running { pid, .. } => RunReportKind::Started { pid: *pid },
            Phase::Ended { exit, message } => RunReportKind::Ended { exit: *exit, message: message.clone() },
            Phase::Waiting(_) | Phase::Starting(_) | Phase::Stopping => return,
        };
        if self.told == Told::Nothing && self.wish != Wish::Gone {
            self.told = Told::Underway;
            out.push(Action::Report(RunReport { run, kind }));
        }
        if let (Phase::Running { .. }, Wish::Run, Some(probing)) = (&self.phase, self.wish, &mut self.probing) {
            out.extend(probing.tell().map(|kind| Action::Report(RunReport { run, kind })));
        }
    }
}
