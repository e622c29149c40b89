//! The judgement over a transaction: a pure read that decides, row by row, what may stand. `apply` calls it inside the log
//! on every copy; servers may call it early to turn hopeless work away; planners call the same rules through the cell.
//!
//! Everything is judged first and applied afterwards, so nothing is ever rolled back. Rows of one job stand together and
//! in the order of `jobs`; rows of one group ascend by task. A row that breaks this is `Malformed`.

mod ledger;
mod rows;

use crate::cell::Cell;
use crate::jobs::{Job, JobState};
use ledger::Ledger;
use ohm_model::transaction::Row;
use ohm_model::{
    Conflict, ConflictReason, Grain, Index, Lease, NodeId, Nomination, RunRef, SessionId, Transaction, Verdict,
};
use std::sync::Arc;

/// Working memory of [`Cell::judge`]. Keep one and hand it in again: after warming up, judging a claim allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    ledger: Ledger,
    groups: Vec<GroupTally>,
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Scratch::default()
    }
}

impl PartialEq for Scratch {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Scratch {}

/// What this transaction has accepted of one group of the job at hand.
#[derive(Clone, Copy, Debug, Default)]
struct GroupTally {
    accepted: u32,
    next_task: u32,
    domain: Option<u32>,
    touched: bool,
}

struct Judge<'a> {
    cell: &'a Cell,
    session: SessionId,
    transaction: &'a Transaction,
    scratch: &'a mut Scratch,
    accepted: Vec<u32>,
    conflicts: Vec<Conflict>,
    refresh: Index,
}

impl Cell {
    /// What the log would say to `transaction` from `session` right now.
    pub fn judge(&self, session: SessionId, transaction: &Transaction, scratch: &mut Scratch) -> Verdict {
        scratch.ledger.begin(self.nodes.slots(), self.resources.len());
        let accepted = vec![0; transaction.place.len()];
        let mut judge =
            Judge { cell: self, session, transaction, scratch, accepted, conflicts: Vec::new(), refresh: Index(0) };
        judge.run();
        judge.into_verdict()
    }
}

impl<'a> Judge<'a> {
    fn run(&mut self) {
        let shard = self.transaction.shard;
        if !self.cell.sessions.holds(Lease::Shard(shard), self.session, self.transaction.epoch) {
            return self.refuse(Row::Whole, None, ConflictReason::ShardLost, self.cell.applied);
        }
        for (row, (run, _)) in self.transaction.evict.iter().enumerate() {
            if let Err(reason) = self.judge_eviction(*run) {
                self.refuse(Row::Evict(row as u32), None, reason, self.cell.applied);
            }
        }
        self.judge_placements();
        for (row, nomination) in self.transaction.nominate.iter().enumerate() {
            if let Err(reason) = self.judge_nomination(nomination) {
                self.refuse(Row::Nominate(row as u32), Some(nomination.node), reason, self.cell.applied);
            }
        }
        for (row, job) in self.transaction.reserve.iter().enumerate() {
            if let Err(reason) = self.standing(*job).and_then(|job| self.judge_reservation(job)) {
                self.refuse(Row::Reserve(row as u32), None, reason, self.cell.applied);
            }
        }
    }

    fn into_verdict(mut self) -> Verdict {
        let whole = self.conflicts.is_empty();
        if !whole && self.transaction.grain == Grain::AllOrNothing {
            self.accepted.fill(0);
        }
        let accepted = if whole { Vec::new() } else { self.accepted };
        Verdict { accepted, conflicts: self.conflicts, refresh: self.refresh }
    }

    fn refuse(&mut self, row: Row, node: Option<NodeId>, reason: ConflictReason, changed: Index) {
        self.conflicts.push(Conflict { row, node, reason });
        self.refresh = self.refresh.max(changed);
    }

    /// The job as the transaction's guard wants it.
    fn standing(&self, id: ohm_model::JobId) -> Result<&'a Arc<Job>, ConflictReason> {
        let guard = self.transaction.jobs.iter().find(|guard| guard.job == id).ok_or(ConflictReason::Malformed)?;
        self.guarded(guard)
    }

    fn guarded(&self, guard: &ohm_model::JobGuard) -> Result<&'a Arc<Job>, ConflictReason> {
        let job = self.cell.jobs.get(guard.job).ok_or(ConflictReason::JobClosed)?;
        if job.state != JobState::Active {
            return Err(ConflictReason::JobClosed);
        }
        if job.shard != self.transaction.shard {
            return Err(ConflictReason::ShardLost);
        }
        if guard.reserved && job.reserved.is_empty() {
            return Err(ConflictReason::NotReserved);
        }
        if job.version != guard.version {
            return Err(ConflictReason::JobChanged);
        }
        Ok(job)
    }

    /// A victim is of a job in this transaction, or less important than one. One that has ended is fine; one whose task
    /// runs again under another incarnation is not.
    fn judge_eviction(&self, run: RunRef) -> Result<(), ConflictReason> {
        let Some(job) = self.cell.jobs.get(run.task.job) else { return Ok(()) };
        let group = job.groups.get(usize::from(run.task.group.0)).ok_or(ConflictReason::Malformed)?;
        let task = group.tasks.get(run.task.task.0 as usize).ok_or(ConflictReason::Malformed)?;
        if task.incarnation > run.incarnation {
            return if self.cell.runs.get(task.run).is_some() { Err(ConflictReason::TaskNotPending) } else { Ok(()) };
        }
        if task.incarnation < run.incarnation {
            return Err(ConflictReason::Malformed);
        }
        let guards = &self.transaction.jobs;
        if let Some(guard) = guards.iter().find(|guard| guard.job == job.id) {
            return self.guarded(guard).map(|_| ());
        }
        let outranks = |guard: &ohm_model::JobGuard| {
            self.guarded(guard).is_ok_and(|preemptor| preemptor.spec.priority > job.spec.priority)
        };
        if guards.iter().any(outranks) { Ok(()) } else { Err(ConflictReason::Held) }
    }

    fn judge_nomination(&self, nomination: &Nomination) -> Result<(), ConflictReason> {
        let job = self.standing(nomination.job)?;
        if nomination.count == 0 || usize::from(nomination.group.0) >= job.groups.len() {
            return Err(ConflictReason::Malformed);
        }
        self.node_stands(nomination.node)
    }

    fn judge_reservation(&self, job: &Job) -> Result<(), ConflictReason> {
        if !job.reserved.is_empty() {
            return Ok(());
        }
        let fits = self.cell.whole_request(job).iter().all(|(resource, &amount)| {
            self.cell.quota.available(&job.spec.queue, resource).is_none_or(|available| available >= amount)
        });
        if fits { Ok(()) } else { Err(ConflictReason::QuotaExceeded) }
    }

    fn node_stands(&self, node: NodeId) -> Result<(), ConflictReason> {
        let record = self.cell.nodes.get(node).ok_or(ConflictReason::NodeGone)?;
        if record.registered > self.transaction.seen {
            return Err(ConflictReason::NodeGone);
        }
        if self.cell.nodes.is_schedulable(node) { Ok(()) } else { Err(ConflictReason::NodeNotReady) }
    }
}
