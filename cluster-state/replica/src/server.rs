//! The server core: a replica, the hub around it, and the session under which the server speaks for people and agents.

mod among_others;
mod answers;
mod group;
mod messages;

pub use messages::{AppendResult, ChangeFailure, RequestId, ServerEffect, ServerInput};

use crate::between::Parcel;
use crate::clock::Clock;
use crate::digests::Digests;
use crate::hub::{AgentOrder, Beat, Hub, Peer};
use crate::proposal::Ticket;
use crate::replica::{CopyEffect, Effect, Input, Replica, ReplicaFailure};
use group::Group;
use ohm_client::{SessionConfig, SessionCore, SessionEffect, SessionInput};
use ohm_log::{Alarm, Bytes, Log, Members};
use ohm_model::{Asked, Command, Envelope, NodeId, Outcome, Role, Sequence, SessionId};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Commands that may wait for room in the session; more is answered Busy.
const WAITING_MAX: usize = 4096;
/// Commands of the server's own session travel together up to this many bytes.
const OWN_BYTES_MAX: usize = 256 << 10;

/// Whose commands a ticket carries.
enum Origin {
    Peer(Peer, u64),
    Own(Vec<(SessionId, Sequence, Option<u64>)>),
    /// Another server, with its own name for them.
    Server(u64, u64),
    /// A change of members that a person wants, or another server.
    Change(RequestId),
    ServerChange(u64, u64),
    /// A read.
    Read(RequestId),
    /// Beats of nodes that this copy does not know: once it has caught up it will.
    Doubt(Vec<(Peer, Beat)>),
}

/// For whom the server's own session speaks.
#[derive(Clone, Copy, Debug)]
enum Speaker {
    Person(RequestId),
    Register { peer: Peer, local: u64, instance: u64 },
    Report { peer: Peer, node: NodeId, batch: u64 },
}

/// How a server introduces itself.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// For people: host and process.
    pub name: String,
    /// Raised when the cell is restored from a backup.
    pub cell_incarnation: u64,
    /// An unanswered command is sent again after this long.
    pub resend_ms: u64,
    /// Which member of the log this server is; 0 where the engine has no members.
    pub server: u64,
}

/// A replica with everybody who talks to it.
pub struct ServerCore<L> {
    replica: Replica<L>,
    hub: Hub,
    session: SessionCore<Speaker>,
    waiting: VecDeque<(Speaker, Asked)>,
    /// What people asked and were not answered.
    asked: BTreeSet<RequestId>,
    origins: BTreeMap<Ticket, Origin>,
    next_ticket: u64,
    group: Group,
    digests: Digests,
    /// Whether a read is under way on behalf of beats of unknown nodes.
    doubting: bool,
    config: ServerConfig,
    /// The server that the own session talks to: this one or the one that leads.
    connected: Option<Option<u64>>,
    /// Why the log takes nothing for now, in words; what a person asks meanwhile is turned away at once.
    disk_full: Option<String>,
    effects: Vec<Effect>,
}

impl<L: Log> ServerCore<L> {
    /// A server around `replica`. `dice` must differ between processes.
    pub fn new(mut replica: Replica<L>, config: ServerConfig, dice: Prng) -> Self {
        replica.time.server = config.server;
        let session = SessionConfig {
            role: Role::Server,
            name: config.name.clone(),
            resend_ms: config.resend_ms,
            resend_ms_max: config.resend_ms * 8,
            keep_alive_ms: 60_000,
        };
        ServerCore {
            replica,
            hub: Hub::new(config.cell_incarnation),
            session: SessionCore::new(session, dice),
            waiting: VecDeque::new(),
            asked: BTreeSet::new(),
            origins: BTreeMap::new(),
            next_ticket: 1,
            group: Group::default(),
            digests: Digests::default(),
            doubting: false,
            config,
            connected: None,
            disk_full: None,
            effects: Vec::new(),
        }
    }

    /// The replica.
    pub fn replica(&self) -> &Replica<L> {
        &self.replica
    }

    /// Who belongs to the group of servers.
    pub fn members(&self) -> &Members {
        &self.group.members
    }

    /// The server that leads, if one is known, and whether it is this one.
    pub fn leader(&self) -> (Option<u64>, bool) {
        (self.group.leader, self.group.leads)
    }

    /// The log, for the next start in the same world.
    pub fn into_log(self) -> L {
        self.replica.into_log()
    }

    /// Whether the copy has caught up with everything that was acknowledged before this process began: the server's own
    /// session is opened by an entry after all of it. On a full disk, where nothing can be opened, what the log had to
    /// give must do.
    pub fn has_caught_up(&self, now_ms: u64) -> bool {
        let is_idle = || self.replica.wake_ms().is_none_or(|wake_ms| wake_ms > now_ms);
        self.session.session().is_some() || (self.disk_full.is_some() && is_idle())
    }

    /// The connection that reaches `node`, if its agent is connected here.
    pub fn peer_of(&self, node: NodeId) -> Option<Peer> {
        self.hub.peer_of(node)
    }

    /// When to flush next although nothing came in.
    pub fn wake_ms(&self) -> Option<u64> {
        let tells_ms = (!self.group.others.is_empty()).then(|| self.replica.time.witnesses.due_ms());
        [self.replica.wake_ms(), self.session.due_ms(), self.group.due_ms(), tells_ms].into_iter().flatten().min()
    }

    /// Takes one input.
    pub fn step(
        &mut self,
        clock: Clock,
        input: ServerInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match input {
            ServerInput::Append { peer, ticket, commands } => {
                let own = self.ticket(Origin::Peer(peer, ticket));
                self.propose(clock, own, commands, out)
            }
            ServerInput::Command { request, asked } => self.speak(clock, Speaker::Person(request), asked, out),
            ServerInput::Follow { follower, from } => self.feed_replica(clock, Input::Follow { follower, from }, out),
            ServerInput::Acknowledge { follower, bytes } => {
                self.feed_replica(clock, Input::Acknowledge { follower, bytes }, out)
            }
            ServerInput::Unfollow { follower } => self.feed_replica(clock, Input::Unfollow { follower }, out),
            ServerInput::Register { peer, local, spec, key, instance, boot, alive } => {
                let command = Command::RegisterNode { spec, key, instance, boot, alive };
                self.speak(clock, Speaker::Register { peer, local, instance }, command.into(), out)
            }
            ServerInput::Beats { peer, beats } => {
                let mut orders = Vec::new();
                self.hub.beats(peer, beats, self.replica.cell(), &mut orders);
                emit_orders(orders, out);
                Ok(())
            }
            ServerInput::Reports { peer, node, batch, reports } => {
                let command = Command::Report { node, reports };
                self.speak(clock, Speaker::Report { peer, node, batch }, command.into(), out)
            }
            ServerInput::Conditions { peer, node, incarnation, number, conditions } => {
                let command = Command::ReportConditions { node, incarnation, number, conditions };
                self.speak(clock, Speaker::Report { peer, node, batch: number }, command.into(), out)
            }
            ServerInput::Duty { peer, session, nonce } => {
                if !self.hub.attach_duty(peer, session, nonce, self.replica.cell()) {
                    out.push(ServerEffect::DutyRefused { peer, session });
                }
                Ok(())
            }
            ServerInput::Answers { peer, answers } => {
                let believed = self.hub.believed(peer, answers, self.replica.cell());
                self.route_answers(believed, out);
                Ok(())
            }
            ServerInput::Gone { peer } => {
                self.hub.detach(peer);
                Ok(())
            }
            ServerInput::Encoded { purpose, index, pieces } => {
                self.feed_replica(clock, Input::Encoded { purpose, index, pieces }, out)
            }
            ServerInput::Flush => self.flush(clock, out),
            input => self.step_group(clock, input, out),
        }
    }

    fn flush(&mut self, clock: Clock, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        let reached = match (self.group.leads, self.group.leader) {
            (true, _) => Some(None),
            (false, leader) => leader.map(Some),
        };
        if reached != self.connected {
            // Another server than before may not have heard what is unanswered: it is sent again at once.
            if self.connected.is_some() {
                self.feed_session(clock, SessionInput::Disconnected, out)?;
            }
            self.connected = reached;
            if reached.is_some() {
                self.feed_session(clock, SessionInput::Connected, out)?;
            }
        }
        self.feed_session(clock, SessionInput::Tick, out)?;
        while self.session.room() > 0
            && let Some((speaker, asked)) = self.waiting.pop_front()
        {
            self.submit(clock, speaker, asked, out)?;
        }
        self.feed_replica(clock, Input::Flush, out)?;
        self.flush_group(clock, out)?;
        let mut orders = Vec::new();
        let beats = self.hub.flush(clock.now_ms, self.replica.cell(), &mut orders);
        emit_orders(orders, out);
        if let Some((route, beats)) = beats {
            self.route_beats(route, beats, out);
        }
        Ok(())
    }

    /// Says something under the server's own session, now or as soon as there is room.
    fn speak(
        &mut self,
        clock: Clock,
        speaker: Speaker,
        asked: Asked,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        if let Speaker::Person(request) = speaker {
            if let Some(reason) = &self.disk_full {
                out.push(ServerEffect::Done { request, result: AppendResult::NotServing(reason.clone()) });
                return Ok(());
            }
            self.asked.insert(request);
        }
        if self.session.room() > 0 && self.waiting.is_empty() {
            return self.submit(clock, speaker, asked, out);
        }
        match (self.waiting.len() < WAITING_MAX, speaker) {
            (true, _) => self.waiting.push_back((speaker, asked)),
            (false, Speaker::Person(request)) => {
                let result = AppendResult::Busy(format!("{WAITING_MAX} commands wait already"));
                self.tell_person(request, result, out);
            }
            // Agents send again by themselves.
            (false, Speaker::Register { .. } | Speaker::Report { .. }) => {}
        }
        Ok(())
    }

    fn ticket(&mut self, origin: Origin) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.origins.insert(ticket, origin);
        ticket
    }

    fn feed_session(
        &mut self,
        clock: Clock,
        input: SessionInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let mut effects = Vec::new();
        self.session.step(clock.now_ms, input, &mut effects);
        self.perform_session(clock, effects, out)
    }

    fn submit(
        &mut self,
        clock: Clock,
        speaker: Speaker,
        asked: Asked,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let mut effects = Vec::new();
        self.session.submit(clock.now_ms, speaker, asked, &mut effects);
        self.perform_session(clock, effects, out)
    }

    fn perform_session(
        &mut self,
        clock: Clock,
        effects: Vec<SessionEffect<Speaker>>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        for effect in effects {
            match effect {
                SessionEffect::Send(envelopes) => self.propose_own(clock, &envelopes, out)?,
                SessionEffect::Answered { tag, outcome, .. } => self.answer(tag, Ok(outcome), out),
                SessionEffect::Lost { tag } => {
                    let reason = "the server's session ended before the answer".to_string();
                    self.answer(tag, Err(AppendResult::Unknown(reason)), out);
                }
                SessionEffect::Busy { tag, asked } => self.waiting.push_back((tag, asked)),
                SessionEffect::Opened { .. }
                | SessionEffect::OpenRefused(_)
                | SessionEffect::Renewed { .. }
                | SessionEffect::Gone
                | SessionEffect::Closed => {}
            }
        }
        Ok(())
    }

    fn propose_own(
        &mut self,
        clock: Clock,
        envelopes: &[Envelope],
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let (mut own, mut commands, mut bytes) = (Vec::new(), Vec::<Bytes>::new(), 0);
        for envelope in envelopes {
            let nonce = match &envelope.command {
                Command::OpenSession { nonce, .. } => Some(*nonce),
                _ => None,
            };
            let command: Bytes = envelope.encode().into();
            if bytes > 0 && bytes + command.len() > OWN_BYTES_MAX {
                let ticket = self.ticket(Origin::Own(std::mem::take(&mut own)));
                self.propose(clock, ticket, std::mem::take(&mut commands), out)?;
                bytes = 0;
            }
            bytes += command.len();
            own.push((envelope.session, envelope.sequence, nonce));
            commands.push(command);
        }
        match own.is_empty() {
            true => Ok(()),
            false => {
                let ticket = self.ticket(Origin::Own(own));
                self.propose(clock, ticket, commands, out)
            }
        }
    }

    fn answer(&mut self, speaker: Speaker, result: Result<Outcome, AppendResult>, out: &mut Vec<ServerEffect>) {
        let index = self.replica.cell().applied();
        match speaker {
            Speaker::Person(request) => {
                let committed = |outcome| AppendResult::Committed { index, outcomes: vec![outcome] };
                self.tell_person(request, result.map_or_else(|error| error, committed), out);
            }
            Speaker::Register { peer, local, instance } => {
                let order = match result {
                    Ok(Outcome::Node { node, incarnation }) => {
                        self.hub.attach(peer, node, incarnation);
                        AgentOrder::Registered { local, instance, node, incarnation }
                    }
                    Ok(Outcome::Refused(refusal)) => AgentOrder::RegisterRefused { local, instance, refusal },
                    // Unknown: the agent registers again, under the same instance.
                    _ => return,
                };
                out.push(ServerEffect::ToAgent { peer, order });
            }
            Speaker::Report { peer, node, batch } => {
                // What is refused once is refused for good: sending it again changes nothing.
                if let Ok(Outcome::Done | Outcome::Refused(_)) = result {
                    let order = AgentOrder::ReportsAccepted { node, batch, index };
                    out.push(ServerEffect::ToAgent { peer, order });
                }
            }
        }
    }

    fn feed_replica(&mut self, clock: Clock, input: Input, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        let mut effects = std::mem::take(&mut self.effects);
        let stepped = self.replica.step(clock, input, &mut effects);
        for effect in effects.drain(..) {
            self.take_effect(clock, effect, out)?;
        }
        self.effects = effects;
        stepped
    }

    fn take_effect(&mut self, clock: Clock, effect: Effect, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        match effect {
            Effect::Answered { ticket, index, outcomes } => {
                return self.answered(clock, ticket, index, outcomes, out);
            }
            Effect::Turned { ticket, error } => self.turned(ticket, &error, out),
            Effect::Refused { ticket, reason } => self.refused(ticket, reason, out),
            Effect::Unknown { ticket } => {
                self.unanswered(ticket, AppendResult::Unknown("the log lost track of it".into()), out);
            }
            Effect::Restored { index } => {
                self.hub.restored();
                self.digests.restored(index);
            }
            Effect::Readable { ticket } => self.readable(ticket, out),
            Effect::MembersChanged { ticket, member } => self.members_changed(ticket, Ok(member), out),
            Effect::Send { to, bytes } => {
                out.push(ServerEffect::ToServer { to, bytes: Parcel::Log(bytes).encode() });
            }
            Effect::Copy(effect) => return self.pass_on(effect, out),
        }
        Ok(())
    }

    /// Learns from what the copy wants, and passes it on.
    fn pass_on(&mut self, effect: CopyEffect, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        let mut compared = None;
        match &effect {
            CopyEffect::Applied { index, applied, chain, .. } => {
                self.hub.applied(applied, self.replica.cell());
                compared = Some((*index, *chain));
            }
            CopyEffect::Members(members) => {
                self.group.set_members(self.config.server, members);
            }
            CopyEffect::Leader { member, here } => self.leader_changed(*member, *here, out),
            CopyEffect::Alarm(alarm) => self.alarmed(alarm, out),
            CopyEffect::ToFollower { .. }
            | CopyEffect::Encode { .. }
            | CopyEffect::Time(_)
            | CopyEffect::SnapshotSaved { .. } => {}
        }
        out.push(ServerEffect::Copy(effect));
        compared.map_or(Ok(()), |(index, chain)| self.compare(index, chain, out))
    }

    /// On a full disk nobody is kept waiting: what is under way may happen once there is room, what comes now does not.
    fn alarmed(&mut self, alarm: &Alarm, out: &mut Vec<ServerEffect>) {
        match alarm {
            Alarm::DiskFull { .. } => {
                let reason = format!("{alarm}; nothing is lost");
                for request in std::mem::take(&mut self.asked) {
                    out.push(ServerEffect::Done { request, result: AppendResult::Unknown(reason.clone()) });
                }
                self.disk_full = Some(reason);
            }
            Alarm::DiskRoom => self.disk_full = None,
            _ => {}
        }
    }

    /// Answers a person, once.
    fn tell_person(&mut self, request: RequestId, result: AppendResult, out: &mut Vec<ServerEffect>) {
        if self.asked.remove(&request) {
            out.push(ServerEffect::Done { request, result });
        }
    }
}

fn emit_orders(orders: Vec<(Peer, AgentOrder)>, out: &mut Vec<ServerEffect>) {
    out.extend(orders.into_iter().map(|(peer, order)| ServerEffect::ToAgent { peer, order }));
}
