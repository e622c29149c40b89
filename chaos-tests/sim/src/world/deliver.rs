//! Messages: how they are sent, and what happens when they arrive.

use super::{Connection, Down, Event, Up, World};
use crate::faults::Victim;
use ohm_agent::AgentInput;
use ohm_cell::restore;
use ohm_client::SessionInput;
use ohm_framework::SchedulerInput;
use ohm_health::{BeatMark, DutyInput, RelayedBeats};
use ohm_log::Bytes;
use ohm_model::{Command, Entry, Envelope, Outcome};
use ohm_provisioning::ProvisionerInput;
use ohm_replica::{AgentOrder, AppendResult, Beat, FollowFrame, FollowerId, Peer, RequestId, ServerInput};

impl World {
    pub(crate) fn send_up(&mut self, connection: u64, up: Up) {
        match self.arrival_ms(connection, true) {
            Some(at_ms) => self.agenda.at(at_ms, Event::ToServer { connection, up }),
            None => self.break_connection(connection),
        }
    }

    pub(super) fn send_down(&mut self, connection: u64, down: Down) {
        match self.arrival_ms(connection, false) {
            Some(at_ms) => self.agenda.at(at_ms, Event::FromServer { connection, down }),
            None => self.break_connection(connection),
        }
    }

    /// A person's request: a message of its own, which overtakes others, may be lost alone, and may arrive twice.
    pub(super) fn send_request(&mut self, connection: u64, request: u64, command: Command) {
        let Some(&Connection { victim, server, .. }) = self.connections.get(&connection) else { return };
        if self.is_cut(victim, server, true) {
            return self.break_connection(connection);
        }
        if self.network.lose_permille > 0 && self.dice.chance(self.network.lose_permille) {
            return self.count("request lost");
        }
        let twice = self.network.double_permille > 0 && self.dice.chance(self.network.double_permille);
        if twice {
            self.count("request doubled");
        }
        for _ in 0..1 + u64::from(twice) {
            let way_ms = self.way_ms();
            let up = Up::Command { request, command: command.clone() };
            self.agenda.after(way_ms, Event::ToServer { connection, up });
        }
    }

    /// Each side learns by its own time-outs that the connection is over; what was under way may still arrive.
    pub(crate) fn break_connection(&mut self, connection: u64) {
        let Some(Connection { victim, server, server_starts, .. }) = self.connections.remove(&connection) else {
            return;
        };
        self.links.forget(connection);
        let (near_ms, far_ms) = (self.dice.between(1, 2_000), self.dice.between(1, 4_000));
        if self.network.late_permille > 0 && self.dice.chance(self.network.late_permille) {
            self.late.insert(connection, (server, server_starts));
        }
        self.agenda.after(near_ms, Event::ProcessLoses { victim, connection });
        self.agenda.after(far_ms, Event::ServerLoses { connection, server, starts: server_starts });
    }

    pub(crate) fn server_loses(&mut self, connection: u64, server: usize, starts: u64) {
        self.late.remove(&connection);
        if self.servers[server].starts == starts {
            self.step_server(server, ServerInput::Gone { peer: Peer(connection) });
            self.step_server(server, ServerInput::Unfollow { follower: FollowerId(connection) });
        }
    }

    /// Bytes of one server reach another one.
    pub(crate) fn reach_peer(&mut self, from: usize, to: usize, bytes: Bytes) {
        if self.is_cut_between(from, to) {
            return;
        }
        if self.servers[to].is_up() {
            self.step_server(to, ServerInput::FromServer { from: from as u64 + 1, bytes });
            return self.plan_flush(to);
        }
        // Nobody listens there: the connection is refused.
        let way_ms = self.way_ms();
        self.agenda.after(way_ms, Event::Unreachable { from, to });
    }

    /// A server learns that its bytes did not reach another one.
    pub(crate) fn miss_peer(&mut self, from: usize, to: usize) {
        self.step_server(from, ServerInput::Unreachable { server: to as u64 + 1 });
        self.plan_flush(from);
    }

    pub(crate) fn reach_server(&mut self, connection: u64, up: Up) {
        let known = self.connections.get(&connection).map(|known| (known.server, known.server_starts));
        if known.is_none() && self.late.contains_key(&connection) {
            self.count("message late");
        }
        let Some((server, starts)) = known.or_else(|| self.late.get(&connection).copied()) else { return };
        if !self.servers[server].is_up() || self.servers[server].starts != starts {
            return;
        }
        let (peer, follower) = (Peer(connection), FollowerId(connection));
        let input = match up {
            Up::Append { ticket, commands } => ServerInput::Append { peer, ticket, commands },
            Up::Follow { from } => ServerInput::Follow { follower, from },
            Up::Acknowledge { bytes } => ServerInput::Acknowledge { follower, bytes },
            Up::Register { spec, key, instance, boot, alive } => {
                ServerInput::Register { peer, local: 0, spec, key, instance, boot, alive }
            }
            Up::Beats(beats) => ServerInput::Beats { peer, beats },
            Up::Reports { node, batch, reports } => ServerInput::Reports { peer, node, batch, reports },
            Up::Conditions { node, incarnation, number, conditions } => {
                ServerInput::Conditions { peer, node, incarnation, number, conditions }
            }
            Up::Duty(session) => ServerInput::Duty { peer, session },
            Up::Answers(answers) => ServerInput::Answers { answers },
            Up::Command { request, command } => {
                self.note_order(connection, request);
                let own = RequestId(self.next_request);
                self.next_request += 1;
                self.requests.insert((server, own), (connection, request));
                ServerInput::Command { request: own, command }
            }
        };
        self.step_server(server, input);
        self.plan_flush(server);
    }

    /// Requests travel apart, so a later one may come first.
    fn note_order(&mut self, connection: u64, request: u64) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        if request < known.last_request {
            self.count("request overtaken");
        } else {
            known.last_request = request;
        }
    }

    /// The process works off what came in, a moment later and all at once.
    fn plan_flush(&mut self, server: usize) {
        if !self.servers[server].flush_planned && self.servers[server].is_up() {
            self.servers[server].flush_planned = true;
            let after_ms = self.dice.below(4);
            self.agenda.after(after_ms, Event::Flush { server, starts: self.servers[server].starts });
        }
    }

    pub(crate) fn flush(&mut self, server: usize, starts: u64) {
        if starts == self.servers[server].starts {
            self.servers[server].flush_planned = false;
            self.step_server(server, ServerInput::Flush);
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
                self.step_duty(victim, DutyInput::Own(RelayedBeats { relay: connection, beats }));
            }
            Down::Done { request, result } => self.told(victim, request, result),
        }
    }

    fn answer(&mut self, victim: Victim, envelope: &Envelope, outcome: Outcome) {
        let (session, sequence) = (envelope.session, envelope.sequence);
        let input = match envelope.command {
            Command::OpenSession { nonce, .. } => SessionInput::OpenAnswer { nonce, outcome },
            _ => SessionInput::Answer { session, sequence, outcome },
        };
        self.step_session(victim, input);
    }

    /// What followers of the log are told of their session.
    pub(super) fn step_session(&mut self, victim: Victim, input: SessionInput) {
        match victim {
            Victim::Scheduler(_) => self.step_scheduler(victim, SchedulerInput::Session(input)),
            Victim::Provisioner(_) => self.step_provisioner(victim, ProvisionerInput::Session(input)),
            Victim::Health(_) => self.step_duty(victim, DutyInput::Session(input)),
            Victim::Server(_) | Victim::Node(_) | Victim::Client(_) => {}
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
                        (Ok(cell), Victim::Provisioner(_)) => {
                            self.step_provisioner(victim, ProvisionerInput::Snapshot(Box::new(cell)));
                        }
                        (Ok(cell), _) => self.step_scheduler(victim, SchedulerInput::Snapshot(Box::new(cell))),
                        (Err(error), _) => self.fail("P9", format!("a snapshot does not restore: {error}")),
                    }
                }
            }
            FollowFrame::Entries(entries) => {
                for (index, bytes) in entries {
                    match (Entry::decode(&bytes), victim) {
                        (Ok(entry), Victim::Health(_)) => self.step_duty(victim, DutyInput::Entry { index, entry }),
                        (Ok(entry), Victim::Provisioner(_)) => {
                            self.step_provisioner(victim, ProvisionerInput::Entry { index, entry });
                        }
                        (Ok(entry), _) => self.step_scheduler(victim, SchedulerInput::Entry { index, entry }),
                        (Err(error), _) => self.fail("P9", format!("an entry does not decode: {error}")),
                    }
                }
            }
        }
        self.send_up(connection, Up::Acknowledge { bytes });
    }

    fn take_order(&mut self, victim: Victim, order: AgentOrder) {
        if !matches!(order, AgentOrder::Wanted { .. } | AgentOrder::BeatAnswers(_)) {
            self.note(|| format!("{} hears {order:?}", crate::script::name(victim)));
        }
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
}
