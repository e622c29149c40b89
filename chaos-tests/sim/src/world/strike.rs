//! Faults strike, processes start, connections are made and lost.

use super::{Connection, Event, Up, World};
use crate::faults::{Fault, Victim, Way};
use crate::roles::applied_of;
use crate::script;
use crate::workload;
use ohm_agent::AgentInput;
use ohm_client::{FollowerCore, SessionInput};
use ohm_replica::ServerInput;
use std::collections::BTreeMap;

impl World {
    fn connection_of(&mut self, victim: Victim) -> Option<&mut Option<u64>> {
        match victim {
            Victim::Node(number) => Some(&mut self.nodes[number].connection),
            Victim::Server(_) => None,
            _ => self.shell_of(victim).map(|shell| &mut shell.connection),
        }
    }

    fn is_up(&self, victim: Victim) -> bool {
        match victim {
            Victim::Server(number) => self.servers[number].is_up(),
            Victim::Scheduler(number) => self.schedulers[number].core.is_some(),
            Victim::Health(number) => self.health[number].core.is_some(),
            Victim::Provisioner(number) => self.provisioners[number].core.is_some(),
            Victim::Node(number) => self.nodes[number].agent.is_some(),
            Victim::Client(number) => self.clients[number].shell.up,
        }
    }

    pub(crate) fn strike(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let fault = self.faults[number].1;
        if !self.is_there(&fault) {
            return self.fail("scenario", format!("nobody to strike: {}", script::fault_words(&fault)));
        }
        let fault = fault.with_server(|server| self.operator.stands_for(server));
        if fault.server().is_some_and(|server| self.servers[server].over) || !self.may_change_servers(&fault) {
            return;
        }
        self.count(fault.kind());
        self.note(|| script::fault_words(&fault));
        let now_ms = self.agenda.now_ms();
        match fault {
            Fault::Crash { victim: Victim::Server(server), down_ms } => self.crash_server(server, down_ms, false),
            Fault::Crash { victim, down_ms } => {
                self.kill(victim);
                self.agenda.after(down_ms, Event::Restart(victim));
            }
            Fault::Amnesia { client, down_ms } => {
                self.kill(Victim::Client(client));
                self.forget_requests(client);
                self.agenda.after(down_ms, Event::Restart(Victim::Client(client)));
            }
            // What waits for a paused process comes when it wakes, so a pause is never cut short later.
            Fault::Pause { victim, for_ms } => self.pause(victim, (now_ms + for_ms).min(self.knobs.faults_ms)),
            Fault::Cut { victim, way, for_ms } => drop(self.cuts.insert(victim, (way, now_ms + for_ms))),
            Fault::Split { one, other, way, for_ms } => {
                if way != Way::Up {
                    self.splits.insert((one, other), now_ms + for_ms);
                }
                if way != Way::Down {
                    self.splits.insert((other, one), now_ms + for_ms);
                }
            }
            Fault::Depose { for_ms } => {
                let Some(leader) = self.leader() else { return };
                for other in (0..self.servers.len()).filter(|other| *other != leader) {
                    self.splits.extend([((leader, other), now_ms + for_ms), ((other, leader), now_ms + for_ms)]);
                }
            }
            Fault::Storm { times, for_ms } => self.storm = (times, now_ms + for_ms),
            Fault::Reboot { node, down_ms } | Fault::Wipe { node, down_ms } => {
                self.kill(Victim::Node(node));
                if matches!(fault, Fault::Wipe { .. }) {
                    // What is counted is counted on the disk.
                    (self.nodes[node].key, self.nodes[node].boot) = (self.dice.u64(), 0);
                }
                self.nodes[node].reboot(now_ms, &mut self.history);
                self.agenda.after(down_ms, Event::Restart(Victim::Node(node)));
            }
            Fault::Ail { node, kind, for_ms } => drop(self.nodes[node].ails.insert(kind, now_ms + for_ms)),
            Fault::Respec { node, change } => {
                self.kill(Victim::Node(node));
                workload::change(&mut self.nodes[node].spec, change);
                self.agenda.after(300, Event::Restart(Victim::Node(node)));
            }
            Fault::LostDisk { .. } | Fault::Retire { .. } | Fault::AddServer | Fault::Transfer { .. } => {
                self.change_servers(fault);
            }
            Fault::ClockJump { server, by_ms } => self.servers[server].clock.jump(by_ms),
            Fault::PowerLoss { server, .. }
            | Fault::FullDisk { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::FailedDisk { server, .. }
            | Fault::BitRot { server, .. } => self.strike_disk(server, fault),
        }
    }

    /// Whether everybody whom the fault strikes exists: a scenario may name anybody.
    fn is_there(&self, fault: &Fault) -> bool {
        match *fault {
            Fault::Crash { victim, .. } | Fault::Pause { victim, .. } | Fault::Cut { victim, .. } => match victim {
                Victim::Server(number) => number < self.servers.len(),
                Victim::Scheduler(number) => number < self.schedulers.len(),
                Victim::Health(number) => number < self.health.len(),
                Victim::Provisioner(number) => number < self.provisioners.len(),
                Victim::Node(number) => number < self.nodes.len(),
                Victim::Client(number) => number < self.clients.len(),
            },
            Fault::Amnesia { client, .. } => client < self.clients.len(),
            Fault::Reboot { node, .. }
            | Fault::Wipe { node, .. }
            | Fault::Ail { node, .. }
            | Fault::Respec { node, .. } => node < self.nodes.len(),
            Fault::Split { one, other, .. } => one.max(other) < self.servers.len(),
            Fault::Storm { .. } | Fault::AddServer | Fault::Depose { .. } => true,
            Fault::LostDisk { server } | Fault::Retire { server } | Fault::Transfer { server } => {
                server < self.servers.len()
            }
            Fault::PowerLoss { server, .. }
            | Fault::FullDisk { server, .. }
            | Fault::SlowDisk { server, .. }
            | Fault::FailedDisk { server, .. }
            | Fault::BitRot { server, .. }
            | Fault::ClockJump { server, .. } => server < self.servers.len(),
        }
    }

    fn strike_disk(&mut self, server: usize, fault: Fault) {
        // How long a machine goes on that is about to lose power.
        const LAST_MS: u64 = 500;
        let (now_ms, starts) = (self.agenda.now_ms(), self.servers[server].starts);
        if !self.servers[server].is_up() || self.servers[server].doomed.is_some() {
            return;
        }
        match fault {
            Fault::PowerLoss { after_calls, down_ms, .. } => {
                self.servers[server].lose_power_after(after_calls, down_ms);
                self.agenda.after(LAST_MS, Event::DiskDeadline { server, starts });
            }
            Fault::FailedDisk { after_calls, down_ms, .. } => {
                self.servers[server].fail_disk_after(after_calls, down_ms);
            }
            Fault::FullDisk { for_ms, .. } => {
                self.servers[server].fill_disk(true);
                self.agenda.after(for_ms, Event::DiskRoom { server, starts: u64::MAX });
            }
            Fault::SlowDisk { by_ms, for_ms, .. } => self.servers[server].slow_disk = Some((by_ms, now_ms + for_ms)),
            Fault::BitRot { down_ms, .. } => self.rot(server, down_ms),
            _ => {}
        }
    }

    /// The process ends without a word.
    pub(super) fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Server(_) => {}
            Victim::Scheduler(number) => self.schedulers[number].core = None,
            Victim::Health(number) => (self.health[number].core, self.health[number].session) = (None, None),
            Victim::Provisioner(number) => self.provisioners[number].core = None,
            Victim::Node(number) => self.nodes[number].agent = None,
            Victim::Client(number) => self.clients[number].shell.up = false,
        }
        if let Some(connection) = self.connection_of(victim).and_then(Option::take) {
            self.break_connection(connection);
        }
    }

    fn pause(&mut self, victim: Victim, until_ms: u64) {
        match victim {
            Victim::Server(number) => lengthen(&mut self.servers[number].paused_until_ms, until_ms),
            Victim::Node(number) => lengthen(&mut self.nodes[number].paused_until_ms, until_ms),
            _ => {
                if let Some(shell) = self.shell_of(victim) {
                    lengthen(&mut shell.paused_until_ms, until_ms);
                }
            }
        }
    }

    pub(crate) fn restart(&mut self, victim: Victim) {
        if self.is_up(victim) || matches!(victim, Victim::Server(number) if self.servers[number].over) {
            return;
        }
        let mut dice = self.dice.fork();
        let now_ms = self.agenda.now_ms();
        self.note(|| format!("{} starts", script::name(victim)));
        match victim {
            Victim::Server(number) => {
                if let Err(error) = self.servers[number].start(&mut dice) {
                    self.fail("P3", format!("the log of server {} does not open again: {error}", number + 1));
                }
                self.step_server(number, ServerInput::Flush);
            }
            Victim::Scheduler(number) => {
                self.schedulers[number].start(number, &self.knobs, &self.mischief, &mut dice);
            }
            Victim::Health(number) => self.health[number].start(number, &self.knobs, &mut dice),
            Victim::Provisioner(number) => self.provisioners[number].start(number, &self.knobs, &mut dice),
            Victim::Node(number) => {
                let mut effects = Vec::new();
                let config = self.knobs.agent();
                self.nodes[number].start(now_ms, config, &mut dice, &mut effects, &mut self.history);
                self.perform_agent(number, effects);
            }
            Victim::Client(number) => self.clients[number].shell.up = true,
        }
        if !matches!(victim, Victim::Server(_)) {
            self.agenda.after(1, Event::Connect(victim));
        }
    }

    /// One attempt to connect; goes on until it works.
    pub(crate) fn connect(&mut self, victim: Victim) {
        if !self.is_up(victim) || self.connection_of(victim).is_none_or(|known| known.is_some()) {
            return;
        }
        let now_ms = self.agenda.now_ms();
        let is_ready = |number: &usize| {
            let server = &self.servers[*number];
            let is_cut = self.is_cut(victim, *number, true) || self.is_cut(victim, *number, false);
            server.is_up() && server.caught_up && server.paused_until_ms <= now_ms && !is_cut
        };
        let ready: Vec<usize> = (0..self.servers.len()).filter(is_ready).collect();
        let Some(&server) = self.dice.pick(&ready) else {
            let again_ms = self.dice.between(50, 400);
            return self.agenda.after(again_ms, Event::Connect(victim));
        };
        let connection = self.next_connection;
        self.next_connection += 1;
        let server_starts = self.servers[server].starts;
        let known =
            Connection { victim, server, server_starts, tickets: BTreeMap::new(), next_ticket: 1, last_request: 0 };
        self.connections.insert(connection, known);
        self.note(|| format!("{} connects", script::name(victim)));
        if let Some(slot) = self.connection_of(victim) {
            *slot = Some(connection);
        }
        match victim {
            Victim::Scheduler(number) => {
                let from = applied_of(self.schedulers[number].core.as_ref());
                self.schedulers[number].shell.pieces.clear();
                self.send_up(connection, Up::Follow { from });
                self.step_session(victim, SessionInput::Connected);
            }
            Victim::Health(number) => {
                let from = self.health[number].core.as_ref().map_or(ohm_model::Index(0), |core| core.cell().applied());
                self.health[number].shell.pieces.clear();
                self.send_up(connection, Up::Follow { from });
                if let Some(session) = self.health[number].session {
                    self.send_up(connection, Up::Duty(session));
                }
                self.step_session(victim, SessionInput::Connected);
            }
            Victim::Provisioner(number) => {
                let core = self.provisioners[number].core.as_ref();
                let from = core.map_or(ohm_model::Index(0), |core| core.cell().applied());
                self.provisioners[number].shell.pieces.clear();
                self.send_up(connection, Up::Follow { from });
                self.step_session(victim, SessionInput::Connected);
            }
            Victim::Node(_) => self.step_agent(victim, AgentInput::Connected),
            Victim::Client(number) => self.repeat_requests(number),
            Victim::Server(_) => {}
        }
    }

    pub(crate) fn process_loses(&mut self, victim: Victim, connection: u64) {
        let own = self.connection_of(victim).is_some_and(|known| *known == Some(connection));
        if !own || !self.is_up(victim) {
            return;
        }
        if let Some(slot) = self.connection_of(victim) {
            *slot = None;
        }
        self.note(|| format!("{} loses its connection", script::name(victim)));
        match victim {
            Victim::Node(_) => self.step_agent(victim, AgentInput::Disconnected),
            _ => self.step_session(victim, SessionInput::Disconnected),
        }
        let again_ms = self.dice.between(10, 300);
        self.agenda.after(again_ms, Event::Connect(victim));
    }

    /// The server that takes appends: of several that believe it, the one that has come furthest.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leading = (0..self.servers.len()).filter(|number| self.servers[*number].leads());
        leading.max_by_key(|number| self.servers[*number].applied())
    }
}

/// A second pause never ends the first one.
fn lengthen(paused_until_ms: &mut u64, until_ms: u64) {
    *paused_until_ms = until_ms.max(*paused_until_ms);
}
