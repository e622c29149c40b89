//! A simulated node: the agent core, which may crash or be paused, and the driver that plays shim and tasks, which
//! lives on until the machine itself restarts.

use crate::clocks::Clock;
use ohm_agent::{
    AgentConfig, AgentCore, AgentEffect, AgentInput, DriverConfig, DriverInput, Finding, RunnerEvent, SimDriver,
};
use ohm_model::{ConditionKind, NodeSpec, OnDisconnect, RunRef};
use ohm_oracle::Record;
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// One node.
pub(crate) struct NodeProcess {
    pub(crate) spec: NodeSpec,
    pub(crate) clock: Clock,
    pub(crate) key: u64,
    pub(crate) boot: u64,
    pub(crate) agent: Option<AgentCore>,
    driver: SimDriver,
    stop_ms: u64,
    /// What lived after the last step, and whether it keeps on without a server.
    lived: BTreeMap<RunRef, bool>,
    pub(crate) paused_until_ms: u64,
    pub(crate) connection: Option<u64>,
    pub(crate) starts: u64,
    /// When the agent is ticked next, and when the driver is.
    pub(crate) tick_ms: Option<u64>,
    pub(crate) driver_ms: Option<u64>,
    /// The driver spoke while the agent stood still: the agent looks again when it wakes.
    pub(crate) missed_words: bool,
    /// What is wrong with the machine, and until when in real time.
    pub(crate) ails: BTreeMap<ConditionKind, u64>,
    /// What the checks of the present agent process found last.
    found: Option<BTreeSet<ConditionKind>>,
}

impl NodeProcess {
    pub(crate) fn new(spec: NodeSpec, clock: Clock, key: u64, stop_ms: u64) -> Self {
        NodeProcess {
            spec,
            clock,
            key,
            boot: 1,
            agent: None,
            driver: SimDriver::new(DriverConfig { stop_ms }),
            stop_ms,
            lived: BTreeMap::new(),
            paused_until_ms: 0,
            connection: None,
            starts: 0,
            tick_ms: None,
            driver_ms: None,
            missed_words: false,
            ails: BTreeMap::new(),
            found: None,
        }
    }

    /// Starts an agent process; it finds the runs that the driver has.
    pub(crate) fn start(
        &mut self,
        real_ms: u64,
        config: AgentConfig,
        dice: &mut Prng,
        effects: &mut Vec<AgentEffect>,
        history: &mut Vec<Record>,
    ) {
        self.starts += 1;
        self.agent = Some(AgentCore::new(config, dice.fork()));
        self.found = None;
        self.drive(real_ms, DriverInput::Attach, effects, history);
    }

    /// The whole machine restarts: every task is gone.
    pub(crate) fn reboot(&mut self, real_ms: u64, history: &mut Vec<Record>) {
        self.agent = None;
        self.boot += 1;
        self.driver = SimDriver::new(DriverConfig { stop_ms: self.stop_ms });
        for (run, _) in std::mem::take(&mut self.lived) {
            history.push(Record::Over { at_ms: real_ms, node: self.spec.name.clone(), run });
        }
    }

    /// Feeds the agent core, and performs at once what it asks of the driver.
    pub(crate) fn step(
        &mut self,
        real_ms: u64,
        input: AgentInput,
        effects: &mut Vec<AgentEffect>,
        history: &mut Vec<Record>,
    ) {
        let now_ms = self.clock.boot_ms(real_ms);
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
    pub(crate) fn drive(
        &mut self,
        real_ms: u64,
        input: DriverInput,
        effects: &mut Vec<AgentEffect>,
        history: &mut Vec<Record>,
    ) {
        let now_ms = self.clock.boot_ms(real_ms);
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
        let node = self.spec.name.clone();
        let ended: Vec<RunRef> = self.lived.keys().filter(|run| !live.contains(run)).copied().collect();
        for run in ended {
            self.lived.remove(&run);
            history.push(Record::Over { at_ms: real_ms, node: node.clone(), run });
        }
        for run in live {
            if self.lived.insert(run, keeps).is_none() {
                history.push(Record::Began { at_ms: real_ms, node: node.clone(), run, keeps });
            }
        }
    }

    /// When the driver has something to do by itself, in real time.
    pub(crate) fn driver_due_ms(&self, real_ms: u64) -> Option<u64> {
        self.driver.due_ms().map(|due_ms| self.clock.real_ms(real_ms, due_ms))
    }

    /// When the agent has, in real time.
    pub(crate) fn agent_due_ms(&self, real_ms: u64) -> Option<u64> {
        let due_ms = self.agent.as_ref()?.due_ms()?;
        Some(self.clock.real_ms(real_ms, due_ms))
    }
}
