//! Healing, and what must be true when everything is quiet again.

use super::World;
use crate::faults::Victim;
use crate::layout::PUT_TAINT;
use crate::quiet;
use crate::report::Report;
use crate::role::Role;
use crate::stage::Event;
use crate::workload::Stop;
use ohm_cell::Cell;
use ohm_model::{Command, StopPolicy, TaintPattern};
use ohm_oracle::Broken;
use ohm_stdx::hash;

/// What is stuck stays so: every one of several looks must show the same job with no attempt in between. One or two
/// would be too few: each may come just when room has become free.
const LOOKS: u64 = 8;
/// Between the first look and the last.
const LOOKING_MS: u64 = 6_000;
/// For so long people look whether queues are held that are to go on, and how often.
const LIFTING_MS: u64 = 20_000;
const LIFT_EVERY_MS: u64 = 1_000;

impl World {
    /// From here on nothing goes wrong any more, and everybody who is down comes back.
    pub(super) fn heal(&mut self) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        stage.heal();
        roles.nodes.iter_mut().for_each(|node| node.ails.clear());
        for (number, server) in roles.servers.iter_mut().enumerate() {
            server.heal_disk(stage);
            stage.agenda.after(0, Event::Restart(Victim::Server(number)));
        }
        for victim in roles.everybody() {
            stage.agenda.after(1, Event::Restart(victim));
        }
        // At the end people want their nodes back.
        for node in 0..roles.nodes.len().min(200) {
            let name = format!("n{node}");
            roles.clients[0].request(Command::CordonNode { name: name.clone(), cordoned: false }, stage);
            roles.clients[0].request(Command::ReleaseNode { name: name.clone() }, stage);
            let pattern = TaintPattern { key: PUT_TAINT.into(), value: None, effect: None };
            roles.clients[0].request(Command::UntaintNode { name, pattern }, stage);
        }
        if stage.knobs.lines.lifted().next().is_some() {
            let until_ms = stage.now_ms() + LIFTING_MS;
            stage.agenda.after(1, Event::Lift { until_ms });
        }
    }

    /// Until then people let the queues go on that are to, however late somebody is heard who has held one before.
    pub(super) fn lift(&mut self, until_ms: u64) {
        for queue in self.stage.knobs.lines.lifted() {
            self.stop(Stop { queue, policy: StopPolicy::None });
        }
        let stage = &mut self.stage;
        if stage.now_ms() < until_ms {
            stage.agenda.after(LIFT_EVERY_MS, Event::Lift { until_ms });
        }
    }

    /// People hold a queue, or let it go on.
    pub(super) fn stop(&mut self, stop: Stop) {
        let (roles, stage) = (&mut self.roles, &mut self.stage);
        let holds = stop.policy != StopPolicy::None;
        let command = roles.cell().filter(|_| !(holds && stage.healed)).and_then(|cell| stop.command(cell));
        command.into_iter().for_each(|command| roles.clients[0].request(command, stage));
    }

    pub(super) fn finish(mut self) -> Report {
        // A world that was stopped short was never quiet.
        if self.stage.report.broken.is_empty() {
            self.judge_quiet();
            self.oracle.finish();
        }
        let broken = &mut self.stage.report.broken;
        broken.retain(|broken| broken.promise != "oracle");
        broken.extend(self.oracle.broken().iter().cloned());
        self.judge_expectations();
        for server in &self.roles.servers {
            if let Some(core) = server.core() {
                self.digest = hash::chain(self.digest, core.replica().cell().digest());
            }
        }
        let virtual_ms = self.stage.now_ms();
        Report { virtual_ms, digest: self.digest, ..self.stage.report }
    }

    fn judge_quiet(&mut self) {
        let mut stuck = self.oracle.stuck_jobs();
        let reached = self.roles.leader().map(|number| self.roles.servers[number].applied()).unwrap_or_default();
        for _ in 0..LOOKS {
            self.run_until(self.stage.now_ms() + LOOKING_MS / LOOKS);
            if !self.stage.report.broken.is_empty() {
                return;
            }
            if !stuck.is_empty() {
                let early = stuck;
                stuck = self.oracle.stuck_jobs();
                stuck.retain(|now| early.iter().any(|one| (one.job, one.attempts) == (now.job, now.attempts)));
            }
        }
        self.sweep_invariants();
        self.stage.report.broken.extend(self.stage.failed.take());
        let mut broken: Vec<Broken> = stuck.into_iter().map(|stuck| stuck.broken).collect();
        match self.roles.cell() {
            None => broken.push(Broken { promise: "P10", what: "no server leads".into() }),
            Some(cell) => {
                broken.extend(self.seen_cell().into_iter().flat_map(|cell| quiet::wrong_reasons(cell, &self.oracle)));
                broken.extend(quiet::stuck_admissions(cell));
                broken.extend(quiet::unclaimed_repairs(cell));
                let nodes = self.roles.nodes.iter().filter(|node| !node.shell().over);
                let names = nodes.map(|node| node.spec.name.as_str()).collect();
                broken.extend(quiet::lost_nodes(cell, &names));
            }
        }
        broken.extend(self.operator.judge(reached, &self.roles));
        self.stage.report.broken.extend(broken);
    }

    /// The cell of the server that has applied most: all that the oracle has seen, and no more.
    fn seen_cell(&self) -> Option<&Cell> {
        let cores = self.roles.servers.iter().filter_map(|server| server.core());
        cores.map(|core| core.replica().cell()).max_by_key(|cell| cell.applied())
    }

    /// The cell's own invariants.
    fn sweep_invariants(&mut self) {
        let cores = self.roles.servers.iter().filter_map(|server| server.core());
        let broken: Vec<String> =
            cores.filter_map(|core| core.replica().cell().invariants().into_iter().next()).collect();
        broken.into_iter().for_each(|what| self.stage.fail("invariant", what));
    }

    fn judge_expectations(&mut self) {
        if let Some(script) = &self.scenario.script {
            self.stage.report.broken = script.missed(self.roles.cell(), &self.stage.report);
        }
    }
}
