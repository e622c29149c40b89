//! A candidate for the health duty as a follower of the log: its own copy of the cell, its session and lease, and the
//! health core that concludes and answers while the lease runs.

use crate::config::HealthConfig;
use crate::core::{BeatMark, Effect as HealthEffect, HealthCore, Input as HealthInput, NodeSeen};
use ohm_cell::{Applied, Cell};
use ohm_client::{LeaseConfig, LeaseSeen, Member, MemberConfig, MemberEffect, MemberInput};
use ohm_model::{
    Entry, Envelope, Epoch, Incarnation, Index, Lease, NodeHealth, NodeId, Outcome, Role, Sequence, SessionId,
};
use ohm_stdx::Prng;

/// How a candidate works.
#[derive(Clone, Debug)]
pub struct DutyConfig {
    /// For people: host and process.
    pub name: String,
    /// How long the duty's lease lasts; well below the node lease.
    pub duty_lease_ms: u64,
    /// An unanswered command is sent again after this long.
    pub resend_ms: u64,
    /// How patient the duty is.
    pub health: HealthConfig,
}

/// What a candidate is told.
#[derive(Clone, Debug)]
pub enum DutyInput {
    /// The own copy is replaced by this one, restored from a snapshot.
    Snapshot(Box<Cell>),
    /// The next entry of the log. An entry that the copy contains already is passed over.
    Entry {
        /// Its index.
        index: Index,
        /// What it holds.
        entry: Entry,
    },
    /// A server's own answer to a command.
    Answer {
        /// The session the command was sent under.
        session: SessionId,
        /// Its number.
        sequence: Sequence,
        /// The answer.
        outcome: Outcome,
    },
    /// A server's own answer to `OpenSession`.
    OpenAnswer {
        /// The nonce of the command.
        nonce: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// A server can be reached.
    Connected,
    /// No server can be reached.
    Disconnected,
    /// Beats that a server relays.
    Beats {
        /// Which server or connection; answers go back there.
        relay: u64,
        /// The beats.
        beats: Vec<BeatMark>,
    },
    /// Time passes; several times per second.
    Tick,
    /// Stop: the duty and the session are given back.
    Close,
}

/// What a candidate wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DutyEffect {
    /// To a server, in this order.
    Send(Vec<Envelope>),
    /// The session under which this candidate competes; servers relay beats to the one that holds the duty.
    Opened(SessionId),
    /// To be relayed to the agents.
    Answers {
        /// Where the beats came from.
        relay: u64,
        /// The epoch of the duty.
        duty_epoch: Epoch,
        /// The lease granted, from the sending of each beat.
        lease_ms: u64,
        /// The wished time between two beats.
        interval_ms: u64,
        /// The beats answered.
        answers: Vec<BeatMark>,
    },
    /// Very many nodes are missing at once; conclusions wait for a while.
    BrakeEngaged {
        /// How many are missing.
        count: usize,
    },
    /// The duty is held from now on, or not any more.
    Duty {
        /// Which.
        held: bool,
    },
    /// The session is closed, as wished.
    Closed,
}

/// One candidate.
pub struct DutyCore {
    cell: Cell,
    member: Member<()>,
    health: HealthCore,
    lease_told: Option<LeaseSeen>,
    laid_told: Option<(u64, bool)>,
    applied: Applied,
}

impl DutyCore {
    /// A candidate without a copy. `dice` must differ between processes.
    pub fn new(config: DutyConfig, dice: Prng) -> Self {
        let member = MemberConfig {
            role: Role::Health,
            name: config.name,
            resend_ms: config.resend_ms,
            resend_ms_max: config.resend_ms * 8,
            leases: LeaseConfig::health(config.duty_lease_ms),
        };
        DutyCore {
            cell: Cell::new(),
            member: Member::new(member, dice),
            health: HealthCore::new(config.health),
            lease_told: None,
            laid_told: None,
            applied: Applied::default(),
        }
    }

    /// The own copy.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Whether the duty may be acted on at `now_ms`.
    pub fn holds_duty(&self, now_ms: u64) -> bool {
        self.member.held(Lease::Health, now_ms).is_some()
    }

    /// Takes one input at `now_ms` of the own monotonic clock.
    pub fn step(&mut self, now_ms: u64, input: DutyInput, out: &mut Vec<DutyEffect>) {
        self.feed_duty(now_ms, out);
        match input {
            DutyInput::Snapshot(cell) => self.replace(now_ms, *cell, out),
            DutyInput::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            DutyInput::Answer { session, sequence, outcome } => {
                self.feed_member(now_ms, MemberInput::Answer { session, sequence, outcome }, out);
            }
            DutyInput::OpenAnswer { nonce, outcome } => {
                self.feed_member(now_ms, MemberInput::OpenAnswer { nonce, outcome }, out);
            }
            DutyInput::Connected => self.feed_member(now_ms, MemberInput::Connected, out),
            DutyInput::Disconnected => self.feed_member(now_ms, MemberInput::Disconnected, out),
            DutyInput::Beats { relay, beats } => self.feed_health(now_ms, HealthInput::Beats { relay, beats }, out),
            DutyInput::Tick => {
                self.feed_member(now_ms, MemberInput::Tick, out);
                self.feed_duty(now_ms, out);
                self.feed_health(now_ms, HealthInput::Tick, out);
            }
            DutyInput::Close => self.feed_member(now_ms, MemberInput::Close, out),
        }
        self.feed_duty(now_ms, out);
    }

    fn replace(&mut self, now_ms: u64, cell: Cell, out: &mut Vec<DutyEffect>) {
        // Of another server, perhaps, that lags behind the one followed before: a copy never steps back.
        if cell.applied() < self.cell.applied() {
            return;
        }
        let former = std::mem::replace(&mut self.cell, cell);
        let slots = self.cell.nodes().slots().max(former.nodes().slots());
        let nodes: Vec<NodeId> = (0..slots as u32).map(NodeId).collect();
        self.tell_nodes(now_ms, &nodes, out);
        self.tell_lease(now_ms, out);
    }

    fn follow(&mut self, now_ms: u64, index: Index, entry: &Entry, out: &mut Vec<DutyEffect>) {
        if index <= self.cell.applied() {
            return;
        }
        let mut applied = std::mem::take(&mut self.applied);
        self.cell.apply(index, entry, &mut applied);
        self.tell_nodes(now_ms, &applied.nodes, out);
        for (envelope, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if let Some(input) = self.member.heard(envelope, outcome) {
                self.feed_member(now_ms, input, out);
            }
        }
        self.applied = applied;
        self.tell_lease(now_ms, out);
    }

    fn tell_nodes(&mut self, now_ms: u64, nodes: &[NodeId], out: &mut Vec<DutyEffect>) {
        let laid = self.cell.health();
        let (lease_bound_ms, held) = (laid.lease_bound_ms, laid.silent > 0);
        if self.laid_told.replace((lease_bound_ms, held)) != Some((lease_bound_ms, held)) {
            self.feed_health(now_ms, HealthInput::Laid { lease_bound_ms, held }, out);
        }
        let seen = |node: &NodeId| match self.cell.nodes().get(*node) {
            Some(record) => {
                NodeSeen { node: *node, incarnation: record.incarnation, health: record.health, removed: false }
            }
            None => NodeSeen { node: *node, incarnation: Incarnation(0), health: NodeHealth::Lost, removed: true },
        };
        let nodes: Vec<NodeSeen> = nodes.iter().map(seen).collect();
        if !nodes.is_empty() {
            let slots = self.cell.nodes().slots() as u32;
            self.feed_health(now_ms, HealthInput::NodesSeen { slots, nodes }, out);
        }
    }

    fn tell_lease(&mut self, now_ms: u64, out: &mut Vec<DutyEffect>) {
        let state = self.cell.sessions().lease(Lease::Health);
        let (holder, epoch, renewed) = (state.holder, state.epoch, state.renewed);
        let seen = LeaseSeen { lease: Lease::Health, holder, epoch, renewed };
        if self.lease_told != Some(seen) {
            self.lease_told = Some(seen);
            self.feed_member(now_ms, MemberInput::LeaseSeen(seen), out);
        }
    }

    /// Tells the health core how long the duty is held, as the keeper has it now.
    fn feed_duty(&mut self, now_ms: u64, out: &mut Vec<DutyEffect>) {
        let held = self.member.held(Lease::Health, now_ms);
        self.feed_health(now_ms, HealthInput::Duty(held), out);
    }

    fn feed_health(&mut self, now_ms: u64, input: HealthInput, out: &mut Vec<DutyEffect>) {
        let mut effects = Vec::new();
        self.health.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                HealthEffect::Conclude(commands) => {
                    // What the session has no room for is concluded again by the next ticks.
                    for command in commands {
                        self.feed_member(now_ms, MemberInput::Submit { tag: (), command }, out);
                    }
                }
                HealthEffect::Answers { relay, duty_epoch, lease_ms, interval_ms, answers } => {
                    out.push(DutyEffect::Answers { relay, duty_epoch, lease_ms, interval_ms, answers });
                }
                HealthEffect::BrakeEngaged { count } => out.push(DutyEffect::BrakeEngaged { count }),
            }
        }
    }

    fn feed_member(&mut self, now_ms: u64, input: MemberInput<()>, out: &mut Vec<DutyEffect>) {
        let mut effects = Vec::new();
        self.member.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                MemberEffect::Send(envelopes) => out.push(DutyEffect::Send(envelopes)),
                MemberEffect::Opened(session) => out.push(DutyEffect::Opened(session)),
                MemberEffect::Gained { .. } => out.push(DutyEffect::Duty { held: true }),
                MemberEffect::Dropped { .. } => out.push(DutyEffect::Duty { held: false }),
                MemberEffect::Closed => out.push(DutyEffect::Closed),
                MemberEffect::Answered { .. }
                | MemberEffect::Lost { .. }
                | MemberEffect::Busy { .. }
                | MemberEffect::OpenRefused(_)
                | MemberEffect::Gone => {}
            }
        }
    }
}
