//! This server among the others: commands go to the one that leads and their answers come back, beats go to where the
//! health duty is, copies are compared.
//!
//! Commands are forwarded, not redirected: whoever talks to a server need not know which one leads, and no connection
//! moves when that changes. Beats go straight to the server that the holder of the duty is connected to (each server
//! says every second who is connected to it): the holder needs one connection, and a server that does not know where
//! it is drops the beats, which agents send again.

use super::{AppendResult, ChangeFailure, Origin, ServerCore, ServerEffect, ServerInput, emit_orders};
use crate::between::{Change, Forwarded, Parcel, ServerMessage};
use crate::clock::Clock;
use crate::hub::{Beat, BeatRoute};
use crate::proposal::Ticket;
use crate::replica::{Input, ReplicaFailure};
use ohm_log::{Bytes, Delivery, Log, MemberChange, Refusal};
use ohm_model::{Envelope, Index};
use ohm_stdx::codec;

impl<L: Log> ServerCore<L> {
    /// Proposes commands where they can be taken: here, or at the server that leads.
    pub(crate) fn propose(
        &mut self,
        clock: Clock,
        ticket: Ticket,
        commands: Vec<Bytes>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.group.leader_elsewhere() {
            Some(leader) => {
                self.group.forwarded(clock.now_ms, ticket, leader);
                send(leader, &Parcel::Commands(ticket.0, commands), out);
                Ok(())
            }
            None if self.group.leads => self.feed_replica(clock, Input::Propose { ticket, commands }, out),
            None => {
                let reason = "no server takes commands at the moment".to_string();
                self.unanswered(ticket, AppendResult::Busy(reason), out);
                Ok(())
            }
        }
    }

    /// Bytes of another server have come.
    pub(crate) fn hear(
        &mut self,
        clock: Clock,
        from: u64,
        bytes: Bytes,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match Parcel::decode(bytes) {
            Some(Parcel::Log(word)) => self.feed_replica(clock, Input::Deliver(Delivery::Message(word)), out),
            Some(Parcel::Commands(ticket, commands)) => {
                let own = self.ticket(Origin::Server(from, ticket));
                if !commands.iter().all(|command| codec::decode::<Envelope>(command).is_ok()) {
                    // In the log it would end every copy, at each start again.
                    let reason = "the server that leads can't read the command: update it first";
                    self.unanswered(own, AppendResult::Busy(reason.into()), out);
                    return Ok(());
                }
                if self.group.leads {
                    return self.feed_replica(clock, Input::Propose { ticket: own, commands }, out);
                }
                // Never further than once: two servers that take each other for the leader would play ball.
                self.unanswered(own, AppendResult::Busy("this server does not lead any more".into()), out);
                Ok(())
            }
            Some(Parcel::Message(message)) => self.hear_message(clock, from, message, out),
            // Of another version; whoever waits for an answer asks again, or somebody else.
            None => Ok(()),
        }
    }

    fn hear_message(
        &mut self,
        clock: Clock,
        from: u64,
        message: ServerMessage,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match message {
            ServerMessage::Done { ticket, result } => {
                if self.group.settle(Ticket(ticket)) {
                    return self.forwarded_done(clock, Ticket(ticket), result, out);
                }
            }
            ServerMessage::Change { change: Change::Transfer { to }, .. } => {
                return self.feed_replica(clock, Input::Transfer { to }, out);
            }
            ServerMessage::Change { ticket, change } => {
                let own = self.ticket(Origin::ServerChange(from, ticket));
                if let Some(change) = change.into_member_change() {
                    let input = Input::ChangeMembers { ticket: own, change };
                    return self.feed_replica(clock, input, out);
                }
            }
            ServerMessage::Changed { ticket, result } => {
                self.group.settle(Ticket(ticket));
                if let Some(Origin::Change(request)) = self.origins.remove(&Ticket(ticket)) {
                    let result = result.map_err(ChangeFailure::from);
                    out.push(ServerEffect::MembersChanged { request, result });
                }
            }
            ServerMessage::DutyHere { sessions } => self.hub.duty_elsewhere(clock.now_ms, from, sessions),
            ServerMessage::Beats { beats } => self.hub.relayed_beats(from, beats.into_iter().map(Beat::from)),
            ServerMessage::Answers { answers } => {
                let mut orders = Vec::new();
                self.hub.answers(answers.into_iter().map(Into::into).collect(), &mut orders);
                emit_orders(orders, out);
            }
            ServerMessage::Digest { index, chain } => {
                self.digests.note(from, index, chain);
                return self.judge_digests();
            }
            ServerMessage::Clock { wall_ms } => self.replica.time.witnesses.hear(clock.now_ms, from, wall_ms),
            ServerMessage::BelieveClock { server } => drop(self.replica.time.believe(clock, server)),
        }
        Ok(())
    }

    /// The leader has answered; the answer counts once this copy has come as far.
    fn forwarded_done(
        &mut self,
        clock: Clock,
        ticket: Ticket,
        result: Forwarded,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match result {
            Forwarded::Committed { index, outcomes } if index <= self.replica.cell().applied() => {
                return self.answered(clock, ticket, index, outcomes, out);
            }
            Forwarded::Committed { index, outcomes } => {
                self.group.keep_early(index, ticket, outcomes);
            }
            Forwarded::Busy(reason) => self.unanswered(ticket, AppendResult::Busy(reason), out),
            Forwarded::Unknown(reason) => self.unanswered(ticket, AppendResult::Unknown(reason), out),
        }
        Ok(())
    }

    /// A change of members that a person wants, done here or at the server that leads.
    pub(crate) fn change_members(
        &mut self,
        clock: Clock,
        ticket: Ticket,
        change: MemberChange,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.group.leader_elsewhere() {
            Some(leader) => {
                self.group.forwarded(clock.now_ms, ticket, leader);
                let message = ServerMessage::Change { ticket: ticket.0, change: change.into() };
                send(leader, &Parcel::Message(message), out);
                Ok(())
            }
            None => self.feed_replica(clock, Input::ChangeMembers { ticket, change }, out),
        }
    }

    /// Lets another server lead.
    pub(crate) fn transfer(
        &mut self,
        clock: Clock,
        to: Option<u64>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.group.leader_elsewhere() {
            Some(leader) => {
                let message = ServerMessage::Change { ticket: 0, change: Change::Transfer { to } };
                send(leader, &Parcel::Message(message), out);
                Ok(())
            }
            None => self.feed_replica(clock, Input::Transfer { to }, out),
        }
    }

    /// Another one leads now. What went to the former one is unknown.
    pub(crate) fn leader_changed(&mut self, member: Option<u64>, here: bool, out: &mut Vec<ServerEffect>) {
        (self.group.leader, self.group.leads) = (member, here);
        let stays = |to: u64| !here && Some(to) == member;
        let lost = self.group.give_up(|to, _| !stays(to));
        self.give_up(lost, out);
    }

    fn give_up(&mut self, lost: Vec<Ticket>, out: &mut Vec<ServerEffect>) {
        for ticket in lost {
            let reason = "the server that leads did not answer".to_string();
            self.unanswered(ticket, AppendResult::Unknown(reason), out);
        }
    }

    /// What is due between servers.
    pub(crate) fn flush_group(&mut self, clock: Clock, out: &mut Vec<ServerEffect>) -> Result<(), ReplicaFailure> {
        let applied = self.replica.cell().applied();
        while let Some((index, ticket, outcomes)) = self.group.next_early(applied) {
            self.answered(clock, ticket, index, outcomes, out)?;
        }
        if self.hub.is_in_doubt() && !self.doubting {
            self.doubting = true;
            let doubtful = self.hub.take_doubtful();
            let ticket = self.ticket(Origin::Doubt(doubtful));
            self.feed_replica(clock, Input::Read { ticket }, out)?;
        }
        if self.group.others.is_empty() {
            return Ok(());
        }
        let late = self.group.give_up_late(clock.now_ms);
        self.give_up(late, out);
        let sessions = self.hub.duty_here(self.replica.cell());
        if self.group.tells_duty(clock.now_ms, &sessions) {
            self.tell_others(&ServerMessage::DutyHere { sessions }, out);
        }
        if self.replica.time.witnesses.tells(clock.now_ms) {
            self.tell_others(&ServerMessage::Clock { wall_ms: clock.wall_ms }, out);
        }
        Ok(())
    }

    /// Hands beats on towards the holder of the health duty.
    pub(crate) fn route_beats(&self, route: BeatRoute, beats: Vec<Beat>, out: &mut Vec<ServerEffect>) {
        match route {
            BeatRoute::Here(peer) => out.push(ServerEffect::ToDuty { peer, beats }),
            BeatRoute::Server(server) => {
                let beats = beats.into_iter().map(Into::into).collect();
                send(server, &Parcel::Message(ServerMessage::Beats { beats }), out);
            }
        }
    }

    /// Answers of the health duty, to agents here and elsewhere.
    pub(crate) fn route_answers(
        &mut self,
        answers: Vec<(ohm_model::NodeId, ohm_agent::BeatAnswer)>,
        out: &mut Vec<ServerEffect>,
    ) {
        let mut orders = Vec::new();
        for (server, answers) in self.hub.answers(answers, &mut orders) {
            let answers = answers.into_iter().map(Into::into).collect();
            send(server, &Parcel::Message(ServerMessage::Answers { answers }), out);
        }
        emit_orders(orders, out);
    }

    /// An entry was applied here; now and then its hash is compared.
    pub(crate) fn compare(
        &mut self,
        index: Index,
        chain: u64,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.digests.applied(self.config.server, index, chain) {
            Some((index, chain)) if !self.group.others.is_empty() => {
                self.tell_others(&ServerMessage::Digest { index, chain }, out);
                self.judge_digests()
            }
            _ => Ok(()),
        }
    }

    fn judge_digests(&self) -> Result<(), ReplicaFailure> {
        let servers = self.group.others.len() + 1;
        // Where nobody leads, the oldest of the servers stays.
        let is_oldest = || self.group.others.iter().all(|other| *other > self.config.server);
        let stays = self.group.leads && (self.group.leader.is_some() || is_oldest());
        match self.digests.judge(self.config.server, stays, servers) {
            Some(found) => Err(ReplicaFailure::Diverged { index: found.index, own: found.own, others: found.others }),
            None => Ok(()),
        }
    }

    /// Answers another server that sent commands or a change.
    pub(crate) fn reply(&self, to: u64, message: ServerMessage, out: &mut Vec<ServerEffect>) {
        send(to, &Parcel::Message(message), out);
    }

    fn tell_others(&self, message: &ServerMessage, out: &mut Vec<ServerEffect>) {
        let bytes = Parcel::Message(message.clone()).encode();
        out.extend(self.group.others.iter().map(|to| ServerEffect::ToServer { to: *to, bytes: bytes.clone() }));
    }

    /// Takes the inputs that concern the group.
    pub(crate) fn step_group(
        &mut self,
        clock: Clock,
        input: ServerInput,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match input {
            ServerInput::FromServer { from, bytes } => self.hear(clock, from, bytes, out),
            ServerInput::Unreachable { server } => {
                let lost = self.group.give_up(|to, _| to == server);
                self.give_up(lost, out);
                let delivery = Delivery::Unreachable { member: server };
                self.feed_replica(clock, Input::Deliver(delivery), out)
            }
            ServerInput::Read { request } => {
                let ticket = self.ticket(Origin::Read(request));
                self.feed_replica(clock, Input::Read { ticket }, out)
            }
            ServerInput::ChangeMembers { request, change } => {
                let ticket = self.ticket(Origin::Change(request));
                self.change_members(clock, ticket, change, out)
            }
            ServerInput::Transfer { to } => self.transfer(clock, to, out),
            // Whoever stamps entries hears it; the others go by its entries.
            ServerInput::BelieveClock { server } => {
                self.replica.time.believe(clock, server);
                self.tell_others(&ServerMessage::BelieveClock { server }, out);
                Ok(())
            }
            ServerInput::Close => self.feed_replica(clock, Input::Close, out),
            _ => Ok(()),
        }
    }
}

impl Change {
    fn into_member_change(self) -> Option<MemberChange> {
        match self {
            Change::Add { member, address, key } => Some(MemberChange::Add { member, address, key }),
            Change::Promote { member } => Some(MemberChange::Promote { member }),
            Change::Remove { member } => Some(MemberChange::Remove { member }),
            Change::Transfer { .. } => None,
        }
    }
}

impl From<Refusal> for ChangeFailure {
    fn from(reason: Refusal) -> Self {
        let again = !matches!(reason, Refusal::Change(refusal) if refusal != ohm_log::ChangeRefusal::Pending);
        ChangeFailure { again, reason: reason.to_string() }
    }
}

fn send(to: u64, parcel: &Parcel, out: &mut Vec<ServerEffect>) {
    out.push(ServerEffect::ToServer { to, bytes: parcel.encode() });
}
