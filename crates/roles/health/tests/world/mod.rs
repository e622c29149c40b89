//! A small world: a cell, nodes with an agent and a driver each, candidates for the health duty, drifting clocks, and a
//! network that loses, delays and reorders.

pub(crate) mod cell;
mod step;

use cell::{Cell, DutyState, NodeState};
use ohm_agent::{AgentConfig, AgentCore, AgentInput, BeatAnswer, DriverConfig, DriverInput, SimDriver, WantedSet};
use ohm_client::{LeaseConfig, Member, MemberConfig, SessionInput};
use ohm_health::{BeatMark, HealthConfig, HealthCore};
use ohm_model::{Envelope, Incarnation, NodeId, Role, RunReport};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const DUTY_LEASE_MS: u64 = 800;
pub(crate) const FAULTS_END_MS: u64 = 25_000;
pub(crate) const END_MS: u64 = 40_000;

/// How many kinds of faults there are.
pub(crate) const FAULTS: usize = 10;

/// What a broken implementation would do, to see that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    Nothing,
    /// Answers grant half a lease more than is waited for.
    GenerousAnswers,
    /// Servers acknowledge beats by themselves.
    ServersAnswer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start_ms: u64,
    rate_permille: u64,
}

impl Clock {
    fn draw(dice: &mut Prng) -> Self {
        Clock { start_ms: dice.below(100_000), rate_permille: dice.between(990, 1010) }
    }

    pub(crate) fn read(&self, real_ms: u64) -> u64 {
        self.start_ms + real_ms * self.rate_permille / 1000
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    Ask(usize, Envelope),
    Tell(usize, SessionInput),
    Register(NodeId, u64),
    Beat(usize, BeatMark),
    Reports(NodeId, u64, Vec<RunReport>),
    ToAgent(NodeId, AgentInput),
}

pub(crate) struct Node {
    pub(crate) agent: AgentCore,
    pub(crate) driver: SimDriver,
    pub(crate) clock: Clock,
    pub(crate) inbox: VecDeque<AgentInput>,
    pub(crate) paused_until_ms: u64,
    pub(crate) old_set: Option<WantedSet>,
}

/// What changed in the cell, on its way to a candidate's copy.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) nodes: Vec<(NodeId, NodeState)>,
    pub(crate) duty: DutyState,
    pub(crate) laid: (u64, bool),
}

pub(crate) struct Candidate {
    pub(crate) member: Member<()>,
    pub(crate) health: HealthCore,
    pub(crate) clock: Clock,
    pub(crate) inbox: VecDeque<Message>,
    pub(crate) copies: VecDeque<(u64, Change)>,
    pub(crate) paused_until_ms: u64,
}

pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) dice: Prng,
    pub(crate) plant: Plant,
    pub(crate) cell: Cell,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) candidates: Vec<Candidate>,
    due: BTreeMap<(u64, u64), Message>,
    number: u64,
    pub(crate) loss_permille: u64,
    pub(crate) delay_ms_max: u64,
    /// How far copies may lag behind the cell.
    pub(crate) lag_ms_max: u64,
    /// How often each kind of fault happens, per 10,000 ms.
    pub(crate) rates: [u64; FAULTS],
    /// Links that carry nothing from, and nothing to their node.
    pub(crate) cut_from: BTreeSet<NodeId>,
    pub(crate) cut_to: BTreeSet<NodeId>,
    pub(crate) shown_nodes: BTreeMap<NodeId, NodeState>,
    pub(crate) shown_index: u64,
    pub(crate) violations: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64, plant: Plant) -> Self {
        let mut dice = Prng::new(seed);
        let count = dice.between(2, 6) as u32;
        let loss_permille = dice.below(150);
        let delay_ms_max = *dice.pick(&[3, 20, 60]).unwrap_or(&3);
        let lag_ms_max = *dice.pick(&[10, 100, 2000]).unwrap_or(&10);
        let rates = [(); FAULTS].map(|()| *dice.pick(&[0, 2, 5, 20]).unwrap_or(&0));
        let cell = Cell::new(dice.fork(), count);
        let mut world = World {
            now_ms: 0,
            dice,
            plant,
            cell,
            nodes: BTreeMap::new(),
            candidates: Vec::new(),
            due: BTreeMap::new(),
            number: 0,
            loss_permille,
            delay_ms_max,
            lag_ms_max,
            rates,
            cut_from: BTreeSet::new(),
            cut_to: BTreeSet::new(),
            shown_nodes: BTreeMap::new(),
            shown_index: 0,
            violations: Vec::new(),
        };
        (0..world.dice.between(2, 3)).for_each(|_| {
            let candidate = world.candidate();
            world.candidates.push(candidate);
        });
        (0..count).for_each(|id| world.add_node(NodeId(id)));
        (0..world.candidates.len()).for_each(|number| world.tell_member(number, SessionInput::Connected));
        world
    }

    fn add_node(&mut self, id: NodeId) {
        let node = Node {
            agent: self.agent(),
            driver: SimDriver::new(DriverConfig {
                stop_ms: self.dice.below(60),
                fence_lead_ms: 400,
                ..DriverConfig::default()
            }),
            clock: Clock::draw(&mut self.dice),
            inbox: VecDeque::from([AgentInput::Connected]),
            paused_until_ms: 0,
            old_set: None,
        };
        self.nodes.insert(id, node);
        self.drive(id, DriverInput::Attach);
    }

    pub(crate) fn agent(&mut self) -> AgentCore {
        let config = AgentConfig {
            beat_interval_ms: 200,
            register_retry_ms: 300,
            report_resend_ms: 200,
            ..AgentConfig::default()
        };
        AgentCore::new(config, self.dice.fork())
    }

    pub(crate) fn candidate(&mut self) -> Candidate {
        let leases = LeaseConfig::health(DUTY_LEASE_MS);
        let config =
            MemberConfig { role: Role::Health, name: "test".into(), resend_ms: 150, resend_ms_max: 600, leases };
        let health = HealthConfig {
            // Candidates that don't agree must not be dangerous.
            node_lease_ms: *self.dice.pick(&[3000, 3000, 2500, 1980]).unwrap_or(&3000),
            duty_lease_ms: DUTY_LEASE_MS,
            resend_ms: 150,
            beat_interval_ms: 200,
            margin_ms: 60,
            gather_ms: 50,
            retry_ms: 300,
            brake_ms: 2000,
            ..HealthConfig::default()
        };
        Candidate {
            member: Member::new(config, self.dice.fork()),
            health: HealthCore::new(health),
            clock: Clock::draw(&mut self.dice),
            inbox: VecDeque::new(),
            copies: VecDeque::new(),
            paused_until_ms: 0,
        }
    }

    /// Sends something; `id` names the node whose link it takes, if any.
    pub(crate) fn send(&mut self, id: Option<NodeId>, message: Message) {
        let cut = if let Message::ToAgent(..) = message { &self.cut_to } else { &self.cut_from };
        if id.is_some_and(|id| cut.contains(&id)) || self.dice.chance(self.loss_permille) {
            return;
        }
        let slow_ms = if self.loss_permille > 0 && self.dice.chance(20) { self.dice.below(4000) } else { 0 };
        let at_ms = self.now_ms + 1 + self.dice.below(self.delay_ms_max) + slow_ms;
        self.number += 1;
        self.due.insert((at_ms, self.number), message);
    }

    pub(crate) fn arrived(&mut self) -> Option<Message> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= self.now_ms)?;
        Some(entry.remove())
    }

    /// An answer on its way to an agent, as the planted fault makes it.
    pub(crate) fn answer(&self, mut answer: BeatAnswer) -> BeatAnswer {
        if self.plant == Plant::GenerousAnswers {
            answer.lease_ms += answer.lease_ms / 2;
        }
        answer
    }

    /// What a server that acknowledges by itself would say.
    pub(crate) fn own_answer(&self, incarnation: Incarnation, sequence: u64) -> Option<BeatAnswer> {
        let duty_epoch = self.cell.duty.epoch;
        (self.plant == Plant::ServersAnswer).then_some(BeatAnswer {
            incarnation,
            duty_epoch,
            sequence,
            lease_ms: 2500,
            interval_ms: 200,
        })
    }
}
