//! Trouble that aims: once jobs lost tasks, or have just got them back, the wrong thing happens to them at the wrong
//! moment. Between the loss and the plan, the plan and its commit, the commit and the start lie milliseconds that
//! faults drawn beforehand would hardly ever hit.

use super::{Event, World};
use crate::faults::{Fault, Victim, Way};
use crate::roles::ClientProcess;
use crate::workload;
use ohm_model::{Command, EventKind, JobId};
use ohm_oracle::Record;

/// Of 1000 losses and repairs, so many are aimed at.
const AIMED_PERMILLE: u64 = 350;

impl World {
    /// Looks for something to aim at in what has just been applied for the first time.
    pub(super) fn aim(&mut self, records: &[Record]) {
        if self.healed || !self.knobs.losses {
            return;
        }
        for record in records {
            let Record::Applied { index, applied, .. } = record else { continue };
            if *index <= self.aimed {
                continue;
            }
            self.aimed = *index;
            for event in &applied.events {
                let (job, name, is_admission) = match &event.kind {
                    EventKind::TasksLost { job, name, .. } | EventKind::RepairCommitted { job, name, .. } => {
                        (job, name, false)
                    }
                    EventKind::QuotaReserved { job, name, .. }
                    | EventKind::CheckChanged { job, name, .. }
                    | EventKind::ChecksReady { job, name, .. } => (job, name, true),
                    _ => continue,
                };
                if self.dice.chance(AIMED_PERMILLE) {
                    self.trouble(*job, name.clone(), is_admission);
                }
            }
        }
    }

    fn trouble(&mut self, job: JobId, name: String, is_admission: bool) {
        let after_ms = match self.dice.below(4) {
            0 => 0,
            1 => self.dice.between(1, 12),
            2 => self.dice.between(10, 90),
            _ => self.dice.between(80, 500),
        };
        if !self.provisioners.is_empty() && self.dice.chance(250) {
            return self.trouble_provisioners(after_ms);
        }
        match self.dice.below(if is_admission { 9 } else { 6 }) {
            0 => self.say_after(after_ms, Command::CancelJob { name }),
            1 => {
                let again_ms = after_ms + self.dice.between(5, 800);
                self.say_after(after_ms, Command::SuspendJob { name: name.clone() });
                self.say_after(again_ms, Command::ResumeJob { name });
            }
            // The node is back before, while or after its tasks are given a new place.
            2 => {
                let down = (0..self.nodes.len()).filter(|number| self.nodes[*number].agent.is_none());
                let down: Vec<usize> = down.collect();
                if let Some(&number) = self.dice.pick(&down) {
                    self.agenda.after(after_ms, Event::Restart(Victim::Node(number)));
                }
            }
            3 => {
                let number = self.dice.below(self.schedulers.len() as u64) as usize;
                let down_ms = self.dice.between(10, 4_000);
                self.strike_after(after_ms, Fault::Crash { victim: Victim::Scheduler(number), down_ms });
            }
            // It becomes another job meanwhile, or what runs of it is done, then or once its second pass has placed it.
            6 => self.update_after(after_ms, &name),
            7 => self.agenda.after(after_ms, Event::Finish(job)),
            8 => {
                let later_ms = after_ms + self.dice.between(100, 3_000);
                self.agenda.after(later_ms, Event::Finish(job));
            }
            // A second loss of the same job.
            _ => {
                let hosts = self.hosts_of(job);
                if let Some(&node) = self.dice.pick(&hosts) {
                    let down_ms = self.dice.between(3_000, 20_000);
                    self.strike_after(after_ms, Fault::Reboot { node, down_ms });
                }
            }
        }
    }

    fn update_after(&mut self, after_ms: u64, name: &str) {
        let find = |client: &ClientProcess| client.submitted.iter().find(|spec| spec.name == name).cloned();
        let found = self.clients.iter().enumerate().find_map(|(number, client)| Some((number, find(client)?)));
        if let Some((number, spec)) = found {
            let spec = Box::new(workload::update(&mut self.dice, &spec));
            let owner = format!("client {number}");
            self.say_after(after_ms, Command::UpdateJob { owner, spec, version: None });
        }
    }

    fn trouble_provisioners(&mut self, after_ms: u64) {
        let number = self.dice.below(self.provisioners.len() as u64) as usize;
        let (victim, for_ms) = (Victim::Provisioner(number), self.dice.between(300, 6_000));
        let fault = match self.dice.below(3) {
            0 => Fault::Crash { victim, down_ms: for_ms },
            1 => Fault::Pause { victim, for_ms },
            _ => Fault::Cut { victim, way: Way::Both, for_ms },
        };
        self.strike_after(after_ms, fault);
    }

    fn say_after(&mut self, after_ms: u64, command: Command) {
        let at_ms = self.agenda.now_ms() + after_ms;
        self.asks.push((at_ms, command));
        self.agenda.at(at_ms, Event::Ask(self.asks.len() - 1));
    }

    fn strike_after(&mut self, after_ms: u64, fault: Fault) {
        let at_ms = self.agenda.now_ms() + after_ms;
        self.faults.push((at_ms, fault));
        self.agenda.at(at_ms, Event::Strike(self.faults.len() - 1));
    }

    /// The nodes on which tasks of `job` stand, as the leader knows it.
    fn hosts_of(&self, job: JobId) -> Vec<usize> {
        let Some(core) = self.leader().and_then(|number| self.servers[number].core()) else { return Vec::new() };
        let cell = core.replica().cell();
        let hosts = |number: &usize| {
            let node = cell.nodes().find(&self.nodes[*number].spec.name);
            node.is_some_and(|node| cell.runs().on_node(cell.nodes(), node).any(|(_, run)| run.run.task.job == job))
        };
        (0..self.nodes.len()).filter(hosts).collect()
    }
}
