//! The scheduler core: its state, and how inputs become effects.

use crate::abroad::{Abroad, Ceding};
use crate::cost::CellSize;
use crate::counters::Counters;
use crate::explain::Explanation;
use crate::flight::Flights;
use crate::heads::Heads;
use crate::holds::Holds;
use crate::input::{Again, Proceed, SchedulerConfig, SchedulerEffect, SchedulerInput};
use crate::planner::Planner;
use crate::victims::live::LiveJobs;
use crate::view::View;
use ohm_cell::Cell;
use ohm_client::{Follower, FollowerCore, LeaseConfig, Member, MemberConfig, MemberEffect, SessionInput};
use ohm_model::{Envelope, Epoch, Index, JobId, Lease, NodeId, Role, SessionId, Shard};
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
    pub(crate) follower: Follower<u64>,
    pub(crate) holds: Holds,
    pub(crate) flights: Flights,
    pub(crate) backlog: Backlog<Explanation>,
    /// How many plans of a job collided in a row.
    pub(crate) attempts: BTreeMap<JobId, u32>,
    /// Jobs that found no room, and may become heads of their lines.
    pub(crate) heads: Heads,
    /// The jobs that stand, for those that look for room where others are.
    pub(crate) live: LiveJobs,
    /// How many pieces this pass has looked at that might be stopped for room.
    pub(crate) pieces_sought: usize,
    /// Lines of which others have work.
    pub(crate) abroad: Abroad,
    /// Queues in which quota is left to jobs of others.
    pub(crate) ceding: Ceding,
    /// How many second passes of a job found no room in a row.
    pub(crate) second_passes: BTreeMap<JobId, u32>,
    /// The shards whose jobs are in the backlog, as the member told it.
    pub(crate) shards: BTreeMap<Shard, Epoch>,
    /// Gained in this step; their jobs are gathered at its end.
    pub(crate) gained: BTreeSet<Shard>,
    pub(crate) changes: Changes,
    /// The entry at which the parts of lines got their keys last.
    pub(crate) keyed_at: Option<Index>,
    /// In which order the parts of StrictFIFO lines were seen last.
    pub(crate) part_order: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// What turns of queues are paid in.
    pub(crate) size: CellSize,
    pub(crate) counters: Counters,
    pub(crate) sweep_due_ms: u64,
    pub(crate) sweeping: bool,
    /// Whether groups of the cell asked for something of the tasks around them when it was looked at last.
    pub(crate) neighbour_rules: bool,
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
    /// Whether tasks may stand beside others where they could not before.
    pub(crate) neighbours: bool,
    /// How often any node got better.
    pub(crate) improvements: u64,
    /// Roots of quota trees to which something was given back.
    pub(crate) quota: BTreeSet<Arc<str>>,
}

/// Whether the cell knows the class that `core` serves; yes as long as the core has not read its own session.
pub fn is_class_known<P: Planner>(core: &SchedulerCore<P>) -> bool {
    core.session().is_none() || core.follower.cell().profiles().kind(core.planner.class()).is_some()
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
            follower: Follower::new(member, dice.fork()),
            config,
            planner,
            dice,
            holds: Holds::default(),
            flights: Flights::default(),
            backlog: Backlog::default(),
            attempts: BTreeMap::new(),
            heads: Heads::default(),
            live: LiveJobs::default(),
            pieces_sought: 0,
            abroad: Abroad::default(),
            ceding: Ceding::default(),
            second_passes: BTreeMap::new(),
            shards: BTreeMap::new(),
            gained: BTreeSet::new(),
            changes: Changes { all: true, ..Changes::default() },
            size: CellSize::default(),
            counters: Counters::default(),
            keyed_at: None,
            part_order: BTreeMap::new(),
            sweep_due_ms: 0,
            sweeping: false,
            neighbour_rules: false,
            again_asked: false,
            closing: false,
        }
    }

    /// The open session.
    pub fn session(&self) -> Option<SessionId> {
        self.follower.member().session()
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

    /// Whether [`Proceed`] would do something.
    fn has_work(&self) -> bool {
        let changes = &self.changes;
        let wakes = !changes.improved.is_empty() || !changes.quota.is_empty() || changes.neighbours || self.sweeping;
        !self.closing && !self.shards.is_empty() && (wakes || (self.backlog.has_ready() && self.has_room()))
    }

    /// Whether one more transaction may be under way.
    pub(crate) fn has_room(&self) -> bool {
        let flights = self.flights.len() < self.config.transactions_in_flight;
        flights && self.follower.member().session().is_some() && self.follower.member().room() > 0
    }

    fn step_session(&mut self, now_ms: u64, input: SessionInput, out: &mut Vec<SchedulerEffect>) {
        match input {
            SessionInput::Answer { session, sequence, outcome } => {
                return self.on_direct_answer(now_ms, session, sequence, outcome, out);
            }
            SessionInput::Tick => return self.tick(now_ms, out),
            SessionInput::Close => self.closing = true,
            SessionInput::OpenAnswer { .. } | SessionInput::Connected | SessionInput::Disconnected => {}
        }
        self.with_follower(now_ms, out, |follower, effects| follower.step(now_ms, input, effects));
    }

    fn tick(&mut self, now_ms: u64, out: &mut Vec<SchedulerEffect>) {
        self.with_follower(now_ms, out, |follower, effects| {
            if !follower.has_told_leases() {
                // A cell without entries yet: nobody holds anything.
                follower.tell_leases(now_ms, effects);
            }
            follower.step(now_ms, SessionInput::Tick, effects);
        });
        self.backlog.due(now_ms);
        self.abroad.look(now_ms, &mut self.backlog, (self.follower.cell(), &self.shards));
        self.changes.quota.extend(self.ceding.due(now_ms));
        self.heads.due(self.follower.cell().now_ms()).into_iter().for_each(|job| self.backlog.wake(job));
        if now_ms >= self.sweep_due_ms {
            self.sweep_due_ms = now_ms.saturating_add(self.config.sweep_ms);
            self.sweeping = true;
            self.size = CellSize::of(self.follower.cell());
            self.counters.sweeps += 1;
        }
    }

    /// The picture a planner is shown now.
    pub(crate) fn view<'a>(cell: &'a Cell, holds: &'a mut Holds, member: &Member<u64>) -> View<'a> {
        holds.view(cell, member.session().unwrap_or_default())
    }

    /// Lets the follower do something, and follows what comes of it.
    pub(crate) fn with_follower(
        &mut self,
        now_ms: u64,
        out: &mut Vec<SchedulerEffect>,
        act: impl FnOnce(&mut Follower<u64>, &mut Vec<MemberEffect<u64>>),
    ) {
        let mut effects = Vec::new();
        act(&mut self.follower, &mut effects);
        for effect in effects {
            self.perform(now_ms, effect, out);
        }
    }

    pub(crate) fn perform(&mut self, now_ms: u64, effect: MemberEffect<u64>, out: &mut Vec<SchedulerEffect>) {
        match effect {
            MemberEffect::Send(envelopes) => return send(envelopes, out),
            MemberEffect::Answered { tag, outcome } => return self.on_answer(now_ms, tag, outcome),
            MemberEffect::Lost { tag } => {
                self.counters.lost += 1;
                return self.abandon(tag);
            }
            MemberEffect::Busy { tag, .. } => return self.abandon(tag),
            MemberEffect::Gone => self.land_judged(now_ms),
            MemberEffect::Gained { lease: Lease::Shard(shard), epoch } => {
                self.shards.insert(shard, epoch);
                self.gained.insert(shard);
                self.abroad.change();
            }
            MemberEffect::Dropped { lease: Lease::Shard(shard), .. } => {
                self.shards.remove(&shard);
                self.gained.remove(&shard);
                self.backlog.drop_shard(shard);
                self.abroad.change();
            }
            _ => {}
        }
        out.extend(effect.told());
    }
}

impl<P: Planner> FollowerCore for SchedulerCore<P> {
    type Input = Proceed;
    type Effect = Again;

    fn cell(&self) -> &Cell {
        self.follower.cell()
    }

    fn step(&mut self, now_ms: u64, input: SchedulerInput, out: &mut Vec<SchedulerEffect>) {
        self.counters.steps += 1;
        match input {
            SchedulerInput::Snapshot(cell) => self.replace(now_ms, *cell, out),
            SchedulerInput::Entry { index, entry } => self.follow(now_ms, index, &entry, out),
            SchedulerInput::Session(input) => self.step_session(now_ms, input, out),
            SchedulerInput::Own(Proceed) => {
                self.again_asked = false;
                self.proceed(now_ms, out);
            }
        }
        self.gather();
        if !self.again_asked && self.has_work() {
            self.again_asked = true;
            out.push(SchedulerEffect::Own(Again));
        }
    }
}

/// Sends envelopes, together with those sent just before.
fn send(envelopes: Vec<Envelope>, out: &mut Vec<SchedulerEffect>) {
    match out.last_mut() {
        Some(SchedulerEffect::Send(before)) => before.extend(envelopes),
        _ => out.push(SchedulerEffect::Send(envelopes)),
    }
}
