//! The server core: a replica, the hub around it, and the session under which the server speaks for people and agents.

mod messages;

pub use messages::{AppendResult, RequestId, ServerEffect, ServerInput};

use crate::batch::ProposeError;
use crate::hub::{AgentOrder, Hub, Peer};
use crate::replica::{Effect, Input, Replica, ReplicaFailure, Ticket};
use ohm_client::{SessionConfig, SessionCore, SessionEffect, SessionInput};
use ohm_log::{Alarm, Log, Refusal as LogRefusal};
use ohm_model::{Command, Envelope, Index, NodeId, Outcome, Role, Sequence, SessionId};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Commands that may wait for room in the session; more is answered Busy.
const WAITING_MAX: usize = 4096;

/// Whose commands a ticket carries.
enum Origin {
    Peer(Peer, u64),
    Own(Vec<(SessionId, Sequence, Option<u64>)>),
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
}

/// A replica with everybody who talks to it.
pub struct ServerCore<L> {
    replica: Replica<L>,
    hub: Hub,
    session: SessionCore<Speaker>,
    waiting: VecDeque<(Speaker, Command)>,
    /// What people asked and were not answered.
    asked: BTreeSet<RequestId>,
    origins: BTreeMap<Ticket, Origin>,
    next_ticket: u64,
    connected: bool,
    /// Why the log takes nothing for now, in words; what a person asks meanwhile is turned away at once.
    disk_full: Option<String>,
    effects: Vec<Effect>,
}

impl<L: Log> ServerCore<L> {
    /// A server around `replica`. `dice` must differ between processes.
    pub fn new(replica: Replica<L>, config: ServerConfig, dice: Prng) -> Self {
        let session = SessionConfig {
            role: Role::Server,
            name: config.name,
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
            connected: false,
            disk_full: None,
            effects: Vec::new(),
        }
    }

    /// The replica.
    pub fn replica(&self) -> &Replica<L> {
        &self.replica
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
        [self.replica.wake_ms(), self.session.due_ms()].into_iter().flatten().min()
    }

    /// Takes one input. `now_ms` is the monotonic clock, `wall_ms` the wall clock that entries are stamped with.
    pub fn step(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        input: ServerInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match input {
            ServerInput::Append { peer, ticket, commands } => {
                let own = self.ticket(Origin::Peer(peer, ticket));
                self.feed_replica(now_ms, wall_ms, Input::Propose { ticket: own, commands }, out)
            }
            ServerInput::Command { request, command } => {
                self.speak(now_ms, wall_ms, Speaker::Person(request), command, out)
            }
            ServerInput::Follow { follower, from } => {
                self.feed_replica(now_ms, wall_ms, Input::Follow { follower, from }, out)
            }
            ServerInput::Acknowledge { follower, bytes } => {
                self.feed_replica(now_ms, wall_ms, Input::Acknowledge { follower, bytes }, out)
            }
            ServerInput::Unfollow { follower } => self.feed_replica(now_ms, wall_ms, Input::Unfollow { follower }, out),
            ServerInput::Register { peer, local, spec, key, instance, boot } => {
                let command = Command::RegisterNode { spec, key, instance, boot };
                self.speak(now_ms, wall_ms, Speaker::Register { peer, local, instance }, command, out)
            }
            ServerInput::Beats { peer, beats } => {
                let mut orders = Vec::new();
                self.hub.beats(peer, beats, self.replica.cell(), &mut orders);
                emit_orders(orders, out);
                Ok(())
            }
            ServerInput::Reports { peer, node, batch, reports } => {
                let command = Command::Report { node, reports };
                self.speak(now_ms, wall_ms, Speaker::Report { peer, node, batch }, command, out)
            }
            ServerInput::Duty { peer, session } => {
                self.hub.attach_duty(peer, session);
                Ok(())
            }
            ServerInput::Answers { answers } => {
                let mut orders = Vec::new();
                self.hub.answers(answers, &mut orders);
                emit_orders(orders, out);
                Ok(())
            }
            ServerInput::Gone { peer } => {
                self.hub.detach(peer);
                Ok(())
            }
            ServerInput::Deliver(delivery) => self.feed_replica(now_ms, wall_ms, Input::Deliver(delivery), out),
            ServerInput::Encoded { purpose, index, pieces } => {
                self.feed_replica(now_ms, wall_ms, Input::Encoded { purpose, index, pieces }, out)
            }
            ServerInput::Flush => self.flush(now_ms, wall_ms, out),
        }
    }

    fn flush(&mut self, now_ms: u64, wall_ms: u64, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        if self.replica.leads() != self.connected {
            self.connected = self.replica.leads();
            let input = if self.connected { SessionInput::Connected } else { SessionInput::Disconnected };
            self.feed_session(now_ms, wall_ms, input, out)?;
        }
        self.feed_session(now_ms, wall_ms, SessionInput::Tick, out)?;
        while self.session.room() > 0
            && let Some((speaker, command)) = self.waiting.pop_front()
        {
            self.feed_session(now_ms, wall_ms, SessionInput::Submit { tag: speaker, command }, out)?;
        }
        self.feed_replica(now_ms, wall_ms, Input::Flush, out)?;
        let mut orders = Vec::new();
        let beats = self.hub.flush(self.replica.cell(), &mut orders);
        emit_orders(orders, out);
        out.extend(beats.map(|(peer, beats)| ServerEffect::ToDuty { peer, beats }));
        Ok(())
    }

    /// Says something under the server's own session, now or as soon as there is room.
    fn speak(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        speaker: Speaker,
        command: Command,
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
            return self.feed_session(now_ms, wall_ms, SessionInput::Submit { tag: speaker, command }, out);
        }
        match (self.waiting.len() < WAITING_MAX, speaker) {
            (true, _) => self.waiting.push_back((speaker, command)),
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
        now_ms: u64,
        wall_ms: u64,
        input: SessionInput<Speaker>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let mut effects = Vec::new();
        self.session.step(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                SessionEffect::Send(envelopes) => self.propose_own(now_ms, wall_ms, &envelopes, out)?,
                SessionEffect::Answered { tag, outcome, .. } => self.answer(tag, Ok(outcome), out),
                SessionEffect::Lost { tag } => {
                    let reason = "the server's session ended before the answer".to_string();
                    self.answer(tag, Err(AppendResult::Unknown(reason)), out);
                }
                SessionEffect::Busy { tag, command } => self.waiting.push_back((tag, command)),
                SessionEffect::Opened(_)
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
        now_ms: u64,
        wall_ms: u64,
        envelopes: &[Envelope],
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        for envelope in envelopes {
            let nonce = match &envelope.command {
                Command::OpenSession { nonce, .. } => Some(*nonce),
                _ => None,
            };
            let ticket = self.ticket(Origin::Own(vec![(envelope.session, envelope.sequence, nonce)]));
            let commands = vec![envelope.encode().into()];
            self.feed_replica(now_ms, wall_ms, Input::Propose { ticket, commands }, out)?;
        }
        Ok(())
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

    fn feed_replica(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        input: Input,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        let mut effects = std::mem::take(&mut self.effects);
        let stepped = self.replica.step(now_ms, wall_ms, input, &mut effects);
        for effect in effects.drain(..) {
            self.take_effect(now_ms, wall_ms, effect, out)?;
        }
        self.effects = effects;
        stepped
    }

    fn take_effect(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        effect: Effect,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match effect {
            Effect::Answered { ticket, index, outcomes } => {
                return self.answered(now_ms, wall_ms, ticket, index, outcomes, out);
            }
            Effect::Turned { ticket, error } => self.turned(ticket, &error, out),
            Effect::Refused { ticket, reason } => self.refused(ticket, reason, out),
            Effect::Unknown { ticket } => {
                self.unanswered(ticket, AppendResult::Unknown("the log lost track of it".into()), out);
            }
            Effect::Applied { index, bytes, applied, chain } => {
                self.hub.applied(&applied);
                out.push(ServerEffect::Applied { index, bytes, applied, chain });
            }
            Effect::Restored { .. } => self.hub.restored(),
            Effect::ToFollower { follower, frame } => out.push(ServerEffect::ToFollower { follower, frame }),
            Effect::Encode { purpose, cell } => out.push(ServerEffect::Encode { purpose, cell }),
            Effect::Send { to, bytes, snapshot } => out.push(ServerEffect::Send { to, bytes, snapshot }),
            Effect::Leader { member, here } => out.push(ServerEffect::Leader { member, here }),
            Effect::Alarm(alarm) => {
                self.alarmed(&alarm, out);
                out.push(ServerEffect::Alarm(alarm));
            }
            Effect::SnapshotSaved { index } => out.push(ServerEffect::SnapshotSaved { index }),
        }
        Ok(())
    }

    /// On a full disk nobody is kept waiting: what is under way may happen once there is room, what comes now does not.
    fn alarmed(&mut self, alarm: &Alarm, out: &mut Vec<ServerEffect>) {
        match alarm {
            Alarm::DiskFull { .. } => {
                let reason = format!("the disk is full ({alarm}); nothing is lost");
                for request in std::mem::take(&mut self.asked) {
                    out.push(ServerEffect::Done { request, result: AppendResult::Unknown(reason.clone()) });
                }
                self.disk_full = Some(reason);
            }
            Alarm::DiskRoom => self.disk_full = None,
            Alarm::TailCut { .. } | Alarm::SnapshotDamaged { .. } => {}
        }
    }

    /// Answers a person, once.
    fn tell_person(&mut self, request: RequestId, result: AppendResult, out: &mut Vec<ServerEffect>) {
        if self.asked.remove(&request) {
            out.push(ServerEffect::Done { request, result });
        }
    }

    fn answered(
        &mut self,
        now_ms: u64,
        wall_ms: u64,
        ticket: Ticket,
        index: Index,
        outcomes: Vec<Outcome>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.origins.remove(&ticket) {
            Some(Origin::Peer(peer, ticket)) => {
                out.push(ServerEffect::Appended { peer, ticket, result: AppendResult::Committed { index, outcomes } });
            }
            Some(Origin::Own(commands)) => {
                for ((session, sequence, nonce), outcome) in commands.into_iter().zip(outcomes) {
                    let input = match nonce {
                        Some(nonce) => SessionInput::OpenAnswer { nonce, outcome },
                        None => SessionInput::Answer { session, sequence, outcome },
                    };
                    self.feed_session(now_ms, wall_ms, input, out)?;
                }
            }
            None => {}
        }
        Ok(())
    }

    fn turned(&mut self, ticket: Ticket, error: &ProposeError, out: &mut Vec<ServerEffect>) {
        self.unanswered(ticket, AppendResult::Busy(error.to_string()), out);
    }

    fn refused(&mut self, ticket: Ticket, reason: LogRefusal, out: &mut Vec<ServerEffect>) {
        self.unanswered(ticket, AppendResult::Busy(reason.to_string()), out);
    }

    /// The server's own session asks again by itself; peers are told.
    fn unanswered(&mut self, ticket: Ticket, result: AppendResult, out: &mut Vec<ServerEffect>) {
        if let Some(Origin::Peer(peer, ticket)) = self.origins.remove(&ticket) {
            out.push(ServerEffect::Appended { peer, ticket, result });
        }
    }
}

fn emit_orders(orders: Vec<(Peer, AgentOrder)>, out: &mut Vec<ServerEffect>) {
    out.extend(orders.into_iter().map(|(peer, order)| ServerEffect::ToAgent { peer, order }));
}
