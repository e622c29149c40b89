//! The sweep along the log: after each entry, what it touched, against books of its own.
//!
//! Invariant: what an entry did not name in [`Applied`] is as it was before, so what held there still holds. That is
//! itself checked: [`Sweep::whole`] compares every book with the state.

use crate::apply::Applied;
use crate::cell::Cell;
use crate::check::jobs::{check_job_promises, check_job_sums};
use crate::check::nodes::{check_listed, sweep_node};
use crate::check::preemptions::check_preemptions;
use crate::check::quota::check_quota;
use crate::check::runs::{check_kept, sweep_run};
use crate::state::flavors::Charges;
use crate::state::requests::charged;
use ohm_model::{JobId, NodeId, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Follows one copy of the cell and checks every invariant after every entry, at the cost of what the entry touched.
#[derive(Debug, Default)]
pub struct Sweep {
    /// What each job is charged, and to which queue.
    charged: BTreeMap<JobId, (String, Charges)>,
    /// The sums of `charged` per queue.
    direct: BTreeMap<String, Charges>,
    /// How many runs are on each node that has any.
    runs_on: BTreeMap<NodeId, usize>,
    /// The sum of `runs_on`.
    runs: usize,
    /// What new work would find on each node.
    rooms: BTreeMap<NodeId, Found>,
}

/// What new work would find on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    schedulable: bool,
    free: Vec<i64>,
    /// For how many tasks room is held.
    held: u64,
}

impl Found {
    fn on(cell: &Cell, node: NodeId) -> Self {
        let columns = 0..cell.resources.len() as u16;
        Found {
            schedulable: cell.nodes.is_schedulable(node),
            free: columns.map(|column| cell.nodes.free(node, ResourceId(column))).collect(),
            held: cell.nominations.on_node(node).iter().map(|held| u64::from(held.count)).sum(),
        }
    }

    /// Whether there may be room where there was none `before`.
    fn is_more_than(&self, before: &Found) -> bool {
        let grown = self.free.iter().zip(&before.free).any(|(now, before)| now > before);
        self.schedulable && (grown || !before.schedulable || self.held < before.held)
    }
}

impl Sweep {
    /// Starts with everything in `cell`; also returns what is broken there.
    pub fn start(cell: &Cell) -> (Self, Vec<String>) {
        let mut sweep = Sweep::default();
        cell.jobs.iter().for_each(|job| sweep.charge(cell, job.id));
        cell.nodes.iter().for_each(|(node, _)| sweep.count(node, cell.runs.on_node(&cell.nodes, node).count()));
        sweep.rooms = cell.nodes.iter().map(|(node, _)| (node, Found::on(cell, node))).collect();
        (sweep, cell.invariants())
    }

    /// What is broken after an entry that caused `applied`.
    pub fn step(&mut self, cell: &Cell, applied: &Applied) -> Vec<String> {
        let mut broken = Vec::new();
        for node in applied.nodes.iter().copied().collect::<BTreeSet<NodeId>>() {
            let listed = cell.nodes.get(node).map_or(0, |record| sweep_node(cell, node, record, &mut broken));
            self.count(node, listed);
            self.check_freed(cell, node, applied, &mut broken);
            let runs = cell.runs.on_node(&cell.nodes, node);
            runs.for_each(|(slot, run)| sweep_run(cell, slot, run, &mut broken));
        }
        check_listed(cell, self.runs, &mut broken);
        for id in applied.jobs.iter().copied().collect::<BTreeSet<JobId>>() {
            self.charge(cell, id);
            if let Some(job) = cell.jobs.get(id) {
                check_job_sums(cell, job, &mut broken);
                check_job_promises(cell, job, &mut broken);
            }
        }
        check_quota(cell, &self.direct, &mut broken);
        check_kept(cell, &mut broken);
        check_preemptions(cell, &mut broken);
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

    /// Whoever waits for room is woken by what the entry says it gave back, and by nothing else.
    fn check_freed(&mut self, cell: &Cell, node: NodeId, applied: &Applied, broken: &mut Vec<String>) {
        let found = Found::on(cell, node);
        let more = self.rooms.get(&node).is_none_or(|before| found.is_more_than(before)) && found.schedulable;
        if more && !applied.freed.nodes.contains(&node) {
            broken.push(format!("P10: node {} has more room in an entry that does not say so", cell.nodes.name(node)));
        }
        self.rooms.insert(node, found);
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
        let amounts = charged(cell, job);
        if !amounts.is_empty() {
            add(self.direct.entry(job.spec.queue.clone()).or_default(), &amounts, 1);
            self.charged.insert(id, (job.spec.queue.clone(), amounts));
        }
    }
}

fn add(sums: &mut Charges, amounts: &Charges, sign: i64) {
    for (column, amount) in amounts {
        *sums.entry(*column).or_insert(0) += sign * amount;
    }
}
