//! The sweep along the log: after each entry, what it touched, against books of its own.
//!
//! Invariant: what an entry did not name in [`Applied`] is as it was before, so what held there still holds. That is
//! itself checked: [`Sweep::whole`] compares every book with the state.

use crate::apply::Applied;
use crate::cell::Cell;
use ohm_model::{Amounts, JobId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Follows one copy of the cell and checks every invariant after every entry, at the cost of what the entry touched.
#[derive(Debug, Default)]
pub struct Sweep {
    /// What each job is charged, and to which queue.
    charged: BTreeMap<JobId, (String, Amounts)>,
    /// The sums of `charged` per queue.
    direct: BTreeMap<String, Amounts>,
    /// How many runs stand on each node that has any.
    runs_on: BTreeMap<NodeId, usize>,
    /// The sum of `runs_on`.
    runs: usize,
}

impl Sweep {
    /// Starts with everything in `cell`; also returns what is broken there.
    pub fn start(cell: &Cell) -> (Self, Vec<String>) {
        let mut sweep = Sweep::default();
        cell.jobs.iter().for_each(|job| sweep.charge(cell, job.id));
        cell.nodes.iter().for_each(|(node, _)| sweep.count(node, cell.runs.on_node(&cell.nodes, node).count()));
        (sweep, cell.invariants())
    }

    /// What is broken after an entry that caused `applied`.
    pub fn step(&mut self, cell: &Cell, applied: &Applied) -> Vec<String> {
        let mut broken = Vec::new();
        for node in applied.nodes.iter().copied().collect::<BTreeSet<NodeId>>() {
            let listed = cell.nodes.get(node).map_or(0, |record| cell.sweep_node(node, record, &mut broken));
            self.count(node, listed);
            let runs = cell.runs.on_node(&cell.nodes, node);
            runs.for_each(|(slot, run)| cell.sweep_run(slot, run, &mut broken));
        }
        cell.check_listed(self.runs, &mut broken);
        for id in applied.jobs.iter().copied().collect::<BTreeSet<JobId>>() {
            self.charge(cell, id);
            if let Some(job) = cell.jobs.get(id) {
                cell.check_job_sums(job, &mut broken);
                cell.check_job_promises(job, &mut broken);
            }
        }
        cell.check_quota(&self.direct, &mut broken);
        cell.check_kept(&mut broken);
        broken
    }

    /// Looks at everything, touched or not: what is broken, and what changed without an entry naming it.
    pub fn whole(&self, cell: &Cell) -> Vec<String> {
        let (now, mut broken) = Sweep::start(cell);
        for job in now.charged.keys().chain(self.charged.keys()).collect::<BTreeSet<_>>() {
            if now.charged.get(job) != self.charged.get(job) {
                broken.push(format!("P8: the charge of {job} changed in an entry that does not name it"));
            }
        }
        for node in now.runs_on.keys().chain(self.runs_on.keys()).collect::<BTreeSet<_>>() {
            if now.runs_on.get(node) != self.runs_on.get(node) {
                broken.push(format!("P2: the runs on {node} changed in an entry that does not name it"));
            }
        }
        broken
    }

    fn count(&mut self, node: NodeId, runs: usize) {
        let before = if runs == 0 { self.runs_on.remove(&node) } else { self.runs_on.insert(node, runs) };
        self.runs = self.runs + runs - before.unwrap_or(0);
    }

    fn charge(&mut self, cell: &Cell, id: JobId) {
        if let Some((queue, amounts)) = self.charged.remove(&id) {
            add(self.direct.entry(queue).or_default(), &amounts, -1);
        }
        let Some(job) = cell.jobs.get(id).filter(|job| !job.spec.queue.is_empty()) else { return };
        let amounts = cell.charged(job);
        if !amounts.is_empty() {
            add(self.direct.entry(job.spec.queue.clone()).or_default(), &amounts, 1);
            self.charged.insert(id, (job.spec.queue.clone(), amounts));
        }
    }
}

fn add(sums: &mut Amounts, amounts: &Amounts, sign: i64) {
    for (resource, amount) in amounts {
        *sums.entry(resource.clone()).or_insert(0) += sign * amount;
    }
}
