//! The scheduler core: its state, and how inputs become effects.

use crate::counters::Counters;
use crate::explain::Explanation;
use crate::flight::Flights;
use crate::holds::Holds;
use crate::input::{Effect, Input, SchedulerConfig};
use crate::planner::Planner;
use crate::view::View;
use ohm_cell::{Applied, Cell};
use ohm_client::{LeaseConfig, LeaseSeen, Member, MemberConfig, MemberEffect, MemberInput};
use ohm_model::{Envelope, Epoch, Index, JobId, Lease, NodeId, Role, Sequence, SessionId, Shard, Verdict};
use ohm_queueing::Backlog;
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a job stands with this scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Its shard is not held here, or it needs nothing.
    Absent,
    /// Its plan is under way.
    InFlight,
    /// It will be looked at.
    Waiting {
        /// How many jobs of its queue go before it.
        ahead: usize,
        /// Why it, or an equal job before it, was not placed when that was looked at last.
        explanation: Option<&'a Explanation>,
    },
}

/// One scheduler replica:
///
/// ```text
/// log ─▶ own copy ─▶ backlog ─take─▶ planner ─▶ batches ─▶ holds + session ─▶ servers ─▶ log
///           ▲                                                                             │
///           └───────── verdict: done, or again at once, or parked ◀───────────────────────┘
/// ```
#[derive(Debug)]
pub struct SchedulerCore<P> {
    pub(crate) config: SchedulerConfig,
    pub(crate) planner: P,
    pub(crate) dice: Prng,
    pub(crate) member: Member<u64>,
    pub(crate) cell: Cell,
    pub(crate) applied: Applied,
    pub(crate) holds: Holds,
    pub(crate) flights: Flights,
    pub(crate) backlog: Backlog<Explanation>,
    /// How many plans of a job collided in a row.
    pub(crate) attempts: BTreeMap<JobId, u32>,
    /// How many second passes of a job found no room in a row.
    pub(crate) second_passes: BTreeMap<JobId, u32>,
    /// The shards whose jobs are in the backlog, as the member told it.
    pub(crate) shards: BTreeMap<Shard, Epoch>,
    /// Gained in this step; their jobs are gathered at its end.
    pub(crate) gained: BTreeSet<Shard>,
    /// On how many nodes room was kept at the last entry.
    pub(crate) nominated_nodes: usize,
    pub(crate) changes: Changes,
    pub(crate) leases_told: BTreeMap<Lease, LeaseSeen>,
    pub(crate) peers_told: Vec<(SessionId, Index)>,
    pub(crate) counters: Counters,
    pub(crate) sweep_due_ms: u64,
    pub(crate) sweeping: bool,
    /// The sequence of the direct answer that is being handed to the member.
    pub(crate) answering: Option<Sequence>,
    /// Verdicts that came before their entries.
    pub(crate) early: BTreeMap<Sequence, (u64, Verdict)>,
    again_asked: bool,
    closing: bool,
}

/// What changed since the planner was told last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) nodes: BTreeSet<NodeId>,
    pub(crate) jobs: BTreeSet<JobId>,
    /// Everything.
    pub(crate) all: bool,
    /// Nodes that may have more room than before.
    pub(crate) improved: BTreeSet<NodeId>,
    /// How often any node got better.
    pub(crate) improvements: u64,
    /// Roots of quota trees to which something was given back.
    pub(crate) quota: BTreeSet<Arc<str>>,
}

impl<P: Planner> SchedulerCore<P> {
    /// A core with an empty copy of the cell and no session. `dice` must differ between processes.
    pub fn new(config: SchedulerConfig, planner: P, mut dice: Prng) -> Self {
        let class = planner.class();
        let member = MemberConfig {
            role: Role::Scheduler(class),
            name: config.name.clone(),
            resend_ms: config.resend_ms,
            resend_ms_max: config.resend_ms_max,
            leases: LeaseConfig::shards(class, config.lease_ms),
        };
        SchedulerCore {
            member: Member::new(member, dice.fork()),
            config,
            planner,
            dice,
            cell: Cell::new(),
            applied: Applied::default(),
            holds: Holds::default(),
            flights: Flights::default(),
            backlog: Backlog::default(),
            attempts: BTreeMap::new(),
            second_passes: BTreeMap::new(),
            shards: BTreeMap::new(),
            gained: BTreeSet::new(),
            nominated_nodes: 0,
            changes: Changes { all: true, ..Changes::default() },
            leases_told: BTreeMap::new(),
            peers_told: Vec::new(),
            counters: Counters::default(),
            sweep_due_ms: 0,
            sweeping: false,
            answering: None,
            early: BTreeMap::new(),
            again_asked: false,
            closing: false,
        }
    }

    /// The own copy of the cell.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The open session.
    pub fn session(&self) -> Option<SessionId> {
        self.member.session()
    }

    /// The shards whose jobs are placed here.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + '_ {
        self.shards.keys().copied()
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many jobs wait here, those in flight not counted.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// How many transactions are under way.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Why `job`, or an equal one before it, was not placed when that was looked at last.
    pub fn explain(&self, job: JobId) -> Option<&Explanation> {
        self.backlog.note(job)
    }

    /// Where `job` stands. Costs a pass over the backlog: for people who ask.
    pub fn standing(&self, job: JobId) -> Standing<'_> {
        if self.flights.has(job) {
            return Standing::InFlight;
        }
        match self.backlog.ahead(job) {
            None => Standing::Absent,
            Some(ahead) => Standing::Waiting { ahead, explanation: self.backlog.note(job) },
        }
    }

    /// Takes one input at `now_ms` of the own monotonic clock, read after the input arrived.
    pub fn step(&mut self, now_ms: u64, input: Input, out: &mut Vec<Effect>) {
        self.counters.steps += 1;
        match input {
            Input::Snapshot(cell) => self.replace(now_ms, *cell, out),
            Input::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            Input::Skipped(index) => {
                self.cell.skip_to(index);
                self.backlog.reached(index);
            }
            Input::Answer { session, sequence, outcome } => {
                self.on_direct_answer(now_ms, session, sequence, outcome, out);
            }
            Input::OpenAnswer { nonce, outcome } => {
                self.tell_member(now_ms, MemberInput::OpenAnswer { nonce, outcome }, out);
            }
            Input::Connected => self.tell_member(now_ms, MemberInput::Connected, out),
            Input::Disconnected => self.tell_member(now_ms, MemberInput::Disconnected, out),
            Input::Proceed => {
                self.again_asked = false;
                self.proceed(now_ms, out);
            }
            Input::Tick => self.tick(now_ms, out),
            Input::Close => {
                self.closing = true;
                self.tell_member(now_ms, MemberInput::Close, out);
            }
        }
        self.gather();
        if !self.again_asked && self.has_work() {
            self.again_asked = true;
            out.push(Effect::Again);
        }
    }

    /// Whether `Proceed` would do something.
    fn has_work(&self) -> bool {
        let wakes = !self.changes.improved.is_empty() || !self.changes.quota.is_empty() || self.sweeping;
        !self.closing && !self.shards.is_empty() && (wakes || (self.backlog.has_ready() && self.has_room()))
    }

    /// Whether one more transaction may be under way.
    pub(crate) fn has_room(&self) -> bool {
        let flights = self.flights.len() < self.config.transactions_in_flight;
        flights && self.member.session().is_some() && self.member.room() > 0
    }

    fn tick(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        if self.leases_told.is_empty() {
            // A cell without entries yet: nobody holds anything.
            self.tell_leases(now_ms, out);
        }
        self.tell_member(now_ms, MemberInput::Tick, out);
        self.backlog.due(now_ms);
        if now_ms >= self.sweep_due_ms {
            self.sweep_due_ms = now_ms.saturating_add(self.config.sweep_ms);
            self.sweeping = true;
            self.counters.sweeps += 1;
        }
    }

    /// The picture a planner is shown now.
    pub(crate) fn view<'a>(cell: &'a Cell, holds: &'a Holds, member: &Member<u64>) -> View<'a> {
        View::new(cell, holds, member.session().unwrap_or_default())
    }

    /// Hands `input` to the member and follows what it wants.
    pub(crate) fn tell_member(&mut self, now_ms: u64, input: MemberInput<u64>, out: &mut Vec<Effect>) {
        let mut effects = Vec::new();
        self.member.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                MemberEffect::Send(envelopes) => send(envelopes, out),
                MemberEffect::Answered { tag, outcome } => self.on_answer(now_ms, tag, outcome),
                MemberEffect::Lost { tag } => {
                    self.counters.lost += 1;
                    self.abandon(tag);
                }
                MemberEffect::Busy { tag, .. } => self.abandon(tag),
                MemberEffect::Opened(session) => out.push(Effect::Opened(session)),
                MemberEffect::OpenRefused(refusal) => out.push(Effect::OpenRefused(refusal)),
                MemberEffect::Gone => {
                    self.land_early(now_ms);
                    out.push(Effect::SessionGone);
                }
                MemberEffect::Gained { lease: Lease::Shard(shard), epoch } => {
                    self.shards.insert(shard, epoch);
                    self.gained.insert(shard);
                    out.push(Effect::Gained(shard));
                }
                MemberEffect::Dropped { lease: Lease::Shard(shard), .. } => {
                    self.shards.remove(&shard);
                    self.gained.remove(&shard);
                    self.backlog.drop_shard(shard);
                    out.push(Effect::Dropped(shard));
                }
                MemberEffect::Gained { .. } | MemberEffect::Dropped { .. } => {}
                MemberEffect::Closed => out.push(Effect::Closed),
            }
        }
    }
}

/// Sends envelopes, together with those sent just before.
fn send(envelopes: Vec<Envelope>, out: &mut Vec<Effect>) {
    match out.last_mut() {
        Some(Effect::Send(before)) => before.extend(envelopes),
        _ => out.push(Effect::Send(envelopes)),
    }
}
