//! A simulated person with a script: what was asked and not answered yet is asked again.

use crate::clocks::Clock;
use crate::faults::Victim;
use crate::outside;
use crate::role::{Role, Shell};
use crate::stage::{Down, Event, Stage};
use crate::theme::Theme;
use crate::workload;
use ohm_model::{Actor, Asked, Command, JobOutcome, JobSpec, Outcome};
use ohm_oracle::Record;
use ohm_replica::AppendResult;
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// A person asks again after this long without an answer.
const PATIENCE_MS: u64 = 3_000;
/// How often a person looks.
const TICK_MS: u64 = 100;

/// A person.
pub(crate) struct ClientProcess {
    number: usize,
    shell: Shell,
    up: bool,
    next_at_ms: u64,
    pub(crate) submitted: Vec<JobSpec>,
    /// What is asked and not answered, and when it was sent last.
    open: BTreeMap<u64, (Command, u64)>,
    next_request: u64,
    /// How many wishes are left.
    left: u64,
    greeted: bool,
}

impl ClientProcess {
    pub(crate) fn new(number: usize, clock: Clock, next_at_ms: u64, wishes: u64) -> Self {
        ClientProcess {
            number,
            shell: Shell::new(clock),
            up: false,
            next_at_ms,
            submitted: Vec::new(),
            open: BTreeMap::new(),
            next_request: 1,
            left: wishes,
            greeted: false,
        }
    }

    /// Wishes for something, in one of many ways.
    fn wish(&mut self, stage: &mut Stage) {
        let command = if stage.dice.chance(700) {
            let name = format!("c{}-job-{}", self.number, self.submitted.len());
            let job = draw_job(name, stage);
            change_mind(&job.name, stage);
            for (after_ms, stop) in stage.knobs.lines.aimed(&stage.dice, &job).into_iter().flatten() {
                stage.agenda.after(after_ms, Event::Stop(stop));
            }
            if let Some((after_ms, command)) = stage.knobs.lines.urgent(&stage.dice, &job) {
                stage.ask_at(stage.now_ms() + after_ms, command);
            }
            self.submitted.push(job.clone());
            Some(Command::SubmitJobs { jobs: vec![job] })
        } else if stage.dice.chance(150) {
            self.replace(stage)
        } else {
            let job = stage.dice.pick(&self.submitted).cloned();
            workload::interference(&mut stage.dice, job.as_ref(), stage.nodes, stage.knobs.queues)
        };
        let command = command.map(|command| stage.knobs.namespaces.change(&stage.dice).unwrap_or(command));
        let command = command.map(|command| stage.knobs.budgets.change(&stage.dice).unwrap_or(command));
        let rolled = |command| stage.knobs.rolled_services.change(&stage.dice, &self.submitted).unwrap_or(command);
        let command = command.map(rolled);
        if let Some(mut command) = command {
            if let (Command::PutQueue(spec), Theme::Provisioning) = (&mut command, stage.knobs.theme) {
                *spec = outside::checked(&mut stage.dice, spec.clone());
            }
            settle_lines(&mut command, stage);
            self.request(command, stage);
        }
    }

    /// Runs a job again under its name, sometimes as another one: what `--replace` does, with nobody waiting between.
    fn replace(&mut self, stage: &mut Stage) -> Option<Command> {
        let at = stage.dice.below(self.submitted.len() as u64) as usize;
        let old = self.submitted.get(at)?.clone();
        let job = match stage.dice.chance(500) {
            true => draw_job(old.name.clone(), stage),
            false => old,
        };
        self.submitted[at] = job.clone();
        if stage.dice.chance(300) {
            self.request(Command::CancelJob { name: job.name.clone(), grace_ms: None }, stage);
        }
        self.request(Command::ForgetJob { name: job.name.clone() }, stage);
        Some(Command::SubmitJobs { jobs: vec![job] })
    }

    /// Asks for `command` until it is answered.
    pub(crate) fn request(&mut self, command: Command, stage: &mut Stage) {
        let request = self.note_request(command);
        self.ask(request, stage);
    }

    fn note_request(&mut self, command: Command) -> u64 {
        self.next_request += 1;
        self.open.insert(self.next_request - 1, (command, 0));
        self.next_request - 1
    }

    /// Sends a request, for the first time or again.
    fn ask(&mut self, request: u64, stage: &mut Stage) {
        let Some((command, sent_ms)) = self.open.get_mut(&request) else { return };
        *sent_ms = stage.now_ms();
        if let Some(connection) = self.shell.connection {
            let asked = Asked { actor: Actor(format!("client {}", self.number)), command: command.clone() };
            stage.send_request(connection, request, &asked);
        }
    }

    /// Without memory a person asks for everything that the files say.
    pub(crate) fn forget_requests(&mut self) {
        self.open.clear();
        for job in self.submitted.clone() {
            self.note_request(Command::SubmitJobs { jobs: vec![job] });
        }
    }

    fn greet(&mut self, stage: &mut Stage) {
        let mut dice = stage.dice.fork();
        let mut greetings = workload::greetings(&mut dice, stage.knobs.queues);
        if stage.knobs.theme == Theme::Provisioning {
            greetings = outside::with_checks(&mut dice, greetings);
        }
        greetings.extend(stage.knobs.namespaces.greetings());
        greetings.extend(stage.knobs.budgets.greetings());
        greetings.extend(stage.knobs.subqueues.greetings());
        greetings.extend(stage.knobs.own_class.map(workload::first_profile));
        for mut command in greetings {
            settle_lines(&mut command, stage);
            self.request(command, stage);
        }
    }
}

impl Role for ClientProcess {
    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn shell_mut(&mut self) -> &mut Shell {
        &mut self.shell
    }

    fn is_up(&self) -> bool {
        self.up
    }

    fn start(&mut self, _dice: &mut Prng, stage: &mut Stage) {
        self.up = true;
        stage.agenda.after(1, Event::Connect(Victim::Client(self.number)));
    }

    fn stop(&mut self) {
        self.up = false;
    }

    fn tick(&mut self, stage: &mut Stage) {
        stage.agenda.after(TICK_MS, Event::Tick(Victim::Client(self.number)));
        if !self.up {
            return;
        }
        let now_ms = stage.now_ms();
        let is_late = |sent_ms: u64| now_ms.saturating_sub(sent_ms) > PATIENCE_MS;
        let late = self.open.iter().filter(|(_, (_, sent_ms))| is_late(*sent_ms)).map(|(request, _)| *request);
        let late: Vec<u64> = late.collect();
        late.into_iter().for_each(|request| self.ask(request, stage));
        if stage.healed || now_ms < self.next_at_ms || self.left == 0 {
            return;
        }
        self.left -= 1;
        self.next_at_ms = now_ms + stage.dice.between(20, stage.knobs.wish_pause_ms);
        self.wish(stage);
    }

    fn connected(&mut self, _connection: u64, stage: &mut Stage) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|request| self.ask(request, stage));
        if !std::mem::replace(&mut self.greeted, true) {
            self.greet(stage);
        }
    }

    /// An answer to a request.
    fn hear(&mut self, _connection: u64, down: Down, stage: &mut Stage) {
        let Down::Done { request, result: AppendResult::Committed { outcomes, .. } } = down else { return };
        let Some((command, _)) = self.open.remove(&request) else { return };
        let at_ms = stage.now_ms();
        if let (Command::SubmitJobs { jobs, .. }, Some(Outcome::Jobs(outcomes))) = (command, outcomes.first()) {
            for (spec, outcome) in jobs.iter().zip(outcomes) {
                if !matches!(outcome, JobOutcome::Refused(_)) {
                    stage.history.push(Record::Acknowledged { at_ms, job: spec.name.clone() });
                }
            }
        }
    }
}

fn draw_job(name: String, stage: &mut Stage) -> JobSpec {
    let kind = (stage.knobs.is_large(), stage.knobs.losses);
    let mut job = workload::job(&mut stage.dice, name, kind, stage.knobs.queues);
    stage.knobs.theme.bend(&mut stage.dice, &mut job);
    workload::into_own_class(&mut job, stage.knobs.own_class);
    stage.knobs.lines.hurry(&stage.dice, &mut job);
    stage.knobs.subqueues.name(&mut job);
    stage.knobs.namespaces.enter(&mut job);
    stage.knobs.neighbour_rules.settle(&mut job);
    stage.knobs.probed_tasks.settle(&mut job);
    stage.knobs.budgets.settle(&mut job);
    stage.knobs.rolled_services.settle(&mut job);
    stage.knobs.stop_delays.settle(&mut job);
    job
}

/// What a run draws of lines goes for the queue or the job that somebody changes, too.
fn settle_lines(command: &mut Command, stage: &Stage) {
    match command {
        Command::PutQueue(spec) => {
            stage.knobs.lines.order(&stage.dice, spec);
            stage.knobs.ready_times.settle(&stage.dice, spec);
            stage.knobs.subqueues.settle(&stage.dice, spec);
            stage.knobs.namespaces.settle(&stage.dice, spec);
        }
        Command::UpdateJob { spec, .. } => {
            stage.knobs.neighbour_rules.change(&stage.dice, spec);
            stage.knobs.budgets.amend(&stage.dice, spec);
            stage.knobs.lines.hurry(&stage.dice, spec);
            stage.knobs.subqueues.name(spec);
        }
        _ => {}
    }
}

/// Now and then somebody takes a job back, or lets it wait, the moment after submitting it.
fn change_mind(job: &str, stage: &mut Stage) {
    if !stage.dice.chance(200) {
        return;
    }
    let name = job.to_string();
    let command =
        if stage.dice.chance(300) { Command::CancelJob { name, grace_ms: None } } else { Command::SuspendJob { name } };
    let at_ms = stage.now_ms() + stage.dice.below(120);
    stage.ask_at(at_ms, command);
}
