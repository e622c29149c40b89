//! All nodes of the process and the agenda of what is due.

use super::witness::Witness;
use crate::agent::key::NodeIdentity;
use crate::agent::messages::{self, Order};
use ohm_agent::{AgentConfig, AgentCore, AgentEffect, AgentInput, DriverConfig, DriverInput, RunnerEvent, SimDriver};
use ohm_model::{NodeId, NodeSpec};
use ohm_runtime::recorder::Recorder;
use ohm_stdx::{Prng, hash};
use ohm_wire::{AgentUp, Beat, write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes that are told of a new connection in one turn: their registrations come in bunches that a server takes.
const CONNECTS_PER_TURN: usize = 512;
/// Between two such bunches, in milliseconds.
const CONNECT_PAUSE_MS: u64 = 25;
/// The lower bits of the number of a boot count those that a node sees within one process.
const BOOTS_OF_A_NODE_BITS: u32 = 32;

/// One node.
pub(super) struct SimNode {
    pub(super) name: String,
    spec_bytes: bytes::Bytes,
    key: u64,
    /// Which boot of its machine this is.
    pub(super) boot: u64,
    pub(super) agent: AgentCore,
    pub(super) driver: SimDriver,
    /// Its place in the agenda.
    pub(super) due_ms: Option<u64>,
    is_refused: bool,
    pub(super) is_superseded: bool,
    /// Its machine is gone; see `outage.rs`.
    pub(super) is_down: bool,
}

/// All of them.
pub(super) struct Fleet {
    pub(super) nodes: Vec<SimNode>,
    pub(super) by_node: BTreeMap<NodeId, usize>,
    pub(super) agenda: BTreeSet<(u64, usize)>,
    pub(super) makers: Makers,
    pub(super) is_connected: bool,
    /// The next node to be told of the connection, and when.
    connecting: Option<(usize, u64)>,
    pub(super) superseded: usize,
    messages: Vec<AgentUp>,
    beats: Vec<Beat>,
    effects: VecDeque<AgentEffect>,
    pub(super) recorder: Recorder,
}

/// What the cores of a node that boots are made of.
pub(super) struct Makers {
    agent: AgentConfig,
    driver: DriverConfig,
    dice: Prng,
}

impl Makers {
    pub(super) fn agent(&mut self) -> AgentCore {
        AgentCore::new(self.agent.clone(), self.dice.fork())
    }

    pub(super) fn driver(&self) -> SimDriver {
        SimDriver::new(self.driver)
    }
}

impl Fleet {
    /// Nodes of these descriptions. The key of `identity` makes theirs, together with their names.
    pub(super) fn new(
        specs: Vec<NodeSpec>,
        identity: NodeIdentity,
        config: &AgentConfig,
        driver: DriverConfig,
        dice: Prng,
        recorder: Recorder,
    ) -> Self {
        let mut makers = Makers { agent: config.clone(), driver, dice };
        let mut node = |spec: NodeSpec| SimNode {
            spec_bytes: write(&spec),
            key: hash::chain(identity.key, hash::bytes(spec.name.as_bytes())),
            name: spec.name,
            // Each process counts the boots of its nodes from here on: those of the next one come after.
            boot: identity.boot << BOOTS_OF_A_NODE_BITS,
            agent: makers.agent(),
            driver: makers.driver(),
            due_ms: None,
            is_refused: false,
            is_superseded: false,
            is_down: false,
        };
        let nodes = specs.into_iter().map(&mut node).collect();
        Fleet {
            nodes,
            by_node: BTreeMap::new(),
            agenda: BTreeSet::new(),
            makers,
            is_connected: false,
            connecting: None,
            superseded: 0,
            messages: Vec::new(),
            beats: Vec::new(),
            effects: VecDeque::new(),
            recorder,
        }
    }

    /// Introduces every driver to its agent; before everything else.
    pub(super) fn attach(&mut self, now_ms: u64) {
        (0..self.nodes.len()).for_each(|local| self.drive(now_ms, local, DriverInput::Attach));
    }

    pub(super) fn connected(&mut self, now_ms: u64) {
        self.is_connected = true;
        self.connecting = Some((0, now_ms));
    }

    pub(super) fn disconnected(&mut self, now_ms: u64) {
        self.is_connected = false;
        self.connecting = None;
        (0..self.nodes.len()).for_each(|local| self.step(now_ms, local, AgentInput::Disconnected));
    }

    /// Whether newer processes have taken all nodes over.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded == self.nodes.len()
    }

    /// The next moment at which [`Self::turn`] has something to do.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let due_ms = self.agenda.first().map(|(due_ms, _)| *due_ms);
        due_ms.into_iter().chain(self.connecting.map(|(_, due_ms)| due_ms)).min()
    }

    pub(super) fn take(&mut self, now_ms: u64, order: Order) {
        match order {
            Order::Local { local, node, input } => {
                let Some(local) = usize::try_from(local).ok().filter(|local| *local < self.nodes.len()) else { return };
                if let AgentInput::Registered { .. } = input
                    && !self.nodes[local].is_down
                {
                    self.by_node.insert(node, local);
                    self.nodes[local].is_refused = false;
                }
                self.step(now_ms, local, input);
            }
            Order::Node { node, input } => {
                if let Some(&local) = self.by_node.get(&node) {
                    self.step(now_ms, local, input);
                }
            }
            Order::Answers(answers) => {
                for (node, answer) in answers {
                    if let Some(&local) = self.by_node.get(&node) {
                        self.step(now_ms, local, AgentInput::BeatAnswer(answer));
                    }
                }
            }
            Order::ReadLog(request) => {
                let reason = "this node is simulated: its tasks write nothing".to_string();
                self.messages.push(messages::log_piece(request.request, Err(reason)));
            }
            Order::MoreLog { .. } | Order::StopLog { .. } => {}
        }
    }

    /// Does what is due.
    pub(super) fn turn(&mut self, now_ms: u64) {
        if let Some((first, _)) = self.connecting.filter(|(_, due_ms)| *due_ms <= now_ms) {
            let end = (first + CONNECTS_PER_TURN).min(self.nodes.len());
            (first..end).for_each(|local| self.step(now_ms, local, AgentInput::Connected));
            self.connecting = (end < self.nodes.len()).then_some((end, now_ms + CONNECT_PAUSE_MS));
        }
        // Each node at most once, however short its pauses are.
        let due: Vec<usize> = self.agenda.range(..=(now_ms, usize::MAX)).map(|(_, local)| *local).collect();
        for local in due {
            self.drive(now_ms, local, DriverInput::Tick);
            self.step(now_ms, local, AgentInput::Tick);
        }
    }

    /// What is to be sent: all beats of the turn are one message.
    pub(super) fn take_messages(&mut self) -> Vec<AgentUp> {
        let mut messages = std::mem::take(&mut self.messages);
        if !self.beats.is_empty() {
            messages.push(messages::beats(std::mem::take(&mut self.beats)));
        }
        messages
    }

    /// Hands `input` to the agent of a node; where none is there any more it is lost.
    pub(super) fn step(&mut self, now_ms: u64, local: usize, input: AgentInput) {
        if self.nodes[local].is_down {
            return;
        }
        let mut effects = Vec::new();
        self.nodes[local].agent.step(now_ms, input, &mut effects);
        self.effects.extend(effects);
        self.perform(now_ms, local);
    }

    pub(super) fn drive(&mut self, now_ms: u64, local: usize, input: DriverInput) {
        if self.nodes[local].is_down {
            return;
        }
        self.tell_driver(now_ms, local, input);
        self.perform(now_ms, local);
    }

    /// Hands `input` to the driver, and what the driver says to the agent.
    fn tell_driver(&mut self, now_ms: u64, local: usize, input: DriverInput) {
        let node = &mut self.nodes[local];
        let (mut events, mut effects) = (Vec::<RunnerEvent>::new(), Vec::new());
        let witness = self.recorder.is_on().then(|| Witness::before(now_ms, &node.driver, &input));
        node.driver.step(now_ms, input, &mut events);
        if let Some(witness) = witness {
            witness.record(now_ms, &node.name, &events, &mut self.recorder);
        }
        events.into_iter().for_each(|event| node.agent.step(now_ms, AgentInput::Runner(event), &mut effects));
        self.effects.extend(effects);
    }

    /// Performs all effects of one node, and those that follow from them; then finds its new place in the agenda.
    fn perform(&mut self, now_ms: u64, local: usize) {
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                AgentEffect::Register { instance, alive } => {
                    let node = &self.nodes[local];
                    let (spec, key, boot) = (node.spec_bytes.clone(), node.key, node.boot);
                    self.messages.push(messages::register(local as u64, spec, key, (instance, boot), &alive));
                }
                AgentEffect::RegisterRefused(refusal) => {
                    let node = &mut self.nodes[local];
                    if !std::mem::replace(&mut node.is_refused, true) {
                        tracing::warn!(node = node.name, %refusal, "not registered; trying again");
                    }
                }
                AgentEffect::Beat { node, incarnation, sequence, .. } => {
                    self.beats.push(messages::beat(node, incarnation, sequence));
                }
                AgentEffect::SendReports { batch, node, reports } => {
                    self.messages.push(messages::reports(node, batch, &reports));
                }
                AgentEffect::SendConditions { number, node, incarnation, conditions } => {
                    self.messages.push(messages::conditions(node, incarnation, number, &conditions));
                }
                // Simulated tasks read nothing.
                AgentEffect::TellPeers { .. } => {}
                AgentEffect::Probe(order) => self.tell_driver(now_ms, local, DriverInput::Probe(order)),
                AgentEffect::StartRun { incarnation, wanted } => {
                    self.tell_driver(now_ms, local, DriverInput::Start { incarnation, wanted });
                }
                AgentEffect::StopRun { run, grace_ms } => {
                    self.tell_driver(now_ms, local, DriverInput::Stop { run, grace_ms });
                }
                AgentEffect::ForgetRun { run } => self.tell_driver(now_ms, local, DriverInput::Forget { run }),
                AgentEffect::WriteLease(file) => self.tell_driver(now_ms, local, DriverInput::Lease(file)),
                AgentEffect::Superseded => {
                    let node = &mut self.nodes[local];
                    tracing::warn!(node = node.name, "a newer agent process has this node now");
                    node.is_superseded = true;
                    self.superseded += 1;
                }
            }
        }
        self.reschedule(local);
    }

    fn reschedule(&mut self, local: usize) {
        let node = &mut self.nodes[local];
        let due_ms = node.agent.due_ms().into_iter().chain(node.driver.due_ms()).min();
        if node.due_ms == due_ms {
            return;
        }
        if let Some(former_ms) = std::mem::replace(&mut node.due_ms, due_ms) {
            self.agenda.remove(&(former_ms, local));
        }
        self.agenda.extend(due_ms.map(|due_ms| (due_ms, local)));
    }
}

#[cfg(test)]
mod tests;
