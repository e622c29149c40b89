//! What passes by itself: ticks of every process, and what people ask for.

use super::{Event, Up, World};
use crate::faults::Victim;
use crate::workload;
use ohm_agent::{DriverInput, Input as AgentInput};
use ohm_framework::Input as SchedulerInput;
use ohm_health::DutyInput;
use ohm_model::{Command, JobOutcome, Outcome};
use ohm_oracle::Record;
use ohm_replica::{AppendResult, ServerInput};

/// A person asks again after this long without an answer.
const PATIENCE_MS: u64 = 3_000;

impl World {
    pub(crate) fn tick(&mut self, victim: Victim) {
        let every_ms = match victim {
            Victim::Server => 20,
            Victim::Scheduler(_) => 50,
            Victim::Health(_) | Victim::Node(_) => 40,
            Victim::Client(_) => 100,
        };
        self.agenda.after(every_ms, Event::Tick(victim));
        match victim {
            Victim::Server => self.step_server(ServerInput::Flush),
            Victim::Scheduler(_) => self.step_scheduler(victim, SchedulerInput::Tick),
            Victim::Health(_) => self.step_duty(victim, DutyInput::Tick),
            Victim::Node(number) => {
                if std::mem::take(&mut self.nodes[number].missed_words) && self.nodes[number].agent.is_some() {
                    let (now_ms, mut effects) = (self.agenda.now_ms(), Vec::new());
                    self.nodes[number].drive(now_ms, DriverInput::Attach, &mut effects, &mut self.history);
                    self.perform_agent(number, effects);
                }
                self.step_agent(victim, AgentInput::Tick);
            }
            Victim::Client(number) => self.tick_client(number),
        }
        if victim == Victim::Server {
            self.sweep();
        }
    }

    /// The cell's own invariants, now and then.
    fn sweep(&mut self) {
        let Some(core) = self.server.core() else { return };
        let cell = core.replica().cell();
        if cell.applied().0 % 7 != 0 {
            return;
        }
        if let Some(broken) = cell.invariants().into_iter().next() {
            self.failed = Some(broken);
        }
    }

    fn tick_client(&mut self, number: usize) {
        let now_ms = self.agenda.now_ms();
        if !self.clients[number].shell.up {
            return;
        }
        let late: Vec<u64> = self.clients[number]
            .open
            .iter()
            .filter(|(_, (_, sent_ms))| now_ms.saturating_sub(*sent_ms) > PATIENCE_MS)
            .map(|(request, _)| *request)
            .collect();
        late.into_iter().for_each(|request| self.ask(number, request));
        if self.healed || now_ms < self.clients[number].next_at_ms || self.clients[number].left == 0 {
            return;
        }
        self.clients[number].left -= 1;
        let pause_ms = self.dice.between(20, 2_500);
        self.clients[number].next_at_ms = now_ms + pause_ms;
        let command = if self.dice.chance(750) {
            let count = self.clients[number].submitted.len();
            let name = format!("c{number}-job-{count}");
            self.clients[number].submitted.push(name.clone());
            let job = workload::job(&mut self.dice, name);
            Some(Command::SubmitJobs { owner: format!("client {number}"), jobs: vec![job] })
        } else {
            let job = self.dice.pick(&self.clients[number].submitted).cloned();
            workload::interference(&mut self.dice, job, self.nodes.len())
        };
        if let Some(command) = command {
            self.request(number, command);
        }
    }

    fn request(&mut self, number: usize, command: Command) {
        let request = self.clients[number].next_request;
        self.clients[number].next_request += 1;
        self.clients[number].open.insert(request, (command, 0));
        self.ask(number, request);
    }

    /// Sends a request, for the first time or again.
    fn ask(&mut self, number: usize, request: u64) {
        let now_ms = self.agenda.now_ms();
        let client = &mut self.clients[number];
        let Some((command, sent_ms)) = client.open.get_mut(&request) else { return };
        *sent_ms = now_ms;
        let command = command.clone();
        if let Some(connection) = client.shell.connection {
            self.send_up(connection, Up::Command { request, command });
        }
    }

    pub(crate) fn repeat_requests(&mut self, number: usize) {
        let open: Vec<u64> = self.clients[number].open.keys().copied().collect();
        open.into_iter().for_each(|request| self.ask(number, request));
        if self.clients[number].shell.starts == 0 {
            self.clients[number].shell.starts = 1;
            self.request(number, Command::PutTopology(workload::topology()));
        }
    }

    /// A person got an answer.
    pub(crate) fn told(&mut self, victim: Victim, request: u64, result: AppendResult) {
        let Victim::Client(number) = victim else { return };
        let AppendResult::Committed { outcomes, .. } = result else { return };
        let Some((command, _)) = self.clients[number].open.remove(&request) else { return };
        let at_ms = self.agenda.now_ms();
        if let (Command::SubmitJobs { jobs, .. }, Some(Outcome::Jobs(outcomes))) = (command, outcomes.first()) {
            for (spec, outcome) in jobs.iter().zip(outcomes) {
                if !matches!(outcome, JobOutcome::Refused(_)) {
                    self.history.push(Record::Acknowledged { at_ms, job: spec.name.clone() });
                }
            }
        }
    }

    /// At the end people want their nodes back.
    pub(crate) fn uncordon_all(&mut self, number: usize) {
        for node in 0..self.nodes.len() {
            self.request(number, Command::CordonNode { name: format!("n{node}"), cordoned: false });
        }
    }
}
