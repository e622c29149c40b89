//! The agent core: one step, from an input to its effects.

use crate::beats::{BeatAnswer, Beats};
use crate::conditions::{CheckPolicy, Conditions};
use crate::outbox::Outbox;
use crate::runner::RunnerEvent;
use crate::runs::{Action, Runs};
use crate::step::{AgentEffect, AgentInput};
use crate::wanted::WantedSet;
use ohm_model::{Exit, Incarnation, Index, NodeId, Refusal, RunReportKind};
use ohm_stdx::Prng;

/// How an agent behaves; the lease itself comes with every answered beat.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Between two beats, unless the health duty wishes a longer time.
    pub beat_interval_ms: u64,
    /// Between two attempts to register.
    pub register_retry_ms: u64,
    /// Most reports in one batch.
    pub report_batch_max: usize,
    /// How long a report may wait for others to share its batch.
    pub report_delay_ms: u64,
    /// An unaccepted batch is sent again after this long, then after twice as long, and so on up to 16 times.
    pub report_resend_ms: u64,
    /// How the checks of the node are judged; at most one of each kind counts.
    pub checks: Vec<CheckPolicy>,
}

impl AgentConfig {
    /// How long before the end of its lease the node may begin to end what runs there: two beats.
    pub fn fence_lead_ms(&self) -> u64 {
        self.beat_interval_ms.saturating_mul(2)
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            beat_interval_ms: 1000,
            register_retry_ms: 2000,
            report_batch_max: 1024,
            report_delay_ms: 5,
            report_resend_ms: 1000,
            checks: Vec::new(),
        }
    }
}

/// ```text
///  Outside ──Registered──▶ Inside ──newer registration seen──▶ Superseded
///     ▲  │                   │                                     ▲
///     │  └──refused as superseded─────────────────────────────────┘
///     └──RegistrationEnded───┘  (with a new instance)
/// ```
#[derive(Clone, Copy, Debug)]
enum Registration {
    Outside { instance: u64, due_ms: u64 },
    Inside { node: NodeId, incarnation: Incarnation },
    Superseded,
}

/// The agent of one node, for the life of one agent process.
#[derive(Clone, Debug)]
pub struct AgentCore {
    config: AgentConfig,
    dice: Prng,
    registration: Registration,
    connected: bool,
    /// The runner has told what it knows.
    attached: bool,
    cell_incarnation: Option<u64>,
    /// The newest set taken for the present registration.
    wanted_index: Option<Index>,
    /// A set that came before the registration's answer, or before the runner's first word.
    early: Option<WantedSet>,
    beats: Beats,
    runs: Runs,
    outbox: Outbox,
    conditions: Conditions,
    /// How many words about readiness were said under this registration.
    words: u32,
}

impl AgentCore {
    /// An agent that registers once it is connected and knows what its runner has. `dice` must differ between
    /// processes.
    pub fn new(config: AgentConfig, mut dice: Prng) -> Self {
        let registration = Registration::Outside { instance: dice.u64(), due_ms: 0 };
        let beats = Beats::new(config.beat_interval_ms);
        let outbox = Outbox::new(config.report_batch_max, config.report_delay_ms, config.report_resend_ms);
        let conditions = Conditions::new(config.checks.clone(), config.report_resend_ms);
        AgentCore {
            config,
            dice,
            registration,
            connected: false,
            attached: false,
            cell_incarnation: None,
            wanted_index: None,
            early: None,
            beats,
            runs: Runs::default(),
            outbox,
            conditions,
            words: 0,
        }
    }

    /// The node and its registration.
    pub fn registration(&self) -> Option<(NodeId, Incarnation)> {
        match self.registration {
            Registration::Inside { node, incarnation } => Some((node, incarnation)),
            Registration::Outside { .. } | Registration::Superseded => None,
        }
    }

    /// Whether the lease lets runs start at `now_ms`.
    pub fn has_lease(&self, now_ms: u64) -> bool {
        self.registration().is_some() && self.beats.may_start(now_ms, self.config.fence_lead_ms())
    }

    /// How many runs are known, in any phase.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The next moment at which `Tick` has something to do.
    pub fn due_ms(&self) -> Option<u64> {
        let runs_ms = self.runs.due_ms();
        if !self.connected || !self.attached {
            return runs_ms.filter(|_| !matches!(self.registration, Registration::Superseded));
        }
        match self.registration {
            Registration::Outside { due_ms, .. } => Some(runs_ms.map_or(due_ms, |runs_ms| runs_ms.min(due_ms))),
            Registration::Inside { incarnation, .. } => {
                let others_ms = self.outbox.due_ms().into_iter().chain(self.conditions.due_ms(incarnation));
                Some(others_ms.chain(runs_ms).fold(self.beats.due_ms(), u64::min))
            }
            Registration::Superseded => None,
        }
    }

    /// Takes one input at `now_ms` of the node's boot-time clock, which must have been read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: AgentInput, out: &mut Vec<AgentEffect>) {
        if matches!(self.registration, Registration::Superseded) {
            return;
        }
        match input {
            AgentInput::Connected => self.on_connected(now_ms),
            AgentInput::Disconnected => self.connected = false,
            AgentInput::Registered { instance, node, incarnation } => {
                self.on_registered(now_ms, instance, node, incarnation, out);
            }
            AgentInput::RegisterRefused { instance, refusal } => self.on_refused(now_ms, instance, refusal, out),
            AgentInput::RegistrationEnded { incarnation } => {
                if self.registration().is_some_and(|(_, own)| own == incarnation) {
                    self.leave(now_ms);
                }
            }
            AgentInput::Wanted(set) => self.on_wanted(now_ms, set, out),
            AgentInput::BeatAnswer(answer) => self.on_beat_answer(now_ms, &answer, out),
            AgentInput::Runner(event) => self.on_runner(now_ms, event, out),
            AgentInput::ReportsAccepted { batch, index } => {
                let reports = self.outbox.accept(batch);
                self.runs.accepted(index, &reports);
                if let Some((_, incarnation)) = self.registration() {
                    self.conditions.accept(batch, incarnation);
                }
            }
            AgentInput::Checked { kind, finding } => self.conditions.take(kind, finding),
            AgentInput::Tick => {}
        }
        let mut actions = Vec::new();
        self.runs.stop_left(now_ms, &mut actions);
        self.act(now_ms, actions, out);
        out.extend(self.runs.send_probes(now_ms).into_iter().map(AgentEffect::Probe));
        self.send_due(now_ms, out);
    }

    fn on_connected(&mut self, now_ms: u64) {
        self.connected = true;
        if let Registration::Outside { due_ms, .. } = &mut self.registration {
            *due_ms = now_ms;
        }
        self.beats.hurry(now_ms);
        self.outbox.hurry(now_ms);
        self.conditions.hurry();
    }

    fn on_registered(&mut self, now_ms: u64, asked: u64, node: NodeId, own: Incarnation, out: &mut Vec<AgentEffect>) {
        match self.registration {
            Registration::Outside { instance, .. } if instance == asked => {}
            _ => return,
        }
        self.registration = Registration::Inside { node, incarnation: own };
        (self.wanted_index, self.words) = (None, 0);
        self.beats.restart(now_ms);
        self.runs.forget_wishes();
        self.conditions.hurry();
        self.take_early(now_ms, out);
    }

    fn on_refused(&mut self, now_ms: u64, asked: u64, refusal: Refusal, out: &mut Vec<AgentEffect>) {
        let Registration::Outside { instance, due_ms } = &mut self.registration else { return };
        if *instance != asked {
            return;
        }
        if let Refusal::Superseded { .. } = refusal {
            self.supersede(out);
        } else {
            *due_ms = now_ms.saturating_add(self.config.register_retry_ms);
            out.push(AgentEffect::RegisterRefused(refusal));
        }
    }

    fn supersede(&mut self, out: &mut Vec<AgentEffect>) {
        self.registration = Registration::Superseded;
        out.push(AgentEffect::Superseded);
    }

    /// The registration is over; the next one is another one, so it gets another name.
    fn leave(&mut self, now_ms: u64) {
        self.registration = Registration::Outside { instance: self.dice.u64(), due_ms: now_ms };
        self.wanted_index = None;
        self.runs.forget_wishes();
    }

    fn on_wanted(&mut self, now_ms: u64, set: WantedSet, out: &mut Vec<AgentEffect>) {
        let known_cell = self.cell_incarnation.unwrap_or(0);
        let (own, attached) = (self.registration().map(|(_, incarnation)| incarnation), self.attached);
        match own {
            _ if set.cell_incarnation < known_cell => {}
            Some(own) if attached && set.node_incarnation == own => {
                let newer_cell = set.cell_incarnation > known_cell;
                if newer_cell || self.wanted_index.is_none_or(|index| index < set.index) {
                    self.cell_incarnation = Some(set.cell_incarnation);
                    self.wanted_index = Some(set.index);
                    self.apply_wanted(now_ms, set, out);
                }
            }
            // The cell was restored to a time before this registration.
            Some(own)
                if set.node_incarnation != own
                    && self.cell_incarnation.is_some_and(|_| set.cell_incarnation > known_cell) =>
            {
                self.cell_incarnation = Some(set.cell_incarnation);
                self.leave(now_ms);
            }
            Some(own) if set.node_incarnation > own => self.supersede(out),
            Some(own) if set.node_incarnation < own => {}
            _ => {
                if self.early.as_ref().is_none_or(|early| early.age() < set.age()) {
                    self.early = Some(set);
                }
            }
        }
    }

    fn take_early(&mut self, now_ms: u64, out: &mut Vec<AgentEffect>) {
        if self.attached
            && self.registration().is_some()
            && let Some(set) = self.early.take()
        {
            self.on_wanted(now_ms, set, out);
        }
    }

    fn apply_wanted(&mut self, now_ms: u64, set: WantedSet, out: &mut Vec<AgentEffect>) {
        let may_start = self.may_start(now_ms);
        let mut actions = Vec::new();
        self.runs.want((now_ms, set.index), set.runs, may_start, &mut actions);
        self.act(now_ms, actions, out);
    }

    fn on_beat_answer(&mut self, now_ms: u64, answer: &BeatAnswer, out: &mut Vec<AgentEffect>) {
        let Some((_, incarnation)) = self.registration() else { return };
        out.extend(self.beats.on_answer(incarnation, answer).map(AgentEffect::WriteLease));
        if self.may_start(now_ms) {
            let mut actions = Vec::new();
            self.runs.start_waiting(now_ms, &mut actions);
            self.act(now_ms, actions, out);
        }
    }

    /// A lease that runs for long enough, a set made for this registration, and a runner whose state is known.
    fn may_start(&self, now_ms: u64) -> bool {
        self.attached && self.wanted_index.is_some() && self.has_lease(now_ms)
    }

    fn on_runner(&mut self, now_ms: u64, event: RunnerEvent, out: &mut Vec<AgentEffect>) {
        let mut actions = Vec::new();
        match event {
            RunnerEvent::Found { lease, live, exits } => {
                lease.into_iter().for_each(|file| self.beats.adopt(file));
                self.attached = true;
                let has_set = (self.wanted_index.is_some(), self.may_start(now_ms));
                self.runs.found(now_ms, (live, exits), has_set, &mut actions);
            }
            RunnerEvent::Started { run, pid } => self.runs.started(now_ms, run, pid, &mut actions),
            RunnerEvent::StartFailed { run, message } => {
                self.runs.ended((now_ms, run), Exit::StartFailed, message, &mut actions);
            }
            RunnerEvent::Exited { run, exit } => self.runs.ended((now_ms, run), exit, String::new(), &mut actions),
            RunnerEvent::Probed { run, kind, number, result } => {
                self.runs.probed((now_ms, run), (kind, number), result, &mut actions);
            }
        }
        self.act(now_ms, actions, out);
        self.take_early(now_ms, out);
    }

    fn act(&mut self, now_ms: u64, actions: Vec<Action>, out: &mut Vec<AgentEffect>) {
        for action in actions {
            match (action, self.registration()) {
                (Action::Start(wanted), Some((_, incarnation))) => {
                    out.push(AgentEffect::StartRun { incarnation, wanted })
                }
                // Nothing waits outside of a registration.
                (Action::Start(_), None) => {}
                (Action::Stop { run, grace_ms }, _) => out.push(AgentEffect::StopRun { run, grace_ms }),
                (Action::TellPeers { run, notice }, _) => out.push(AgentEffect::TellPeers { run, notice }),
                (Action::Forget(run), _) => out.push(AgentEffect::ForgetRun { run }),
                (Action::Report(mut report), registration) => {
                    if let RunReportKind::Ready { number, .. } = &mut report.kind {
                        self.words += 1;
                        let incarnation = registration.map_or(0, |(_, incarnation)| incarnation.0);
                        *number = (u64::from(incarnation) << 32) + u64::from(self.words);
                    }
                    self.outbox.push(now_ms, report);
                }
            }
        }
    }

    fn send_due(&mut self, now_ms: u64, out: &mut Vec<AgentEffect>) {
        if !self.connected || !self.attached {
            return;
        }
        match &mut self.registration {
            Registration::Outside { instance, due_ms } if *due_ms <= now_ms => {
                *due_ms = now_ms.saturating_add(self.config.register_retry_ms);
                out.push(AgentEffect::Register { instance: *instance, alive: self.runs.alive() });
            }
            Registration::Inside { node, incarnation } => {
                let (node, incarnation) = (*node, *incarnation);
                if let Some(sequence) = self.beats.next(now_ms, |bound| self.dice.below(bound)) {
                    out.push(AgentEffect::Beat { node, incarnation, sequence, sent_ms: now_ms });
                }
                if let Some((batch, reports)) = self.outbox.next(now_ms) {
                    out.push(AgentEffect::SendReports { batch, node, reports });
                }
                let number = || self.outbox.take_number();
                if let Some((number, conditions)) = self.conditions.next(now_ms, incarnation, number) {
                    out.push(AgentEffect::SendConditions { number, node, incarnation, conditions });
                }
            }
            Registration::Outside { .. } | Registration::Superseded => {}
        }
    }
}
