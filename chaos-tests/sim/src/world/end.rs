//! Healing, and what must be true when everything is quiet again.

use super::{Event, World};
use crate::faults::Victim;
use crate::report::Report;
use ohm_model::NodeHealth;
use ohm_oracle::{Broken, Stuck, stuck_jobs};
use ohm_stdx::hash;

/// What is stuck stays so: two looks this far apart must show the same job with no attempt in between.
const BETWEEN_MS: u64 = 6_000;

impl World {
    /// From here on nothing goes wrong any more, and everybody who is down comes back.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.note(|| "nothing goes wrong from here on".to_string());
        self.network = crate::links::NetworkFaults::calm();
        self.storm = (1, 0);
        self.mischief.set(0);
        self.cuts.clear();
        self.splits.clear();
        self.nodes.iter_mut().for_each(|node| node.ails.clear());
        for number in 0..self.servers.len() {
            self.heal_disk(number);
            self.agenda.after(0, Event::Restart(Victim::Server(number)));
        }
        for victim in self.everybody() {
            self.agenda.after(1, Event::Restart(victim));
        }
        // At the end people want their nodes back.
        for node in 0..self.nodes.len().min(200) {
            let name = format!("n{node}");
            self.request(0, ohm_model::Command::CordonNode { name: name.clone(), cordoned: false });
            self.request(0, ohm_model::Command::ReleaseNode { name });
        }
    }

    pub(super) fn finish(mut self) -> Report {
        // A world that was stopped short was never quiet.
        if self.report.broken.is_empty() {
            self.judge_quiet();
            self.oracle.finish();
        }
        self.report.broken.retain(|broken| broken.promise != "oracle");
        self.report.broken.extend(self.oracle.broken().iter().cloned());
        self.judge_expectations();
        self.report.virtual_ms = self.agenda.now_ms();
        for server in &self.servers {
            if let Some(core) = server.core() {
                self.digest = hash::chain(self.digest, core.replica().cell().digest());
            }
        }
        self.report.digest = self.digest;
        self.report
    }

    fn judge_quiet(&mut self) {
        let first = self.stuck();
        let reached = self.leader().map(|number| self.servers[number].applied()).unwrap_or_default();
        self.run_until(self.agenda.now_ms() + BETWEEN_MS);
        if !self.report.broken.is_empty() {
            return;
        }
        self.sweep_invariants();
        self.report.broken.extend(self.failed.take());
        let still =
            |stuck: &Stuck| first.iter().any(|early| (early.job, early.attempts) == (stuck.job, stuck.attempts));
        let mut broken: Vec<Broken> = self.stuck().into_iter().filter(still).map(|stuck| stuck.broken).collect();
        broken.extend(self.wrong_reasons());
        broken.extend(self.stuck_admissions());
        let quiet = |what: String| Broken { promise: "P10", what };
        match self.leader().and_then(|number| self.servers[number].core()) {
            None => broken.push(quiet("no server leads".into())),
            Some(core) => {
                for (node, record) in core.replica().cell().nodes().iter() {
                    if record.health != NodeHealth::Ready {
                        let what = format!("node {} ({node}) is still {:?}", record.spec.name, record.health);
                        broken.push(quiet(what));
                    }
                }
                for (_, record) in core.replica().cell().nodes().iter() {
                    for condition in &record.conditions {
                        let (name, kind) = (&record.spec.name, condition.kind.name());
                        broken.push(quiet(format!("node {name} is said to have {kind}, and is well")));
                    }
                }
                let known =
                    |number: &usize| core.replica().cell().nodes().find(&self.nodes[*number].spec.name).is_some();
                let lost = (0..self.nodes.len()).filter(|number| !known(number));
                broken.extend(lost.map(|number| quiet(format!("node n{number} has not joined"))));
            }
        }
        broken.extend(self.judge_group(reached));
        self.report.broken.extend(broken);
    }

    fn stuck(&self) -> Vec<Stuck> {
        let core = self.leader().and_then(|number| self.servers[number].core());
        core.map_or_else(Vec::new, |core| stuck_jobs(core.replica().cell()))
    }

    /// The cell's own invariants.
    pub(super) fn sweep_invariants(&mut self) {
        let broken: Vec<String> = self
            .servers
            .iter()
            .filter_map(|server| server.core()?.replica().cell().invariants().into_iter().next())
            .collect();
        broken.into_iter().for_each(|what| self.fail("invariant", what));
    }

    fn judge_expectations(&mut self) {
        let Some(script) = self.scenario.script.clone() else { return };
        let cell = self.leader().and_then(|number| self.servers[number].core()).map(|core| core.replica().cell());
        let missed = script.missed(cell, &self.report);
        self.report.broken = missed;
    }
}
