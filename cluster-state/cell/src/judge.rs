//! The judgement over a transaction: a pure read that decides, row by row, what is accepted. `apply` calls it inside
//! the log on every copy; servers may call it early to turn hopeless work away; planners call the same rules through
//! the cell.
//!
//! Everything is judged first and applied afterwards, so nothing is ever rolled back. Rows of one job come together
//! and in the order of `jobs`; rows of one group ascend by task. A row that breaks this is `Malformed`, and so is a
//! whole transaction that lists a job twice. A job that falls short of its gang, or falls with others of an
//! all-or-nothing transaction, is told so once, at the first of its rows that would have been accepted.

mod admission;
mod charge;
mod flavors;
mod heads;
mod moves;
mod preemption;
mod preemption_room;
mod rows;
pub(crate) mod scratch;
pub(crate) mod slices;
mod spares;

use crate::cell::Cell;
use crate::judge::admission::judge_not_held;
use crate::judge::flavors::{Chosen, lacks_flavor};
use crate::judge::scratch::Scratch;
use crate::planted;
use crate::rooms::checks::reserves;
use crate::rooms::overlay::Savepoint;
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::{Group, Job, JobState};
use crate::state::nodes::PRESENT;
use crate::state::quota::QueueId;
use crate::state::requests::add_charges;
use ohm_model::transaction::Row;
use ohm_model::{
    Claim, Conflict, ConflictReason, FlavorResource, Grain, GroupIndex, Index, JobGuard, JobId, Lease, NodeId,
    Nomination, PreemptionNeed, Purpose, RunRef, SessionId, ShapeId, StopCause, Transaction, Verdict, need_of,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Judge<'a> {
    cell: &'a Cell,
    session: SessionId,
    transaction: &'a Transaction,
    /// What its choices of flavors come to.
    chosen: &'a Chosen,
    scratch: &'a mut Scratch,
    accepted: Vec<u32>,
    conflicts: Vec<Conflict>,
    refresh: Index,
    /// The rows are runs that are there already, known or not, each with the shape and the revision that it has:
    /// cordons and taints that only bar new work don't count.
    adopted: Option<&'a [(ShapeId, u32)]>,
    /// Where the rows of the job at hand began.
    mark: Savepoint,
    /// The queues of the jobs before, the last one first: most jobs of a transaction share one or two.
    last_queues: [Option<QueueId>; 2],
}

/// What the log would say to `transaction` from `session` right now; see [`Cell::judge`].
pub(crate) fn judge_transaction(
    cell: &Cell,
    session: SessionId,
    transaction: &Transaction,
    scratch: &mut Scratch,
) -> Verdict {
    let shown = planted::shown_to_judge(cell, transaction);
    let (cell, transaction) = shown.as_deref().map_or((cell, transaction), |(cell, shown)| (cell, shown));
    scratch.over.begin();
    scratch.ask_quota_again();
    scratch.forget_ceded();
    let accepted = vec![0; transaction.place.len()];
    let (conflicts, refresh) = (Vec::new(), Index(0));
    let (adopted, mark, last_queues) = (None, scratch.over.savepoint(), [None; 2]);
    let chosen = &Chosen::of(cell, transaction);
    let mut judge =
        Judge { cell, session, transaction, chosen, scratch, accepted, conflicts, refresh, adopted, mark, last_queues };
    match judge.judge_whole() {
        Ok(()) => judge.judge_rows(),
        Err(reason) => judge.refuse(Row::Whole, None, reason, cell.applied),
    }
    planted::said_by_judge(judge.into_verdict())
}

/// What the log says to kept runs that are to be taken back where they are; `transaction` is of one job. `made` says
/// for each row what the run is made of.
pub(crate) fn judge_adoption(
    cell: &Cell,
    transaction: &Transaction,
    made: &[(ShapeId, u32)],
    scratch: &mut Scratch,
) -> Verdict {
    scratch.over.begin();
    scratch.ask_quota_again();
    scratch.forget_ceded();
    scratch.guards.clear();
    scratch.guards.extend(transaction.jobs.iter().enumerate().map(|(at, guard)| (guard.job, at as u32)));
    let (session, accepted) = (SessionId(0), vec![0; transaction.place.len()]);
    let (conflicts, refresh) = (Vec::new(), Index(0));
    let (adopted, mark, last_queues) = (Some(made), scratch.over.savepoint(), [None; 2]);
    let chosen = &Chosen::default();
    let mut judge =
        Judge { cell, session, transaction, chosen, scratch, accepted, conflicts, refresh, adopted, mark, last_queues };
    judge.judge_rows();
    judge.into_verdict()
}

impl<'a> Judge<'a> {
    /// What must hold of the transaction before any row is looked at.
    fn judge_whole(&mut self) -> Result<(), ConflictReason> {
        let (cell, transaction) = (self.cell, self.transaction);
        if cell.sessions.get(self.session).is_none() {
            return Err(ConflictReason::SessionGone);
        }
        if !cell.sessions.holds(Lease::Shard(transaction.shard), self.session, transaction.epoch) {
            return Err(ConflictReason::ShardLost);
        }
        // Whoever gives up a repair does nothing else: what the job held is given back with it.
        let gives_up = transaction.evict.iter().any(|(_, cause)| *cause == StopCause::RepairFailed);
        let more = !transaction.place.is_empty() || !transaction.nominate.is_empty() || !transaction.reserve.is_empty();
        if gives_up && (more || !transaction.claim.is_empty()) {
            return Err(ConflictReason::Malformed);
        }
        // Nor does whoever stops others for what it lacks: it is placed once they have ended.
        if !transaction.preempt.is_empty() && !preemption::is_pure(cell, transaction) {
            return Err(ConflictReason::Malformed);
        }
        // Nor does whoever moves tasks to places that are reserved for them: all of it is accepted, or nothing.
        if transaction.is_move() && !transaction.is_pure_move() {
            return Err(ConflictReason::Malformed);
        }
        let guards = &mut self.scratch.guards;
        guards.clear();
        guards.extend(transaction.jobs.iter().enumerate().map(|(at, guard)| (guard.job, at as u32)));
        guards.sort_unstable();
        // Each listing of a job is judged against the state alone: a second one could take the same tasks again.
        if guards.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(ConflictReason::Malformed);
        }
        Ok(())
    }

    fn judge_rows(&mut self) {
        let transaction = self.transaction;
        if transaction.is_move() {
            return self.judge_move();
        }
        for &(row, _) in &self.chosen.refused {
            self.refuse(Row::Flavor(row), None, ConflictReason::FlavorMissing, self.cell.applied);
        }
        if !transaction.evict.is_empty() {
            for (row, (run, cause)) in transaction.evict.iter().enumerate() {
                if let Err(reason) = self.judge_eviction(*run, *cause) {
                    self.refuse(Row::Evict(row as u32), None, reason, self.cell.applied);
                }
            }
        }
        if let (Some(guard), false) = (transaction.jobs.first(), transaction.preempt.is_empty()) {
            let job = self.job_of(guard.job).map_err(|reason| (0, reason));
            let judged = job.and_then(|job| match need_of(&transaction.preempt) {
                PreemptionNeed::Quota => preemption::judge(self.cell, job, transaction),
                PreemptionNeed::Room => preemption_room::judge(self.cell, &mut self.scratch.over, job, transaction),
            });
            if let Err((row, reason)) = judged {
                self.refuse(Row::Preempt(row), None, reason, self.cell.applied);
            }
        }
        self.judge_placements();
        let mut spares = BTreeMap::new();
        for (row, nomination) in transaction.nominate.iter().enumerate() {
            let judged = match nomination.purpose {
                Purpose::Spare => self.judge_spare(nomination, &mut spares),
                Purpose::Preemptor { .. } | Purpose::Move => self.judge_nomination(nomination),
                Purpose::Head { .. } => continue,
                Purpose::Repair => Err(ConflictReason::Malformed),
            };
            if let Err(reason) = judged {
                self.refuse(Row::Nominate(row as u32), Some(nomination.node), reason, self.cell.applied);
            }
        }
        let heads: Vec<&Nomination> = transaction.nominate.iter().filter(|room| room.is_head()).collect();
        if let Err(reason) = self.judge_head(&heads) {
            for (row, room) in transaction.nominate.iter().enumerate().filter(|(_, room)| room.is_head()) {
                self.refuse(Row::Nominate(row as u32), Some(room.node), reason, self.cell.applied);
            }
        }
        if !transaction.reserve.is_empty() {
            self.judge_reservations();
        }
        for (row, claim) in transaction.claim.iter().enumerate() {
            let once = || match transaction.claim[..row].contains(claim) {
                true => Err(ConflictReason::Malformed),
                false => self.judge_claim(claim),
            };
            if let Err(reason) = once() {
                self.refuse(Row::Claim(row as u32), None, reason, self.cell.applied);
            }
        }
    }

    fn into_verdict(mut self) -> Verdict {
        let whole = self.conflicts.is_empty();
        if !whole && self.transaction.grain == Grain::AllOrNothing {
            self.fall_together();
        }
        let accepted = if whole { Vec::new() } else { self.accepted };
        Verdict { accepted, conflicts: self.conflicts, refresh: self.refresh }
    }

    /// Refuses what would have been accepted, because something else was not.
    fn fall_together(&mut self) {
        let mut told = None;
        for (row, placement) in self.transaction.place.iter().enumerate() {
            if std::mem::take(&mut self.accepted[row]) > 0 && told != Some(placement.job) {
                told = Some(placement.job);
                let (row, node) = (Row::Place(row as u32), Some(placement.node));
                self.conflicts.push(Conflict { row, node, reason: ConflictReason::Together });
            }
        }
    }

    fn refuse(&mut self, row: Row, node: Option<NodeId>, reason: ConflictReason, changed: Index) {
        self.conflicts.push(Conflict { row, node, reason });
        self.refresh = self.refresh.max(changed);
    }

    fn guard_of(&self, job: JobId) -> Option<&'a JobGuard> {
        let guards = &self.scratch.guards;
        let at = guards.binary_search_by_key(&job, |(job, _)| *job).ok()?;
        self.transaction.jobs.get(guards[at].1 as usize)
    }

    /// The job as the transaction's guard wants it.
    fn job_of(&self, job: JobId) -> Result<&'a Arc<Job>, ConflictReason> {
        self.guarded(self.guard_of(job).ok_or(ConflictReason::Malformed)?)
    }

    fn guarded(&self, guard: &JobGuard) -> Result<&'a Arc<Job>, ConflictReason> {
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
        self.chosen.job(job)
    }

    /// A run that is stopped so is of a job in this transaction: others are stopped by preemption only. One that has
    /// ended is fine; one whose task runs again under another incarnation is not. A repair is given up only while
    /// something waits to be repaired, and nothing else of the loss is still to come.
    fn judge_eviction(&self, run: RunRef, cause: StopCause) -> Result<(), ConflictReason> {
        let Some(job) = self.cell.jobs.get(run.task.job) else { return Ok(()) };
        if cause == StopCause::RepairFailed {
            self.guarded(self.guard_of(job.id).ok_or(ConflictReason::Malformed)?)?;
        }
        let group = job.groups.get(usize::from(run.task.group.0));
        let Some(task) = group.and_then(|group| group.tasks.get(run.task.task.0 as usize)) else {
            let was_there = run.incarnation <= job.floor;
            return if was_there { Ok(()) } else { Err(ConflictReason::Malformed) };
        };
        if task.attempts < run.incarnation {
            return Err(ConflictReason::Malformed);
        }
        if self.cell.runs.get(task.run).is_none() {
            return Ok(());
        }
        if task.incarnation != run.incarnation {
            return Err(ConflictReason::TaskNotPending);
        }
        let guard = self.guard_of(job.id).ok_or(ConflictReason::NoRight)?;
        let gives_up = cause == StopCause::RepairFailed;
        let whole = gives_up && !job.may_be_given_up();
        self.guarded(guard)?;
        if whole { Err(ConflictReason::JobChanged) } else { Ok(()) }
    }

    fn judge_nomination(&self, nomination: &Nomination) -> Result<(), ConflictReason> {
        let job = self.job_of(nomination.job)?;
        judge_not_held(self.cell, job)?;
        let group = job.spec.groups.get(usize::from(nomination.group.0)).ok_or(ConflictReason::Malformed)?;
        if nomination.count == 0 || nomination.count > group.count {
            return Err(ConflictReason::Malformed);
        }
        self.is_known(nomination.node)?;
        match self.cell.nodes.is_schedulable(nomination.node) {
            true => Ok(()),
            false if self.cell.nodes.flags(nomination.node) & PRESENT == 0 => Err(ConflictReason::NodeGone),
            false => Err(ConflictReason::NodeNotReady),
        }
    }

    fn judge_head(&self, rooms: &[&Nomination]) -> Result<(), ConflictReason> {
        let Some(first) = rooms.first() else { return Ok(()) };
        rooms.iter().try_for_each(|room| self.judge_nomination(room))?;
        heads::judge_head(self.cell, self.transaction, self.job_of(first.job)?, rooms)
    }

    /// Room is owed to what was lost and waits, once, and for a time.
    fn judge_claim(&self, claim: &Claim) -> Result<(), ConflictReason> {
        let job = self.job_of(claim.job)?;
        if job.groups.get(usize::from(claim.group.0)).is_none() {
            return Err(ConflictReason::Malformed);
        }
        if self.cell.nominations.claim(claim.job, claim.group).is_some() {
            return Err(ConflictReason::TaskNotPending);
        }
        match job.may_claim(claim.group, self.cell.now_ms) {
            true => Ok(()),
            false if job.owed(claim.group).is_empty() => Err(ConflictReason::TaskNotPending),
            false => Err(ConflictReason::LimitReached),
        }
    }

    fn judge_reservations(&mut self) {
        let mut placed: BTreeMap<(JobId, u16), u32> = BTreeMap::new();
        for (placement, accepted) in self.transaction.place.iter().zip(&self.accepted) {
            *placed.entry((placement.job, placement.group.0)).or_insert(0) += accepted;
        }
        let mut seen = BTreeSet::new();
        for (row, &id) in self.transaction.reserve.iter().enumerate() {
            let judged = self.job_of(id).and_then(|job| {
                let new = seen.insert(id) && !job.spec.queue.is_empty() && reserves(self.cell, job);
                if new {
                    admission::judge_pass_one(self.cell, job)?;
                    admission::judge_turn(self.cell, job, self.cell.quota.find(&job.spec.queue))?;
                    self.judge_reservation(job, &placed)
                } else {
                    Ok(())
                }
            });
            if let Err(reason) = judged {
                self.refuse(Row::Reserve(row as u32), None, reason, self.cell.applied);
            }
        }
    }

    /// The queue must have room for what the job does not hold yet, this transaction's placements included. What is
    /// reserved already is held, even where the queue was cut below it.
    fn judge_reservation(&mut self, job: &Job, placed: &BTreeMap<(JobId, u16), u32>) -> Result<(), ConflictReason> {
        if !job.reserved.is_empty() {
            return Ok(());
        }
        let lacks =
            |group: &Group| self.cell.shapes.get(group.shape).is_some_and(|shape| lacks_flavor(job, group, shape));
        if job.groups.iter().any(lacks) {
            return Err(ConflictReason::FlavorMissing);
        }
        let mut growth = self.cell.missing_request(job);
        for (at, group) in job.groups.iter().enumerate() {
            let Some(shape) = self.cell.shapes.get(group.shape) else { continue };
            let held = placed.get(&(job.id, at as u16)).copied().unwrap_or(0);
            add_charges(&mut growth, shape, -i64::from(held));
        }
        let Some(queue) = self.cell.quota.find(&job.spec.queue) else { return Ok(()) };
        self.scratch.cede(self.cell, job, Some(queue));
        let is_over = |(&column, &amount): (&FlavorResource, &i64)| {
            self.what().quota_left(queue, &[(column, amount)], &self.scratch.ceded)[0] < amount
        };
        if growth.iter().any(is_over) {
            return Err(ConflictReason::QuotaExceeded);
        }
        self.scratch.over.charge(&self.cell.quota, GroupIndex(0), queue, growth.into_iter());
        Ok(())
    }

    /// Whether the node is the one that the planner saw.
    fn is_known(&self, node: NodeId) -> Result<(), ConflictReason> {
        let known = self.adopted.is_some() || self.cell.nodes.version(node).registered <= self.transaction.seen;
        if known { Ok(()) } else { Err(ConflictReason::NodeGone) }
    }

    /// The cell with what the accepted rows take.
    fn what(&self) -> WhatIf<'_> {
        WhatIf { cell: self.cell, over: &self.scratch.over }
    }
}
