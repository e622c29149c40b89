//! Messages: to the server, from the server, and what the server wants done.

use super::{Connection, Down, Event, Up, World};
use crate::faults::Victim;
use ohm_agent::{Effect as AgentEffect, Input as AgentInput};
use ohm_cell::restore;
use ohm_framework::{Effect as SchedulerEffect, Input as SchedulerInput};
use ohm_health::{BeatMark, DutyEffect, DutyInput};
use ohm_log::Bytes;
use ohm_log::MemLog;
use ohm_model::{Command, Entry, Envelope, EventKind, Outcome};
use ohm_oracle::Record;
use ohm_replica::{
    AgentOrder, AppendResult, Beat, FollowFrame, FollowerId, Peer, Replica, RequestId, ServerEffect, ServerInput,
};
use std::sync::Arc;

impl World {
    pub(crate) fn send_up(&mut self, connection: u64, up: Up) {
        match self.arrival_ms(connection, true) {
            Some(at_ms) => self.agenda.at(at_ms, Event::ToServer { connection, up }),
            None => self.break_connection(connection),
        }
    }

    fn send_down(&mut self, connection: u64, down: Down) {
        match self.arrival_ms(connection, false) {
            Some(at_ms) => self.agenda.at(at_ms, Event::FromServer { connection, down }),
            None => self.break_connection(connection),
        }
    }

    /// Each side learns by its own time-outs that the connection is over.
    pub(crate) fn break_connection(&mut self, connection: u64) {
        let Some(Connection { victim, .. }) = self.connections.remove(&connection) else { return };
        self.links.forget(connection);
        let (near_ms, far_ms) = (self.dice.between(1, 2_000), self.dice.between(1, 4_000));
        self.agenda.after(near_ms, Event::ProcessLoses { victim, connection });
        self.agenda.after(far_ms, Event::ServerLoses { connection });
    }

    pub(crate) fn server_loses(&mut self, connection: u64) {
        self.step_server(ServerInput::Gone { peer: Peer(connection) });
        self.step_server(ServerInput::Unfollow { follower: FollowerId(connection) });
    }

    pub(crate) fn reach_server(&mut self, connection: u64, up: Up) {
        let known = self.connections.get(&connection);
        if !self.server.is_up() || known.is_none_or(|known| known.server_starts != self.server.starts) {
            return;
        }
        let (peer, follower) = (Peer(connection), FollowerId(connection));
        let input = match up {
            Up::Append { ticket, commands } => ServerInput::Append { peer, ticket, commands },
            Up::Follow { from } => ServerInput::Follow { follower, from },
            Up::Acknowledge { bytes } => ServerInput::Acknowledge { follower, bytes },
            Up::Register { spec, key, instance, boot } => {
                ServerInput::Register { peer, local: 0, spec, key, instance, boot }
            }
            Up::Beats(beats) => ServerInput::Beats { peer, beats },
            Up::Reports { node, batch, reports } => ServerInput::Reports { peer, node, batch, reports },
            Up::Duty(session) => ServerInput::Duty { peer, session },
            Up::Answers(answers) => ServerInput::Answers { answers },
            Up::Command { request, command } => {
                let own = RequestId(self.next_request);
                self.next_request += 1;
                self.requests.insert(own, (connection, request));
                ServerInput::Command { request: own, command }
            }
        };
        self.step_server(input);
        if !self.server.flush_planned {
            self.server.flush_planned = true;
            let after_ms = self.dice.below(4);
            self.agenda.after(after_ms, Event::Flush { starts: self.server.starts });
        }
    }

    pub(crate) fn flush(&mut self, starts: u64) {
        if starts == self.server.starts {
            self.server.flush_planned = false;
            self.step_server(ServerInput::Flush);
        }
    }

    pub(crate) fn step_server(&mut self, input: ServerInput) {
        let mut effects = Vec::new();
        let stepped = self.server.step(self.agenda.now_ms(), input, &mut effects);
        for effect in effects {
            self.perform_server(effect);
        }
        if let Err(failure) = stepped {
            self.failed = Some(format!("the server failed: {failure}"));
        }
    }

    fn perform_server(&mut self, effect: ServerEffect) {
        match effect {
            ServerEffect::Appended { peer, ticket, result } => {
                self.send_down(peer.0, Down::Appended { ticket, result })
            }
            ServerEffect::Done { request, result } => {
                if let Some((connection, request)) = self.requests.remove(&request) {
                    self.send_down(connection, Down::Done { request, result });
                }
            }
            ServerEffect::ToFollower { follower, frame } => self.send_down(follower.0, Down::Frame(frame)),
            ServerEffect::ToAgent { peer, order } => self.send_down(peer.0, Down::Order(order)),
            ServerEffect::ToDuty { peer, beats } => self.send_down(peer.0, Down::Beats(beats)),
            ServerEffect::Applied { index, bytes, applied, chain } => {
                self.report.entries += 1;
                for event in &applied.events {
                    if let EventKind::Conflicted { reasons, .. } = &event.kind {
                        for (reason, count) in reasons {
                            *self.report.conflicts.entry(reason.name()).or_insert(0) += u64::from(*count);
                        }
                    }
                }
                let Ok(entry) = Entry::decode(&bytes) else { return };
                self.history.push(Record::Applied {
                    at_ms: self.agenda.now_ms(),
                    copy: format!("server #{}", self.server.starts),
                    index,
                    entry: Arc::new(entry),
                    applied: Arc::from(applied),
                    chain,
                });
            }
            ServerEffect::Encode { purpose, cell } => {
                let (index, pieces) = (cell.applied(), Replica::<MemLog>::encode(&cell));
                self.check_snapshot(&cell, &pieces);
                let after_ms = self.dice.below(30);
                self.agenda.after(after_ms, Event::Encoded { starts: self.server.starts, purpose, index, pieces });
            }
            ServerEffect::ToServer { .. }
            | ServerEffect::Readable { .. }
            | ServerEffect::MembersChanged { .. }
            | ServerEffect::Members(_)
            | ServerEffect::Leader { .. }
            | ServerEffect::Alarm(_)
            | ServerEffect::SnapshotSaved { .. } => {}
        }
    }

    /// A snapshot must be the state it was taken of, field by field.
    fn check_snapshot(&mut self, cell: &ohm_cell::Cell, pieces: &[Bytes]) {
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        match restore(&whole) {
            Ok(restored) if restored.digest() != cell.digest() || restored.chain() != cell.chain() => {
                self.failed = Some(format!("the snapshot at {} restores to another state", cell.applied()));
            }
            Ok(_) => {}
            Err(error) => self.failed = Some(format!("a snapshot does not restore: {error}")),
        }
    }

    pub(crate) fn reach_process(&mut self, connection: u64, down: Down) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let victim = known.victim;
        match down {
            Down::Appended { ticket, result } => {
                let envelopes = known.tickets.remove(&ticket).unwrap_or_default();
                if let AppendResult::Committed { outcomes, .. } = result {
                    let answers = envelopes.into_iter().zip(outcomes);
                    answers.for_each(|(envelope, outcome)| self.answer(victim, &envelope, outcome));
                }
            }
            Down::Frame(frame) => self.take_frame(victim, connection, frame),
            Down::Order(order) => self.take_order(victim, order),
            Down::Beats(beats) => {
                let mark =
                    |beat: Beat| BeatMark { node: beat.node, incarnation: beat.incarnation, sequence: beat.sequence };
                let beats = beats.into_iter().map(mark).collect();
                self.step_duty(victim, DutyInput::Beats { relay: connection, beats });
            }
            Down::Done { request, result } => self.told(victim, request, result),
        }
    }

    fn answer(&mut self, victim: Victim, envelope: &Envelope, outcome: Outcome) {
        let (session, sequence) = (envelope.session, envelope.sequence);
        match (victim, &envelope.command) {
            (Victim::Scheduler(_), Command::OpenSession { nonce, .. }) => {
                self.step_scheduler(victim, SchedulerInput::OpenAnswer { nonce: *nonce, outcome });
            }
            (Victim::Scheduler(_), _) => {
                self.step_scheduler(victim, SchedulerInput::Answer { session, sequence, outcome });
            }
            (Victim::Health(_), Command::OpenSession { nonce, .. }) => {
                self.step_duty(victim, DutyInput::OpenAnswer { nonce: *nonce, outcome });
            }
            (Victim::Health(_), _) => self.step_duty(victim, DutyInput::Answer { session, sequence, outcome }),
            _ => {}
        }
    }

    fn take_frame(&mut self, victim: Victim, connection: u64, frame: FollowFrame) {
        let bytes = frame.bytes();
        match frame {
            FollowFrame::Snapshot { piece, last, .. } => {
                let Some(shell) = self.shell_of(victim) else { return };
                shell.pieces.push(piece);
                if last {
                    let pieces = std::mem::take(&mut shell.pieces);
                    let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
                    match (restore(&whole), victim) {
                        (Ok(cell), Victim::Health(_)) => self.step_duty(victim, DutyInput::Snapshot(Box::new(cell))),
                        (Ok(cell), _) => self.step_scheduler(victim, SchedulerInput::Snapshot(Box::new(cell))),
                        (Err(error), _) => self.failed = Some(format!("a snapshot does not restore: {error}")),
                    }
                }
            }
            FollowFrame::Entries(entries) => {
                for (index, bytes) in entries {
                    match (Entry::decode(&bytes), victim) {
                        (Ok(entry), Victim::Health(_)) => self.step_duty(victim, DutyInput::Entry { index, entry }),
                        (Ok(entry), _) => self.step_scheduler(victim, SchedulerInput::Entry { index, entry }),
                        (Err(error), _) => self.failed = Some(format!("an entry does not decode: {error}")),
                    }
                }
            }
        }
        self.send_up(connection, Up::Acknowledge { bytes });
    }

    fn take_order(&mut self, victim: Victim, order: AgentOrder) {
        let input = match order {
            AgentOrder::Registered { instance, node, incarnation, .. } => {
                AgentInput::Registered { instance, node, incarnation }
            }
            AgentOrder::RegisterRefused { instance, refusal, .. } => AgentInput::RegisterRefused { instance, refusal },
            AgentOrder::RegistrationEnded { incarnation, .. } => AgentInput::RegistrationEnded { incarnation },
            AgentOrder::Wanted { set, .. } => AgentInput::Wanted(set),
            AgentOrder::BeatAnswers(answers) => {
                for (_, answer) in answers {
                    self.step_agent(victim, AgentInput::BeatAnswer(answer));
                }
                return;
            }
            AgentOrder::ReportsAccepted { batch, index, .. } => AgentInput::ReportsAccepted { batch, index },
        };
        self.step_agent(victim, input);
    }

    pub(crate) fn step_agent(&mut self, victim: Victim, input: AgentInput) {
        let Victim::Node(number) = victim else { return };
        let mut effects = Vec::new();
        self.nodes[number].step(self.agenda.now_ms(), input, &mut effects, &mut self.history);
        self.perform_agent(number, effects);
    }

    pub(crate) fn perform_agent(&mut self, number: usize, effects: Vec<AgentEffect>) {
        for effect in effects {
            let up = match effect {
                AgentEffect::Register { instance } => {
                    let node = &self.nodes[number];
                    Up::Register { spec: node.spec.clone(), key: node.key, instance, boot: node.boot }
                }
                AgentEffect::Beat { node, incarnation, sequence, .. } => {
                    Up::Beats(vec![Beat { node, incarnation, sequence }])
                }
                AgentEffect::SendReports { batch, node, reports } => Up::Reports { node, batch, reports },
                AgentEffect::Superseded => {
                    self.nodes[number].agent = None;
                    self.agenda.after(1_000, Event::Restart(Victim::Node(number)));
                    continue;
                }
                _ => continue,
            };
            if let Some(connection) = self.nodes[number].connection {
                self.send_up(connection, up);
            }
        }
        self.plan_driver(number);
    }

    /// Puts the driver's next own moment into the agenda.
    pub(crate) fn plan_driver(&mut self, node: usize) {
        let now_ms = self.agenda.now_ms();
        let Some(due_ms) = self.nodes[node].driver_due_ms(now_ms) else { return };
        let planned = self.driver_planned.get(&node).copied();
        if planned.is_none_or(|planned| planned > due_ms || planned < now_ms) {
            self.driver_planned.insert(node, due_ms);
            self.agenda.at(due_ms, Event::Driver { node });
        }
    }

    pub(crate) fn run_driver(&mut self, node: usize) {
        self.driver_planned.remove(&node);
        let mut effects = Vec::new();
        let paused = self.nodes[node].paused_until_ms > self.agenda.now_ms();
        let now_ms = self.agenda.now_ms();
        // A paused agent hears of it later: the driver's record of it waits, as the shim's does.
        let agent = if paused { self.nodes[node].agent.take() } else { None };
        let input = ohm_agent::DriverInput::Tick;
        self.nodes[node].drive(now_ms, input, &mut effects, &mut self.history);
        if agent.is_some() {
            self.nodes[node].agent = agent;
            self.nodes[node].missed_words = true;
        }
        self.perform_agent(node, effects);
        let again = self.nodes[node].driver_due_ms(now_ms).is_some_and(|due_ms| due_ms <= now_ms);
        if again {
            self.driver_planned.insert(node, now_ms + 1);
            self.agenda.at(now_ms + 1, Event::Driver { node });
        }
    }

    pub(crate) fn step_scheduler(&mut self, victim: Victim, input: SchedulerInput) {
        let Victim::Scheduler(number) = victim else { return };
        let now_ms = self.schedulers[number].shell.clock.boot_ms(self.agenda.now_ms());
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let Some(core) = &mut self.schedulers[number].core else { return };
            let before = core.cell().applied();
            let mut effects = Vec::new();
            core.step(now_ms, input, &mut effects);
            let (applied, chain) = (core.cell().applied(), core.cell().chain());
            if applied != before {
                let copy = format!("scheduler {number} #{}", self.schedulers[number].shell.starts);
                self.history.push(Record::Copied { copy, index: applied, chain });
            }
            for effect in effects {
                match effect {
                    SchedulerEffect::Send(envelopes) => self.send_commands(victim, envelopes),
                    SchedulerEffect::Again => inputs.push(SchedulerInput::Proceed),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn step_duty(&mut self, victim: Victim, input: DutyInput) {
        let Victim::Health(number) = victim else { return };
        let now_ms = self.health[number].shell.clock.boot_ms(self.agenda.now_ms());
        let Some(core) = &mut self.health[number].core else { return };
        let before = core.cell().applied();
        let mut effects = Vec::new();
        core.step(now_ms, input, &mut effects);
        let (applied, chain) = (core.cell().applied(), core.cell().chain());
        if applied != before {
            let copy = format!("health {number} #{}", self.health[number].shell.starts);
            self.history.push(Record::Copied { copy, index: applied, chain });
        }
        for effect in effects {
            match effect {
                DutyEffect::Send(envelopes) => self.send_commands(victim, envelopes),
                DutyEffect::Opened(session) => {
                    self.health[number].session = Some(session);
                    if let Some(connection) = self.health[number].shell.connection {
                        self.send_up(connection, Up::Duty(session));
                    }
                }
                DutyEffect::Answers { duty_epoch, lease_ms, interval_ms, answers, relay } => {
                    let answers = answers.into_iter().map(|mark| {
                        let (incarnation, sequence) = (mark.incarnation, mark.sequence);
                        let answer = ohm_agent::BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms };
                        (mark.node, answer)
                    });
                    self.send_up(relay, Up::Answers(answers.collect()));
                }
                _ => {}
            }
        }
    }

    fn send_commands(&mut self, victim: Victim, envelopes: Vec<Envelope>) {
        let Some(connection) = self.shell_of(victim).and_then(|shell| shell.connection) else { return };
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let ticket = known.next_ticket;
        known.next_ticket += 1;
        let commands: Vec<Bytes> = envelopes.iter().map(|envelope| envelope.encode().into()).collect();
        known.tickets.insert(ticket, envelopes);
        self.send_up(connection, Up::Append { ticket, commands });
    }
}
