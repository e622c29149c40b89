//! Faults, restarts, connections.

use super::{Connection, Event, Up, World, place_of};
use crate::faults::{Fault, Victim};
use crate::roles::{Shell, applied_of};
use ohm_agent::Input as AgentInput;
use ohm_framework::Input as SchedulerInput;
use ohm_health::DutyInput;
use ohm_replica::ServerInput;
use std::collections::BTreeMap;

impl World {
    pub(crate) fn shell_of(&mut self, victim: Victim) -> Option<&mut Shell> {
        match victim {
            Victim::Scheduler(number) => Some(&mut self.schedulers[number].shell),
            Victim::Health(number) => Some(&mut self.health[number].shell),
            Victim::Client(number) => Some(&mut self.clients[number].shell),
            Victim::Server | Victim::Node(_) => None,
        }
    }

    fn connection_of(&mut self, victim: Victim) -> Option<&mut Option<u64>> {
        match victim {
            Victim::Node(number) => Some(&mut self.nodes[number].connection),
            Victim::Server => None,
            _ => self.shell_of(victim).map(|shell| &mut shell.connection),
        }
    }

    fn is_up(&self, victim: Victim) -> bool {
        match victim {
            Victim::Server => self.server.is_up(),
            Victim::Scheduler(number) => self.schedulers[number].core.is_some(),
            Victim::Health(number) => self.health[number].core.is_some(),
            Victim::Node(number) => self.nodes[number].agent.is_some(),
            Victim::Client(number) => self.clients[number].shell.up,
        }
    }

    pub(crate) fn strike(&mut self, number: usize) {
        if self.healed {
            return;
        }
        let fault = self.faults[number].1;
        *self.report.faults.entry(fault.kind()).or_insert(0) += 1;
        self.note(|| format!("{fault:?}"));
        let now_ms = self.agenda.now_ms();
        match fault {
            Fault::Crash { victim: Victim::Server, down_ms, power_loss } => self.crash_server(down_ms, power_loss),
            Fault::Crash { victim, down_ms, .. } => {
                self.kill(victim);
                self.agenda.after(down_ms, Event::Restart(victim));
            }
            // What waits for a paused process comes when it wakes, so a pause is never cut short later.
            Fault::Pause { victim, for_ms } => self.pause(victim, (now_ms + for_ms).min(self.scenario.faults_ms)),
            Fault::Cut { victim: Victim::Server, for_ms } => {
                for victim in self.everybody() {
                    self.cut_until_ms.insert(place_of(victim), now_ms + for_ms);
                }
            }
            Fault::Cut { victim, for_ms } => drop(self.cut_until_ms.insert(place_of(victim), now_ms + for_ms)),
            Fault::Reboot { node, down_ms } => {
                self.kill(Victim::Node(node));
                self.nodes[node].reboot(now_ms, &mut self.history);
                self.agenda.after(down_ms, Event::Restart(Victim::Node(node)));
            }
        }
    }

    fn crash_server(&mut self, down_ms: u64, power_loss: bool) {
        let mut dice = self.dice.fork();
        self.server.crash(power_loss, &mut dice);
        let connections: Vec<u64> = self.connections.keys().copied().collect();
        connections.into_iter().for_each(|connection| self.break_connection(connection));
        self.requests.clear();
        self.agenda.after(down_ms, Event::Restart(Victim::Server));
    }

    /// The process ends without a word.
    fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Server => {}
            Victim::Scheduler(number) => self.schedulers[number].core = None,
            Victim::Health(number) => (self.health[number].core, self.health[number].session) = (None, None),
            Victim::Node(number) => self.nodes[number].agent = None,
            Victim::Client(number) => self.clients[number].shell.up = false,
        }
        if let Some(connection) = self.connection_of(victim).and_then(Option::take) {
            self.break_connection(connection);
        }
    }

    fn pause(&mut self, victim: Victim, until_ms: u64) {
        match victim {
            Victim::Server => lengthen(&mut self.server.paused_until_ms, until_ms),
            Victim::Node(number) => lengthen(&mut self.nodes[number].paused_until_ms, until_ms),
            _ => {
                if let Some(shell) = self.shell_of(victim) {
                    lengthen(&mut shell.paused_until_ms, until_ms);
                }
            }
        }
    }

    pub(crate) fn restart(&mut self, victim: Victim) {
        if self.is_up(victim) {
            return;
        }
        let mut dice = self.dice.fork();
        let now_ms = self.agenda.now_ms();
        self.note(|| format!("{victim:?} starts"));
        match victim {
            Victim::Server => {
                if let Err(reason) = self.server.start(&mut dice) {
                    self.failed = Some(reason);
                }
                self.step_server(ServerInput::Flush);
            }
            Victim::Scheduler(number) => self.schedulers[number].start(number, &mut dice),
            Victim::Health(number) => {
                let lease_ms = self.node_lease_ms;
                self.health[number].start(number, lease_ms, &mut dice);
            }
            Victim::Node(number) => {
                let mut effects = Vec::new();
                self.nodes[number].start(now_ms, &mut dice, &mut effects, &mut self.history);
                self.perform_agent(number, effects);
            }
            Victim::Client(number) => self.clients[number].shell.up = true,
        }
        if victim != Victim::Server {
            self.agenda.after(1, Event::Connect(victim));
        }
    }

    /// One attempt to connect; goes on until it works.
    pub(crate) fn connect(&mut self, victim: Victim) {
        if !self.is_up(victim) || self.connection_of(victim).is_none_or(|known| known.is_some()) {
            return;
        }
        let ready = self.server.core().is_some_and(|core| core.replica().leads());
        if !ready || self.is_cut(victim) || self.server.paused_until_ms > self.agenda.now_ms() {
            let again_ms = self.dice.between(50, 400);
            return self.agenda.after(again_ms, Event::Connect(victim));
        }
        let connection = self.next_connection;
        self.next_connection += 1;
        let known = Connection { victim, server_starts: self.server.starts, tickets: BTreeMap::new(), next_ticket: 1 };
        self.connections.insert(connection, known);
        if let Some(slot) = self.connection_of(victim) {
            *slot = Some(connection);
        }
        match victim {
            Victim::Scheduler(number) => {
                let from = applied_of(self.schedulers[number].core.as_ref());
                self.schedulers[number].shell.pieces.clear();
                self.send_up(connection, Up::Follow { from });
                self.step_scheduler(victim, SchedulerInput::Connected);
            }
            Victim::Health(number) => {
                let from = self.health[number].core.as_ref().map_or(ohm_model::Index(0), |core| core.cell().applied());
                self.health[number].shell.pieces.clear();
                self.send_up(connection, Up::Follow { from });
                if let Some(session) = self.health[number].session {
                    self.send_up(connection, Up::Duty(session));
                }
                self.step_duty(victim, DutyInput::Connected);
            }
            Victim::Node(_) => self.step_agent(victim, AgentInput::Connected),
            Victim::Client(number) => self.repeat_requests(number),
            Victim::Server => {}
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
        match victim {
            Victim::Scheduler(_) => self.step_scheduler(victim, SchedulerInput::Disconnected),
            Victim::Health(_) => self.step_duty(victim, DutyInput::Disconnected),
            Victim::Node(_) => self.step_agent(victim, AgentInput::Disconnected),
            Victim::Client(_) | Victim::Server => {}
        }
        let again_ms = self.dice.between(10, 300);
        self.agenda.after(again_ms, Event::Connect(victim));
    }

    /// From here on nothing goes wrong any more, and everybody who is down comes back.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.note(|| "healed".to_string());
        self.network = self.network.healed();
        self.cut_until_ms.clear();
        let now_ms = self.agenda.now_ms();
        for victim in self.everybody() {
            self.agenda.after(1, Event::Restart(victim));
        }
        self.agenda.at(now_ms, Event::Restart(Victim::Server));
        for number in 0..self.clients.len() {
            self.uncordon_all(number);
        }
    }
}

/// A second pause never ends the first one.
fn lengthen(paused_until_ms: &mut u64, until_ms: u64) {
    *paused_until_ms = until_ms.max(*paused_until_ms);
}
