//! Preemption for room: whom a job may stop that has its quota and finds no room on nodes.
//!
//! ```text
//! the job                     the victim                                  reason
//! waits for room              of its own queue, or of another one under   as for quota: the policies of its queue
//!                             the same root                               decide, or shares
//! waits for room              elsewhere, or of no queue: less important,  LowerPriority
//!                             and its queue uses more than its own or
//!                             lets such jobs in (`outsideRoot`)
//! lost tasks that find none   less important; from outside the root as    LowerPriority
//!                             above
//! ```
//! A job with `preemptible: false` is never stopped, one with `preemptionPolicy: Never` stops nobody, and
//! `minRuntimeSeconds` of a queue protects what has just started from jobs of other queues.

use super::{Preemptor, Refused, Right, held_by, may_be_stopped, rights_in_turn};
use crate::cell::Cell;
use crate::rooms::quota_if::QuotaIf;
use crate::state::flavors::Charges;
use crate::state::jobs::{Group, Job};
use crate::state::preemptions::Stopping;
use crate::state::quota::QueueId;
use crate::state::requests::{add_charges, summed};
use ohm_model::{FlavorResource, GroupIndex, GroupSpec, PreemptionPolicy, PreemptionReason};

/// A job that looks for room where others are.
#[derive(Clone, Debug)]
pub struct RoomPreemptor<'a> {
    cell: &'a Cell,
    job: &'a Job,
    /// What its queue says, if it has one; nothing of jobs that were lost asks it.
    by_queue: Option<Preemptor<'a>>,
    is_repair: bool,
}

impl<'a> RoomPreemptor<'a> {
    /// `job` with the flavors that it has, on `tree`, with so many tasks of each group that wait; nothing where these
    /// are none, or the quota lacks what they need.
    pub fn of(cell: &'a Cell, job: &'a Job, tree: &QuotaIf<'_>, wanted: &[u32]) -> Option<Self> {
        if wanted.iter().all(|count| *count == 0) || !job.spec.preempts {
            return None;
        }
        let shapes = job.groups.iter().zip(wanted).map(|(group, count)| (group.shape, i64::from(*count)));
        let asked: Vec<(FlavorResource, i64)> = match job.reserved.is_empty() {
            true => summed(cell, shapes).into_iter().filter(|(_, amount)| *amount > 0).collect(),
            // It is charged already.
            false => job.reserved.keys().map(|column| (*column, 0)).collect(),
        };
        let queue = cell.quota.find(&job.spec.queue);
        let fits = |queue| asked.iter().all(|&(column, amount)| has(tree, queue, column, amount));
        if queue.is_some_and(|queue| !fits(queue)) {
            return None;
        }
        let is_repair = is_repaired(job);
        let by_queue = queue.map(|queue| Preemptor::for_room(cell, job, tree, (queue, asked)));
        Some(RoomPreemptor { cell, job, by_queue, is_repair })
    }

    /// By which rule so much of a job may be stopped for the job now, as of [`Preemptor::right`].
    fn right(&self, tree: &mut QuotaIf<'_>, part: Stopping<'_>) -> Option<Right> {
        let victim = part.job;
        if !may_be_stopped(self.cell, self.job, victim) {
            return None;
        }
        let is_less_important = victim.spec.priority < self.job.spec.priority;
        let by_priority = |may: bool| may.then_some((PreemptionReason::LowerPriority, false));
        match self.by_queue.as_ref().filter(|rules| rules.is_under_root_of(victim)) {
            Some(_) if self.is_repair => by_priority(is_less_important),
            Some(rules) => rules.right(tree, part),
            None => by_priority(is_less_important && self.is_open_to_others(tree, part)),
        }
    }

    /// Whether so much of a job may be stopped if nobody else is. Under fair sharing this one counts as if it stood.
    pub fn may_stop(&self, tree: &mut QuotaIf<'_>, part: Stopping<'_>) -> bool {
        let fair = self.by_queue.as_ref().filter(|rules| rules.is_fair());
        fair.inspect(|rules| rules.take(tree));
        let right = self.right(tree, part);
        fair.inspect(|rules| rules.give_back(tree));
        right.is_some()
    }

    /// The policies of its queue, where they decide.
    pub fn policies(&self) -> Option<&Preemptor<'a>> {
        self.by_queue.as_ref().filter(|_| !self.is_repair)
    }

    /// By which rule each of these may be stopped for the job, one after the other.
    ///
    /// # Errors
    /// The first one that may not be.
    pub fn rights(&self, tree: &QuotaIf<'_>, victims: &[Stopping<'_>]) -> Result<Vec<PreemptionReason>, Refused> {
        if let Some(at) = victims.iter().position(|victim| !goes_on_without(*victim)) {
            return Err(Refused { at, open: 0 });
        }
        let (rules, mut tree) = (self.by_queue.as_ref(), tree.clone());
        rights_in_turn(rules, &mut tree, victims.iter().copied(), |tree, victim| self.right(tree, victim))
    }

    /// Whether the queue of a job lets jobs from outside its root stop so much of it: it says so, or uses more than its
    /// own of something that this has. A job without a queue has nothing of its own, nor has one whose queue limits
    /// nothing of it.
    fn is_open_to_others(&self, tree: &QuotaIf<'_>, part: Stopping<'_>) -> bool {
        let Some(queue) = self.cell.quota.find(&part.job.spec.queue) else { return true };
        if self.cell.quota.at(queue).spec.preemption.outside_root == PreemptionPolicy::LowerPriority {
            return true;
        }
        let held = held_by(self.cell, part).into_iter().filter(|(_, amount)| *amount > 0);
        let mut limited = held.filter(|(column, _)| tree.available(queue, *column).is_some()).peekable();
        limited.peek().is_none() || limited.any(|(column, _)| tree.beyond_own(queue, column) > 0)
    }
}

/// How many tasks of each group that wait the quota of `job` has room for, the first groups first; without what its
/// queue would borrow for them where it is to stay `within_own`.
pub fn affordable(cell: &Cell, job: &Job, tree: &QuotaIf<'_>, within_own: bool) -> Vec<u32> {
    let waiting = job.groups.iter().map(|group| group.pending.len());
    let queue = cell.quota.find(&job.spec.queue).filter(|_| job.reserved.is_empty());
    let Some(queue) = queue else { return waiting.collect() };
    let left = |column: FlavorResource| {
        let own = within_own.then(|| 0i64.saturating_sub(tree.beyond_own(queue, column)));
        tree.available(queue, column).map(|left| own.map_or(left, |own| own.min(left)))
    };
    let mut taken = Charges::new();
    let mut most = |(group, waits): (&Group, u32)| {
        let Some(shape) = cell.shapes.get(group.shape) else { return 0 };
        let charges = shape.charges.iter().filter(|(_, request)| *request > 0);
        let fit = charges.filter_map(|(column, request)| {
            let left = left(*column)?.saturating_sub(taken.get(column).copied().unwrap_or(0));
            Some((left / request).clamp(0, i64::from(u32::MAX)) as u32)
        });
        let count = fit.min().unwrap_or(u32::MAX).min(waits);
        add_charges(&mut taken, shape, i64::from(count));
        count
    };
    job.groups.iter().zip(waiting).map(&mut most).collect()
}

fn has(tree: &QuotaIf<'_>, queue: QueueId, column: FlavorResource, amount: i64) -> bool {
    amount <= 0 || tree.available(queue, column).is_none_or(|left| left >= amount)
}

/// Whether all that waits of `job` was lost.
fn is_repaired(job: &Job) -> bool {
    let waiting = job.groups.iter().enumerate().filter(|(_, group)| !group.pending.is_empty());
    let mut groups = waiting.map(|(at, _)| GroupIndex(at as u16)).peekable();
    groups.peek().is_some() && groups.all(|group| job.is_only_repaired(group))
}

/// Whether the rest of a job goes on without so much of it, if there is a rest: a service without any tasks, a gang
/// without those beyond the minimum of an elastic group. Each is named once, ascending.
fn goes_on_without(Stopping { job, runs }: Stopping<'_>) -> bool {
    let ascends = runs.windows(2).all(|pair| pair[0] < pair[1]);
    let is_of_job = runs.iter().all(|run| run.task.job == job.id && usize::from(run.task.group.0) < job.groups.len());
    let stays = |(at, (group, spec)): (usize, (&Group, &GroupSpec))| {
        let stop = runs.iter().filter(|run| usize::from(run.task.group.0) == at).count() as u32;
        let left = group.live_within_count().saturating_sub(group.stopping).saturating_sub(stop);
        stop == 0 || (spec.elastic && left >= group.needed(spec))
    };
    let mut groups = job.groups.iter().zip(&job.spec.groups).enumerate();
    ascends && is_of_job && (!job.starts_whole() || groups.all(stays))
}
