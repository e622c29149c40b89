//! A simulated node: the agent core, which may crash or be paused, and the driver that plays shim and tasks, which
//! lives on until the machine itself restarts.

use crate::faults::Victim;
use crate::role::{Role, Shell};
use crate::script;
use crate::stage::{Down, Event, Newcomer, Stage, Up};
use ohm_agent::{AgentCore, AgentEffect, AgentInput, DriverConfig, DriverInput, Finding, RunnerEvent, SimDriver};
use ohm_model::{ConditionKind, NodeSpec, OnDisconnect, RunRef};
use ohm_oracle::Record;
use ohm_replica::{AgentOrder, Beat};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// One node.
pub(crate) struct NodeProcess {
    pub(crate) spec: NodeSpec,
    number: usize,
    shell: Shell,
    key: u64,
    boot: u64,
    agent: Option<AgentCore>,
    driver: SimDriver,
    tasks: DriverConfig,
    /// What lived after the last step, and whether it keeps on without a server.
    lived: BTreeMap<RunRef, bool>,
    /// When the agent is ticked next, and when the driver is.
    tick_ms: Option<u64>,
    driver_ms: Option<u64>,
    /// The driver spoke while the agent stood still: the agent looks again when it wakes.
    missed_words: bool,
    /// What is wrong with the machine, and until when in real time.
    pub(crate) ails: BTreeMap<ConditionKind, u64>,
    /// What the checks of the present agent process found last.
    found: Option<BTreeSet<ConditionKind>>,
}

impl NodeProcess {
    pub(crate) fn new(number: usize, Newcomer { spec, clock, key }: Newcomer, tasks: DriverConfig) -> Self {
        NodeProcess {
            spec,
            number,
            shell: Shell::new(clock),
            key,
            boot: 1,
            agent: None,
            driver: SimDriver::new(tasks),
            tasks,
            lived: BTreeMap::new(),
            tick_ms: None,
            driver_ms: None,
            missed_words: false,
            ails: BTreeMap::new(),
            found: None,
        }
    }

    /// The whole machine restarts: every task is gone.
    pub(crate) fn reboot(&mut self, stage: &mut Stage) {
        self.agent = None;
        self.boot += 1;
        self.driver = SimDriver::new(self.tasks);
        for (run, _) in std::mem::take(&mut self.lived) {
            stage.history.push(Record::Over { at_ms: stage.agenda.now_ms(), node: self.spec.name.clone(), run });
        }
    }

    /// The machine goes and does not come back.
    pub(crate) fn take_back(&mut self, stage: &mut Stage) {
        self.kill(stage);
        self.reboot(stage);
        self.shell.over = true;
    }

    /// The machine comes back with an empty disk: what is counted is counted there.
    pub(crate) fn wipe(&mut self, stage: &mut Stage) {
        (self.key, self.boot) = (stage.dice.u64(), 0);
    }

    /// The agent is told something.
    fn tell(&mut self, input: AgentInput, stage: &mut Stage) {
        let mut effects = Vec::new();
        self.step(stage.now_ms(), input, &mut effects, &mut stage.history);
        self.perform(effects, stage);
    }

    fn perform(&mut self, effects: Vec<AgentEffect>, stage: &mut Stage) {
        for effect in effects {
            let up = match effect {
                AgentEffect::Register { instance, alive } => {
                    Up::Register { spec: self.spec.clone(), key: self.key, instance, boot: self.boot, alive }
                }
                AgentEffect::Beat { node, incarnation, sequence, .. } => {
                    Up::Beats(vec![Beat { node, incarnation, sequence }])
                }
                AgentEffect::SendReports { batch, node, reports } => Up::Reports { node, batch, reports },
                AgentEffect::SendConditions { number, node, incarnation, conditions } => {
                    Up::Conditions { node, incarnation, number, conditions }
                }
                AgentEffect::Superseded => {
                    self.kill(stage);
                    stage.agenda.after(1_000, Event::Restart(Victim::Node(self.number)));
                    continue;
                }
                _ => continue,
            };
            if let Some(connection) = self.shell.connection {
                stage.send_up(connection, up);
            }
        }
        self.plan_ahead(stage);
    }

    /// Puts its next own moments into the agenda.
    fn plan_ahead(&mut self, stage: &mut Stage) {
        let now_ms = stage.now_ms();
        if let Some(due_ms) = self.driver_due_ms(now_ms)
            && self.driver_ms.is_none_or(|planned_ms| planned_ms > due_ms || planned_ms < now_ms)
        {
            self.driver_ms = Some(due_ms);
            stage.agenda.at(due_ms, Event::Driver { node: self.number });
        }
        if let Some(due_ms) = self.agent_due_ms(now_ms)
            && self.tick_ms.is_none_or(|planned_ms| planned_ms > due_ms || planned_ms < now_ms)
        {
            let due_ms = due_ms.max(now_ms + 1);
            self.tick_ms = Some(due_ms);
            stage.agenda.at(due_ms, Event::Tick(Victim::Node(self.number)));
        }
    }

    /// The driver has something to do.
    pub(crate) fn run_driver(&mut self, stage: &mut Stage) {
        self.driver_ms = None;
        self.drive_tasks(DriverInput::Tick, stage);
    }

    pub(crate) fn drive_tasks(&mut self, input: DriverInput, stage: &mut Stage) {
        let (now_ms, mut effects) = (stage.now_ms(), Vec::new());
        // A paused agent hears of it later: the driver's record of it waits, as the shim's does.
        let agent = if self.shell.paused_until_ms > now_ms { self.agent.take() } else { None };
        self.drive(now_ms, input, &mut effects, &mut stage.history);
        if agent.is_some() {
            (self.agent, self.missed_words) = (agent, true);
            stage.agenda.at(self.shell.paused_until_ms, Event::Tick(Victim::Node(self.number)));
        }
        self.perform(effects, stage);
    }

    fn take_order(&mut self, order: AgentOrder, stage: &mut Stage) {
        if !matches!(order, AgentOrder::Wanted { .. } | AgentOrder::BeatAnswers(_)) {
            stage.note(|| format!("{} hears {order:?}", script::name(Victim::Node(self.number))));
        }
        let input = match order {
            AgentOrder::Registered { instance, node, incarnation, .. } => {
                AgentInput::Registered { instance, node, incarnation }
            }
            AgentOrder::RegisterRefused { instance, refusal, .. } => AgentInput::RegisterRefused { instance, refusal },
            AgentOrder::RegistrationEnded { incarnation, .. } => AgentInput::RegistrationEnded { incarnation },
            AgentOrder::Wanted { set, .. } => AgentInput::Wanted(set),
            AgentOrder::BeatAnswers(answers) => {
                answers.into_iter().for_each(|(_, answer)| self.tell(AgentInput::BeatAnswer(answer), stage));
                return;
            }
            AgentOrder::ReportsAccepted { batch, index, .. } => AgentInput::ReportsAccepted { batch, index },
        };
        self.tell(input, stage);
    }

    /// Feeds the agent core, and performs at once what it asks of the driver.
    fn step(&mut self, real_ms: u64, input: AgentInput, effects: &mut Vec<AgentEffect>, history: &mut Vec<Record>) {
        let now_ms = self.shell.clock.boot_ms(real_ms);
        let mut own = Vec::new();
        let findings = self.check(real_ms);
        if let Some(agent) = &mut self.agent {
            findings
                .into_iter()
                .for_each(|(kind, finding)| agent.step(now_ms, AgentInput::Checked { kind, finding }, &mut own));
            agent.step(now_ms, input, &mut own);
        }
        for effect in own {
            match effect {
                AgentEffect::StartRun { incarnation, wanted } => {
                    self.drive(real_ms, DriverInput::Start { incarnation, wanted }, effects, history);
                }
                AgentEffect::StopRun { run, grace_ms } => {
                    self.drive(real_ms, DriverInput::Stop { run, grace_ms }, effects, history);
                }
                AgentEffect::Probe(order) => self.drive(real_ms, DriverInput::Probe(order), effects, history),
                AgentEffect::ForgetRun { run } => self.drive(real_ms, DriverInput::Forget { run }, effects, history),
                AgentEffect::WriteLease(lease) => self.drive(real_ms, DriverInput::Lease(lease), effects, history),
                other => effects.push(other),
            }
        }
    }

    /// What the checks find, when it is something else than before.
    fn check(&mut self, real_ms: u64) -> Vec<(ConditionKind, Finding)> {
        let ill: BTreeSet<ConditionKind> =
            self.ails.iter().filter(|(_, until_ms)| **until_ms > real_ms).map(|(kind, _)| *kind).collect();
        if self.agent.is_none() || self.found.as_ref() == Some(&ill) {
            return Vec::new();
        }
        let finding =
            |kind: &ConditionKind| if ill.contains(kind) { Finding::Bad("ill".into()) } else { Finding::Good };
        let findings = ConditionKind::ALL.map(|kind| (kind, finding(&kind))).to_vec();
        self.found = Some(ill);
        findings
    }

    /// Feeds the driver, records what really began and ended, and tells the agent unless it is paused or down.
    fn drive(&mut self, real_ms: u64, input: DriverInput, effects: &mut Vec<AgentEffect>, history: &mut Vec<Record>) {
        let now_ms = self.shell.clock.boot_ms(real_ms);
        let keeps = match &input {
            DriverInput::Start { wanted, .. } => wanted.launch.on_disconnect == OnDisconnect::Keep,
            _ => false,
        };
        let mut events: Vec<RunnerEvent> = Vec::new();
        self.driver.step(now_ms, input, &mut events);
        self.record(real_ms, keeps, history);
        for event in events {
            self.step(real_ms, AgentInput::Runner(event), effects, history);
        }
    }

    fn record(&mut self, real_ms: u64, keeps: bool, history: &mut Vec<Record>) {
        let live: Vec<RunRef> = self.driver.live().collect();
        let fence_in_ms = self.driver.fence_in_ms(self.shell.clock.boot_ms(real_ms));
        let node = self.spec.name.clone();
        let ended: Vec<RunRef> = self.lived.keys().filter(|run| !live.contains(run)).copied().collect();
        for run in ended {
            self.lived.remove(&run);
            history.push(Record::Over { at_ms: real_ms, node: node.clone(), run });
        }
        for run in live {
            if self.lived.insert(run, keeps).is_none() {
                history.push(Record::Began { at_ms: real_ms, node: node.clone(), run, keeps, fence_in_ms });
            }
        }
    }

    /// When the driver has something to do by itself, in real time.
    fn driver_due_ms(&self, real_ms: u64) -> Option<u64> {
        self.driver.due_ms().map(|due_ms| self.shell.clock.real_ms(real_ms, due_ms))
    }

    /// When the agent has, in real time.
    fn agent_due_ms(&self, real_ms: u64) -> Option<u64> {
        let due_ms = self.agent.as_ref()?.due_ms()?;
        Some(self.shell.clock.real_ms(real_ms, due_ms))
    }
}

impl Role for NodeProcess {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    /// The agent process starts; it finds the runs that the driver has.
    fn start(&mut self, dice: &mut Prng, stage: &mut Stage) {
        self.shell.starts += 1;
        self.agent = Some(AgentCore::new(stage.knobs.agent(), dice.fork()));
        self.found = None;
        let mut effects = Vec::new();
        self.drive(stage.now_ms(), DriverInput::Attach, &mut effects, &mut stage.history);
        self.perform(effects, stage);
        stage.agenda.after(1, Event::Connect(Victim::Node(self.number)));
    }

    /// Only the agent ends: its tasks run on.
    fn stop(&mut self) {
        self.agent = None;
    }

    /// Agents say themselves when they have something to do.
    fn tick(&mut self, stage: &mut Stage) {
        self.tick_ms = None;
        if std::mem::take(&mut self.missed_words) && self.agent.is_some() {
            let mut effects = Vec::new();
            self.drive(stage.now_ms(), DriverInput::Attach, &mut effects, &mut stage.history);
            self.perform(effects, stage);
        }
        self.tell(AgentInput::Tick, stage);
    }

    fn connected(&mut self, _connection: u64, stage: &mut Stage) {
        self.tell(AgentInput::Connected, stage);
    }

    fn disconnected(&mut self, stage: &mut Stage) {
        self.tell(AgentInput::Disconnected, stage);
    }

    fn hear(&mut self, _connection: u64, down: Down, stage: &mut Stage) {
        if let Down::Order(order) = down {
            self.take_order(order, stage);
        }
    }
}
