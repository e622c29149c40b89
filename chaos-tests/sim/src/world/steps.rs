//! Stepping the cores of agents, schedulers and health candidates, and what they want done.

use super::{Event, Up, World};
use crate::faults::Victim;
use ohm_agent::{AgentEffect, AgentInput, DriverInput};
use ohm_client::FollowerCore;
use ohm_framework::{Again, Proceed, SchedulerEffect, SchedulerInput};
use ohm_health::{DutyEffect, DutyInput, DutyWord};
use ohm_log::Bytes;
use ohm_model::{Envelope, JobId};
use ohm_oracle::Record;
use ohm_replica::Beat;

impl World {
    pub(crate) fn step_agent(&mut self, victim: Victim, input: AgentInput) {
        let Victim::Node(number) = victim else { return };
        let mut effects = Vec::new();
        self.nodes[number].step(self.agenda.now_ms(), input, &mut effects, &mut self.history);
        self.perform_agent(number, effects);
    }

    pub(crate) fn perform_agent(&mut self, number: usize, effects: Vec<AgentEffect>) {
        for effect in effects {
            let up = match effect {
                AgentEffect::Register { instance, alive } => {
                    let node = &self.nodes[number];
                    Up::Register { spec: node.spec.clone(), key: node.key, instance, boot: node.boot, alive }
                }
                AgentEffect::Beat { node, incarnation, sequence, .. } => {
                    Up::Beats(vec![Beat { node, incarnation, sequence }])
                }
                AgentEffect::SendReports { batch, node, reports } => Up::Reports { node, batch, reports },
                AgentEffect::SendConditions { number, node, incarnation, conditions } => {
                    Up::Conditions { node, incarnation, number, conditions }
                }
                AgentEffect::Superseded => {
                    self.kill(Victim::Node(number));
                    self.agenda.after(1_000, Event::Restart(Victim::Node(number)));
                    continue;
                }
                _ => continue,
            };
            if let Some(connection) = self.nodes[number].connection {
                self.send_up(connection, up);
            }
        }
        self.plan_node(number);
    }

    /// Puts the next own moments of the node into the agenda.
    fn plan_node(&mut self, number: usize) {
        let now_ms = self.agenda.now_ms();
        let node = &mut self.nodes[number];
        if let Some(due_ms) = node.driver_due_ms(now_ms)
            && node.driver_ms.is_none_or(|planned_ms| planned_ms > due_ms || planned_ms < now_ms)
        {
            node.driver_ms = Some(due_ms);
            self.agenda.at(due_ms, Event::Driver { node: number });
        }
        if let Some(due_ms) = node.agent_due_ms(now_ms)
            && node.tick_ms.is_none_or(|planned_ms| planned_ms > due_ms || planned_ms < now_ms)
        {
            let due_ms = due_ms.max(now_ms + 1);
            node.tick_ms = Some(due_ms);
            self.agenda.at(due_ms, Event::Tick(Victim::Node(number)));
        }
    }

    pub(crate) fn run_driver(&mut self, number: usize) {
        self.nodes[number].driver_ms = None;
        self.drive_tasks(number, DriverInput::Tick);
    }

    /// The tasks of a job end by themselves, wherever they are.
    pub(crate) fn finish_tasks(&mut self, job: JobId) {
        (0..self.nodes.len()).for_each(|number| self.drive_tasks(number, DriverInput::Finish { job }));
    }

    fn drive_tasks(&mut self, number: usize, input: DriverInput) {
        let (now_ms, mut effects) = (self.agenda.now_ms(), Vec::new());
        let paused = self.paused_until_ms(Victim::Node(number)) > now_ms;
        // A paused agent hears of it later: the driver's record of it waits, as the shim's does.
        let agent = if paused { self.nodes[number].agent.take() } else { None };
        self.nodes[number].drive(now_ms, input, &mut effects, &mut self.history);
        if agent.is_some() {
            self.nodes[number].agent = agent;
            self.nodes[number].missed_words = true;
            self.agenda.at(self.nodes[number].paused_until_ms, Event::Tick(Victim::Node(number)));
        }
        self.perform_agent(number, effects);
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
                let copy = format!("scheduler {} #{}", number + 1, self.schedulers[number].shell.starts);
                self.history.push(Record::Copied { copy, index: applied, chain });
            }
            for effect in effects {
                match effect {
                    SchedulerEffect::Send(envelopes) => self.send_commands(victim, envelopes),
                    SchedulerEffect::Own(Again) => inputs.push(SchedulerInput::Own(Proceed)),
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
            let copy = format!("health {} #{}", number + 1, self.health[number].shell.starts);
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
                DutyEffect::Own(DutyWord::Answers { duty_epoch, lease_ms, interval_ms, answers, relay }) => {
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

    pub(super) fn send_commands(&mut self, victim: Victim, envelopes: Vec<Envelope>) {
        let Some(connection) = self.shell_of(victim).and_then(|shell| shell.connection) else { return };
        let Some(known) = self.connections.get_mut(&connection) else { return };
        let ticket = known.next_ticket;
        known.next_ticket += 1;
        let commands: Vec<Bytes> = envelopes.iter().map(|envelope| envelope.encode().into()).collect();
        known.tickets.insert(ticket, envelopes);
        self.send_up(connection, Up::Append { ticket, commands });
    }
}
