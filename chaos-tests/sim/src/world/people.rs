//! What passes by itself: ticks of every process, and what people ask for.

use super::{Event, World, outside};
use crate::faults::Victim;
use crate::theme::Theme;
use crate::workload;
use ohm_agent::{AgentInput, DriverInput};
use ohm_client::SessionInput;
use ohm_model::{Command, JobOutcome, JobSpec, Outcome};
use ohm_oracle::Record;
use ohm_replica::{AppendResult, ServerInput};

/// A person asks again after this long without an answer.
const PATIENCE_MS: u64 = 3_000;

impl World {
    pub(crate) fn tick(&mut self, victim: Victim) {
        let every_ms = match victim {
            Victim::Server(_) => 20,
            Victim::Scheduler(_) => 50,
            Victim::Health(_) | Victim::Provisioner(_) => 40,
            Victim::Client(_) => 100,
            // Agents say themselves when they have something to do.
            Victim::Node(number) => return self.tick_node(number),
        };
        self.agenda.after(every_ms, Event::Tick(victim));
        match victim {
            Victim::Server(number) => {
                self.step_server(number, ServerInput::Flush);
                self.sweep(number);
            }
            Victim::Client(number) => self.tick_client(number),
            _ => self.step_session(victim, SessionInput::Tick),
        }
    }

    fn tick_node(&mut self, number: usize) {
        self.nodes[number].tick_ms = None;
        if std::mem::take(&mut self.nodes[number].missed_words) && self.nodes[number].agent.is_some() {
            let (now_ms, mut effects) = (self.agenda.now_ms(), Vec::new());
            self.nodes[number].drive(now_ms, DriverInput::Attach, &mut effects, &mut self.history);
            self.perform_agent(number, effects);
        }
        self.step_agent(Victim::Node(number), AgentInput::Tick);
    }

    /// The cell's own invariants, now and then.
    fn sweep(&mut self, number: usize) {
        let every = if self.knobs.is_large() { 400 } else { 7 };
        let Some(core) = self.servers[number].core() else { return };
        let cell = core.replica().cell();
        let reached = (self.servers[number].starts, cell.applied());
        if reached.1.0 % every != 0 || self.servers[number].swept == reached {
            return;
        }
        let broken = cell.invariants().into_iter().next();
        self.servers[number].swept = reached;
        if let Some(what) = broken {
            self.fail("invariant", what);
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
        let pause_ms = self.dice.between(20, self.knobs.wish_pause_ms);
        self.clients[number].next_at_ms = now_ms + pause_ms;
        let (queues, own) = (self.knobs.queues, format!("client {number}"));
        let command = if self.dice.chance(700) {
            let name = format!("c{number}-job-{}", self.clients[number].submitted.len());
            let job = self.draw_job(name);
            self.change_mind(&job.name);
            self.clients[number].submitted.push(job.clone());
            Some(Command::SubmitJobs { owner: own, jobs: vec![job] })
        } else if self.dice.chance(150) {
            self.replace(number)
        } else {
            let job = self.dice.pick(&self.clients[number].submitted);
            let job = job.cloned();
            workload::interference(&mut self.dice, job.as_ref(), &own, self.nodes.len(), queues)
        };
        if let Some(mut command) = command {
            if let (Command::PutQueue(spec), Theme::Provisioning) = (&mut command, self.knobs.theme) {
                *spec = outside::checked(&mut self.dice, spec.clone());
            }
            self.request(number, command);
        }
    }

    fn draw_job(&mut self, name: String) -> JobSpec {
        let kind = (self.knobs.is_large(), self.knobs.losses);
        let mut job = workload::job(&mut self.dice, name, kind, self.knobs.queues);
        self.knobs.theme.bend(&mut self.dice, &mut job);
        job
    }

    /// Runs a job again under its name, sometimes as another one: what `--replace` does, with nobody waiting between.
    fn replace(&mut self, number: usize) -> Option<Command> {
        let at = self.dice.below(self.clients[number].submitted.len() as u64) as usize;
        let old = self.clients[number].submitted.get(at)?.clone();
        let job = match self.dice.chance(500) {
            true => self.draw_job(old.name.clone()),
            false => old,
        };
        self.clients[number].submitted[at] = job.clone();
        if self.dice.chance(300) {
            self.request(number, Command::CancelJob { name: job.name.clone() });
        }
        self.request(number, Command::ForgetJob { name: job.name.clone() });
        Some(Command::SubmitJobs { owner: format!("client {number}"), jobs: vec![job] })
    }

    /// Now and then somebody takes a job back, or lets it wait, the moment after submitting it.
    fn change_mind(&mut self, job: &str) {
        if !self.dice.chance(200) {
            return;
        }
        let name = job.to_string();
        let command = if self.dice.chance(300) { Command::CancelJob { name } } else { Command::SuspendJob { name } };
        let at_ms = self.agenda.now_ms() + self.dice.below(120);
        self.asks.push((at_ms, command));
        self.agenda.at(at_ms, Event::Ask(self.asks.len() - 1));
    }

    pub(super) fn request(&mut self, number: usize, command: Command) {
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
            self.send_request(connection, request, command);
        }
    }

    pub(crate) fn repeat_requests(&mut self, number: usize) {
        let open: Vec<u64> = self.clients[number].open.keys().copied().collect();
        open.into_iter().for_each(|request| self.ask(number, request));
        if !std::mem::replace(&mut self.clients[number].greeted, true) {
            let mut dice = self.dice.fork();
            let mut greetings = workload::greetings(&mut dice, self.knobs.queues);
            if self.knobs.theme == Theme::Provisioning {
                greetings = outside::with_checks(&mut dice, greetings);
            }
            for command in greetings {
                self.request(number, command);
            }
        }
    }

    /// A client without memory asks for everything that its files say.
    pub(super) fn forget_requests(&mut self, number: usize) {
        let owner = format!("client {number}");
        self.clients[number].open.clear();
        for job in self.clients[number].submitted.clone() {
            let request = self.clients[number].next_request;
            self.clients[number].next_request += 1;
            let command = Command::SubmitJobs { owner: owner.clone(), jobs: vec![job] };
            self.clients[number].open.insert(request, (command, 0));
        }
    }

    pub(super) fn ask_scripted(&mut self, number: usize) {
        let command = self.asks[number].1.clone();
        self.request(0, command);
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
}
