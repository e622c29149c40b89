//! Random provisioning classes, queues with checks, and reports about them.

use crate::world::World;
use ohm_cell::Job;
use ohm_model::{
    AdmissionCheck, CheckReport, Command, Epoch, Lease, Provisioner, ProvisioningClass, QueueSpec, Toleration,
    TolerationOperator,
};
use std::sync::Arc;

pub(crate) fn name_of_check(number: u64) -> String {
    format!("v{number}")
}

impl World {
    /// Of cells that dwell on admission: classes, and queues that name them.
    pub(crate) fn first_checks(&self) -> Vec<Command> {
        let provisioners = [Provisioner::Sim, Provisioner::Command { command: vec!["bring".into()] }];
        let classes = (0..).zip(provisioners).map(|(class, by)| ProvisioningClass::of(name_of_check(class), by));
        let queue = |name: String, classes: u64| QueueSpec {
            name,
            is_cohort: classes == 0,
            nominal: [("cpu".to_string(), 20_000)].into(),
            admission_checks: (0..classes).map(|class| AdmissionCheck::of(name_of_check(class))).collect(),
            ..QueueSpec::default()
        };
        let queues = (0..3).map(|number| queue(format!("q{number}"), 1 + number / 2));
        let queues = std::iter::once(queue("c0".into(), 0)).chain(queues);
        let commands = classes.map(Command::PutProvisioningClass).chain(queues.map(Command::PutQueue));
        commands.filter(|_| self.dwells).collect()
    }

    pub(crate) fn provisioning_class(&mut self) -> Command {
        let dice = &mut self.dice;
        let name = name_of_check(dice.below(2));
        if dice.chance(250) {
            return Command::RemoveProvisioningClass { name };
        }
        let provisioner = match dice.chance(200) {
            true => Provisioner::Sim,
            false => Provisioner::Command { command: vec!["bring".into()] },
        };
        let mut class = ProvisioningClass::of(name, provisioner);
        class.watch_seconds = dice.below(3) / 2;
        (class.exclusive, class.idle_seconds) = (dice.chance(200), dice.below(4) * 20);
        class.retry.base_seconds = dice.below(4);
        class.retry.factor = dice.between(1, 3) as u32;
        class.retry.max_seconds = dice.below(20);
        class.retry.limit = dice.below(4) as u32;
        class.booking_seconds = dice.below(3) * 10;
        class.timeout_seconds = dice.below(3) * 30;
        Command::PutProvisioningClass(class)
    }

    /// Whether the duty said so, of something that is asked.
    pub(crate) fn follow_report_check(&mut self, command: &Command) -> bool {
        let Command::ReportCheck { epoch, job, round, class, repair, report } = command else { return false };
        let held = *epoch == self.cell.sessions().lease(Lease::Provisioning).epoch;
        held && match repair {
            0 => self.plain.report_check(*job, *round, class, report),
            number => self.plain.report_request(*job, (*round, class, *number), report),
        }
    }

    /// Mostly about a check that is asked.
    pub(crate) fn check_report(&mut self) -> Command {
        if let Some(report) = self.request_report().filter(|_| self.dice.chance(700)) {
            return report;
        }
        let jobs: Vec<Arc<Job>> = self.cell.jobs().iter().cloned().collect();
        let waits = self.dice.chance(850);
        let is_asked = |job: &&Arc<Job>| job.admission.round.as_ref().is_some_and(|round| !waits || !round.is_ready());
        let asked: Vec<Arc<Job>> = jobs.iter().filter(is_asked).cloned().collect();
        let likely = if self.dice.chance(950) { &asked } else { &jobs };
        let Some(job) = self.dice.pick(likely).cloned() else { return Command::Tick };
        let checks = job.admission.round.iter().flat_map(|round| &round.checks).map(|check| check.class.clone());
        let checks: Vec<String> = checks.collect();
        let class = self.dice.pick(&checks).cloned().filter(|_| self.dice.chance(950));
        let class = class.unwrap_or_else(|| name_of_check(self.dice.below(3)));
        let late = u32::from(self.dice.chance(50));
        let held = self.cell.sessions().lease(Lease::Provisioning).epoch;
        let epoch = if self.dice.chance(980) { held } else { Epoch(held.0 + 1) };
        let message = ["", "so"][self.dice.below(2) as usize].to_string();
        let report = match self.dice.below(20) {
            0..14 => {
                let mut node_selector = ohm_model::selector::Labels::new();
                if self.dice.chance(200) {
                    let value = if self.dice.chance(900) { "ssd" } else { "hdd" };
                    node_selector.insert("disk".into(), value.into());
                }
                let (operator, value) = (TolerationOperator::Exists, String::new());
                let key = if self.dice.chance(500) { "only" } else { "node.ohm/disk-pressure" };
                let toleration =
                    Toleration { key: key.into(), operator, value, effect: None, toleration_seconds: None };
                let tolerations = self.dice.chance(300).then_some(toleration).into_iter().collect();
                CheckReport::Ready { node_selector, tolerations, message }
            }
            14 => CheckReport::Pending { message },
            15..17 => CheckReport::Failed { message },
            17..19 => CheckReport::BookingExpired { message },
            _ => CheckReport::CapacityRevoked { message },
        };
        let round = job.admission.rounds.saturating_sub(late);
        Command::ReportCheck { epoch, job: job.id, round, class, repair: 0, report }
    }
}
