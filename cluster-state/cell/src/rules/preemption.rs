//! Preemption for quota: whom a job may stop that lacks quota, by the rules of Kueue.
//!
//! ```text
//! victim's queue        rule                                             reason
//! its own               withinClusterQueue                               InClusterQueue
//! one that borrows      reclaimWithinCohort, with the hierarchical       InCohortReclamation
//!                       advantage: a node below the one that both are
//!                       under takes the job within its own quota
//! one that borrows      reclaimWithinCohort, and the job's queue does    InCohortReclamation
//!                       not borrow in the end
//! one that borrows      borrowWithinCohort: of lower priority, and not   InCohortReclaimWhileBorrowing
//!                       above the threshold
//! ```
//! Under fair sharing (`Scheduling`) shares decide about other queues, see `preemption/shares.rs`. Who was stopped in
//! return for a job that it had stopped yields to it: only by its own quota or within the queue does it stop it again.

pub(crate) mod room;
mod shares;

use crate::cell::Cell;
use crate::planted::quota::preemption_policy;
use crate::rooms::quota_if::QuotaIf;
use crate::rooms::reads::{live_run, live_runs};
use crate::rooms::what_if::WhatIf;
use crate::state::flavors::Charges;
use crate::state::jobs::{Job, JobState};
use crate::state::preemptions::Stopping;
use crate::state::quota::QueueId;
use crate::state::requests::{charged, summed, wanted_request};
use crate::state::turns::{Turn, waits_to_start};
use ohm_model::{FlavorResource, JobId, PreemptionPolicy, PreemptionReason, QueuePreemption, ShareRule};
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;

/// How a job comes to be stopped for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Its queue borrows, and the other job has the hierarchical advantage.
    Hierarchical,
    /// Its queue borrows, and the queue of the other job does not in the end.
    WithoutBorrowing,
    /// Its queue borrows, and so may that of the other job.
    WhileBorrowing,
    /// Both are of one queue.
    InQueue,
}

impl Variant {
    /// The word that people read.
    pub fn reason(self) -> PreemptionReason {
        match self {
            Variant::Hierarchical | Variant::WithoutBorrowing => PreemptionReason::InCohortReclamation,
            Variant::WhileBorrowing => PreemptionReason::InCohortReclaimWhileBorrowing,
            Variant::InQueue => PreemptionReason::InClusterQueue,
        }
    }
}

/// The rule by which a job may be stopped, and whether the queue of the other one must not borrow in the end for that.
type Right = (PreemptionReason, bool);

/// A job that waits to start and lacks quota that others have.
#[derive(Clone, Debug)]
pub struct Preemptor<'a> {
    cell: &'a Cell,
    job: &'a Job,
    queue: QueueId,
    policy: QueuePreemption,
    /// What it needs of what its queue limits.
    asked: Vec<(FlavorResource, i64)>,
    /// Of what of that too little is left.
    lacking: Vec<FlavorResource>,
    /// Its queue and the cohorts above, and whether a node further down takes the job within its own quota.
    path: Vec<(QueueId, bool)>,
    /// Under fair sharing, the rules of shares in their order.
    share_rules: Option<&'a [ShareRule]>,
    /// Whether what it asks for is no more than the own quota of its queue.
    is_nominal: bool,
    /// Whether its queue, or a cohort below the root, has all that it asks for.
    is_lent_below_root: bool,
    /// Whether it is room that it lacks, so that whoever has any of its own queue may have it.
    for_room: bool,
}

impl<'a> Preemptor<'a> {
    /// `job` with the flavors that it has, on `tree`, for so many tasks of each group that wait, for all where nothing
    /// is said; nothing where it lacks no quota, or does not wait to start.
    pub fn of(cell: &'a Cell, job: &'a Job, tree: &QuotaIf<'_>, wanted: &[u32]) -> Option<Self> {
        Self::asking(cell, job, tree, wanted_request(cell, job, wanted).into_iter().collect())
    }

    /// As [`Preemptor::of`], where it needs these amounts.
    pub fn asking(
        cell: &'a Cell,
        job: &'a Job,
        tree: &QuotaIf<'_>,
        mut asked: Vec<(FlavorResource, i64)>,
    ) -> Option<Self> {
        let queue = cell.quota.find(&job.spec.queue).filter(|_| waits_to_start(job))?;
        let limited = |column: FlavorResource| tree.available(queue, column);
        asked.retain(|(column, _)| limited(*column).is_some());
        let lacks = |&&(column, amount): &&(FlavorResource, i64)| limited(column).is_some_and(|left| left < amount);
        let lacking: Vec<FlavorResource> = asked.iter().filter(lacks).map(|(column, _)| *column).collect();
        if lacking.is_empty() {
            return None;
        }
        Some(Self::lacking(cell, job, tree, (queue, asked), lacking))
    }

    /// `job` of `queue`, which has the quota that it asks for and lacks room: of all that it asks for others may have
    /// too much.
    pub(crate) fn for_room(
        cell: &'a Cell,
        job: &'a Job,
        tree: &QuotaIf<'_>,
        (queue, mut asked): (QueueId, Vec<(FlavorResource, i64)>),
    ) -> Self {
        asked.retain(|(column, _)| tree.available(queue, *column).is_some());
        let columns = asked.iter().map(|(column, _)| *column).collect();
        Preemptor { for_room: true, ..Self::lacking(cell, job, tree, (queue, asked), columns) }
    }

    fn lacking(
        cell: &'a Cell,
        job: &'a Job,
        tree: &QuotaIf<'_>,
        (queue, asked): (QueueId, Vec<(FlavorResource, i64)>),
        lacking: Vec<FlavorResource>,
    ) -> Self {
        let policy = preemption_policy(cell.quota.at(queue).spec.preemption);
        let (path, lender) = path(cell, tree, queue, &asked);
        let is_lent_below_root = lender.is_some_and(|lender| cell.quota.above(lender).is_some());
        let is_nominal = asked.iter().all(|&(column, amount)| amount <= cell.quota.own(queue, column));
        let share_rules = cell.quota.scheduling.fair_sharing.as_ref().map(|sharing| &sharing.preemption_strategies[..]);
        let for_room = false;
        Preemptor {
            cell,
            job,
            queue,
            policy,
            asked,
            lacking,
            path,
            share_rules,
            is_nominal,
            is_lent_below_root,
            for_room,
        }
    }

    /// How `victim` may be stopped for the job, by the rules of its queue and priority; nothing where it may not.
    /// Whether the victim's queue borrows is another question, see [`Preemptor::is_open`].
    pub fn variant(&self, victim: &Job) -> Option<Variant> {
        if !may_be_stopped(self.cell, self.job, victim) {
            return None;
        }
        self.variant_by_policy(victim).filter(|variant| {
            if self.for_room && *variant == Variant::InQueue {
                return true;
            }
            !self.lacked_of(Stopping::whole(victim)).is_empty()
        })
    }

    /// What of that which the job lacks so much of another one has.
    fn lacked_of(&self, part: Stopping<'_>) -> Vec<FlavorResource> {
        let has = held_by(self.cell, part);
        let lacked = self.lacking.iter().filter(|column| has.get(column).is_some_and(|has| *has > 0));
        lacked.copied().collect()
    }

    /// The same, whatever the victim has.
    fn variant_by_policy(&self, victim: &Job) -> Option<Variant> {
        let queue = self.cell.quota.find(&victim.spec.queue)?;
        let (own, other) = (self.job.spec.priority, victim.spec.priority);
        if queue == self.queue {
            let comes_after = Turn::of(victim) > Turn::of(self.job);
            return match self.policy.within_cluster_queue {
                PreemptionPolicy::LowerPriority => other < own,
                PreemptionPolicy::LowerOrNewerEqualPriority => other < own || (other == own && comes_after),
                PreemptionPolicy::Never | PreemptionPolicy::Any => false,
            }
            .then_some(Variant::InQueue);
        }
        let (_, advantage) = *self.path.get(self.meets(queue)?)?;
        let may_reclaim = match self.policy.reclaim_within_cohort {
            PreemptionPolicy::Any => true,
            PreemptionPolicy::LowerPriority | PreemptionPolicy::LowerOrNewerEqualPriority => other < own,
            PreemptionPolicy::Never => false,
        };
        let borrowing = self.policy.borrow_within_cohort;
        let may_borrow = borrowing.lower_priority && other < own && !self.must_yield(victim);
        let may_borrow = may_borrow && borrowing.max_priority_threshold.is_none_or(|threshold| other <= threshold);
        match (may_reclaim, advantage, may_borrow) {
            (false, ..) => None,
            (true, true, _) => Some(Variant::Hierarchical),
            (true, false, true) => Some(Variant::WhileBorrowing),
            (true, false, false) => Some(Variant::WithoutBorrowing),
        }
    }

    /// Whether `victim` has taken in return what the job had taken from it: neither a smaller share nor borrowing makes
    /// the job stop it again.
    fn must_yield(&self, victim: &Job) -> bool {
        self.cell.preemptions.has_returned(self.job.id, victim.id)
    }

    /// Whether the victim's queue, and each cohort below the one that both jobs are under, uses more than its own of
    /// something that the job lacks and so much of the victim has. Of the job's own queue nobody asks.
    fn borrows(&self, tree: &QuotaIf<'_>, part: Stopping<'_>) -> bool {
        let Some(mut at) = self.cell.quota.find(&part.job.spec.queue) else { return false };
        let Some(meets) = self.meets(at) else { return false };
        let lacked = self.lacked_of(part);
        while at != self.path[meets].0 {
            if !lacked.iter().any(|column| tree.beyond_own(at, *column) > 0) {
                return false;
            }
            match self.cell.quota.above(at) {
                Some(above) => at = above,
                None => return false,
            }
        }
        true
    }

    /// By which rule so much of a job may be stopped now, this one being charged already under fair sharing; and
    /// whether the queue must not borrow in the end for that.
    fn right(&self, tree: &mut QuotaIf<'_>, part: Stopping<'_>) -> Option<Right> {
        if let Some(rules) = self.share_rules {
            return self.share_right(tree, part, rules).map(|reason| (reason, false));
        }
        let variant = self.variant(part.job).filter(|variant| self.is_open(tree, part, *variant))?;
        Some((variant.reason(), variant == Variant::WithoutBorrowing))
    }

    /// Whether these jobs may be stopped for the job one after the other, and by which rule each; says of which one it
    /// is not so. They are stopped on `tree` afterwards.
    ///
    /// # Errors
    /// The place of the first one that may not be.
    pub fn rights(&self, tree: &mut QuotaIf<'_>, victims: &[&Job]) -> Result<Vec<PreemptionReason>, usize> {
        let victims = victims.iter().map(|job| Stopping::whole(job));
        let rights = rights_in_turn(Some(self), tree, victims, |tree, victim| self.right(tree, victim));
        rights.map_err(|refused| refused.at)
    }

    /// The place of the first of these victims, which are stopped, without which the job would fit as well and each of
    /// the others might be stopped, too.
    pub fn first_needless(&self, tree: &mut QuotaIf<'_>, victims: &[&Job]) -> Option<usize> {
        let is_within_own = !self.is_fair() && self.is_within_own(tree);
        (0..victims.len()).find(|&at| self.is_needless(tree, victims, at, is_within_own))
    }

    /// Whether the job would fit as well without the victim at this place, and stay within the own quota of its queue
    /// if it has to, and each of the others might be stopped, too. The tree is as before afterwards.
    pub fn is_needless(&self, tree: &mut QuotaIf<'_>, victims: &[&Job], at: usize, within_own: bool) -> bool {
        tree.put_back(victims[at]);
        let mut needless = self.fits(tree) && (!within_own || self.is_within_own(tree));
        needless &= !bug::is_planted(Bug::PreemptInVain);
        if needless && self.is_fair() {
            let others: Vec<&Job> = [&victims[..at], &victims[at + 1..]].concat();
            others.iter().for_each(|other| tree.put_back(other));
            needless = self.rights(tree, &others).is_ok();
        }
        tree.stop(victims[at]);
        needless
    }

    /// Whether so much of a victim of this kind may be stopped now: its queue still borrows, if that matters.
    pub fn is_open(&self, tree: &QuotaIf<'_>, part: Stopping<'_>, variant: Variant) -> bool {
        variant == Variant::InQueue || self.borrows(tree, part)
    }

    /// Whether any job of `queue` may be stopped for the job, as far as the rules of queues go: it is its own, or uses
    /// more than its own of something that the job lacks, under the same root.
    pub fn may_stop_in(&self, tree: &QuotaIf<'_>, queue: QueueId) -> bool {
        if queue == self.queue {
            return self.policy.within_cluster_queue != PreemptionPolicy::Never;
        }
        let may_reclaim = self.policy.reclaim_within_cohort != PreemptionPolicy::Never;
        may_reclaim && self.borrows_itself(tree, queue) && self.meets(queue).is_some()
    }

    /// The name of the queue of the job.
    pub fn queue_name(&self) -> &'a str {
        &self.job.spec.queue
    }

    /// Whether shares decide about jobs of other queues.
    pub fn is_fair(&self) -> bool {
        self.share_rules.is_some()
    }

    /// Whether the job may stop others for what it lacks: what is asked for is within the own quota of its queue, or a
    /// cohort below the root has it now, or the queue may stop others while it borrows.
    pub fn may_stop_any(&self) -> bool {
        let while_borrowing = match self.is_fair() {
            true => self.policy.reclaim_within_cohort != PreemptionPolicy::Never,
            false => self.policy.borrow_within_cohort.lower_priority,
        };
        while_borrowing || self.is_lent_below_root || self.is_nominal
    }

    /// Whether the queue of `victim` is under the same root.
    pub(crate) fn is_under_root_of(&self, victim: &Job) -> bool {
        self.cell.quota.find(&victim.spec.queue).is_some_and(|queue| self.meets(queue).is_some())
    }

    /// The queue of the job.
    pub fn queue(&self) -> QueueId {
        self.queue
    }

    /// Whether the quota has what the job needs.
    pub fn fits(&self, tree: &QuotaIf<'_>) -> bool {
        self.asked.iter().all(|&(column, amount)| tree.available(self.queue, column).is_none_or(|left| left >= amount))
    }

    /// Whether the queue has it without borrowing.
    pub fn is_within_own(&self, tree: &QuotaIf<'_>) -> bool {
        self.asked.iter().all(|&(column, amount)| tree.beyond_own(self.queue, column).saturating_add(amount) <= 0)
    }

    /// Whether the queue uses all of its own of something that the job lacks.
    pub fn is_at_nominal(&self, tree: &QuotaIf<'_>) -> bool {
        self.lacking.iter().any(|column| tree.beyond_own(self.queue, *column) >= 0)
    }

    /// Whether its queue never lets it stop jobs of others while it borrows.
    pub fn may_not_borrow(&self) -> bool {
        !self.policy.borrow_within_cohort.lower_priority
    }

    /// The first node of the path that `queue` is below, or is.
    fn meets(&self, queue: QueueId) -> Option<usize> {
        let mut at = Some(queue);
        while let Some(node) = at {
            if let Some(meets) = self.path.iter().position(|(known, _)| *known == node) {
                return Some(meets);
            }
            at = self.cell.quota.above(node);
        }
        None
    }
}

/// By which rule each of these may be stopped, one after the other, of a part each of its runs: told is the rule of the
/// first. Says which one may not be. Under fair sharing `rules` charge the job as if it stood meanwhile. The victims
/// are stopped on `tree` afterwards, whatever is said.
fn rights_in_turn<'v>(
    rules: Option<&Preemptor<'_>>,
    tree: &mut QuotaIf<'_>,
    victims: impl Iterator<Item = Stopping<'v>>,
    right: impl Fn(&mut QuotaIf<'_>, Stopping<'v>) -> Option<Right>,
) -> Result<Vec<PreemptionReason>, Refused> {
    let (mut reasons, mut must_not_borrow, mut refused) = (Vec::new(), None, None);
    let fair = rules.filter(|rules| rules.is_fair());
    fair.inspect(|rules| rules.take(tree));
    for (at, victim) in victims.enumerate() {
        let runs = victim.runs.iter().map(|run| victim.only(run));
        let parts = victim.is_whole().then_some(victim).into_iter().chain(runs);
        for (open, part) in parts.enumerate() {
            match right(tree, part) {
                Some((reason, borrows_not)) => {
                    if open == 0 {
                        reasons.push(reason);
                    }
                    must_not_borrow = must_not_borrow.or(borrows_not.then_some(Refused { at, open }));
                }
                None => _ = refused.get_or_insert(Refused { at, open }),
            }
            tree.stop_part(part);
        }
    }
    fair.inspect(|rules| rules.give_back(tree));
    let borrows = must_not_borrow.filter(|_| rules.is_some_and(|rules| !rules.is_within_own(tree)));
    refused.or(borrows).map_or(Ok(reasons), Err)
}

/// A victim that may not be stopped for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place among the victims.
    pub at: usize,
    /// How many of its runs that stop may be, the first ones: none of a job that is stopped whole.
    pub open: usize,
}

/// What so much of a job has of quota; the tasks of a reserved one use what is reserved.
fn held_by(cell: &Cell, part: Stopping<'_>) -> Charges {
    if part.is_whole() {
        return charged(cell, part.job);
    }
    summed(cell, part.runs.iter().filter_map(|run| live_run(cell, *run)).map(|run| (run.shape, 1)))
}

/// Whether `victim` may be stopped for `job` at all, whatever its priority and the rules of queues: both want it so,
/// what a closed job still has it gives back anyway, and what has just started is protected from jobs of other queues.
pub(crate) fn may_be_stopped(cell: &Cell, job: &Job, victim: &Job) -> bool {
    let may = victim.state == JobState::Active && victim.id != job.id && victim.spec.preemptible && job.spec.preempts;
    may && !is_fresh(cell, job, victim)
}

/// Whether `minRuntimeSeconds` of its queue protects `victim` from `job`.
fn is_fresh(cell: &Cell, job: &Job, victim: &Job) -> bool {
    let queue = cell.quota.get(&victim.spec.queue).filter(|_| victim.spec.queue != job.spec.queue);
    let seconds = queue.map_or(0, |queue| queue.spec.min_runtime_seconds);
    let since_ms = || placed_since_ms(cell, victim).unwrap_or(cell.now_ms);
    seconds > 0 && since_ms().saturating_add(seconds.saturating_mul(1000)) > cell.now_ms
}

/// When the first of its live runs was placed, in stamped time; nothing where none is live.
pub fn placed_since_ms(cell: &Cell, job: &Job) -> Option<u64> {
    live_runs(cell, job).map(|run| run.placed_ms).min()
}

/// The jobs that stop for others already, and that nobody else may count on.
pub fn promised_victims(what: WhatIf<'_>) -> BTreeSet<JobId> {
    let told = what.cell.preemptions.iter().flat_map(|(_, preemption)| preemption.victims.keys().copied());
    told.chain(what.told_besides().map(|victim| victim.job)).collect()
}

/// The queue and the cohorts above it, and the first of them that takes what is asked within its own quota.
fn path(
    cell: &Cell,
    tree: &QuotaIf<'_>,
    queue: QueueId,
    asked: &[(FlavorResource, i64)],
) -> (Vec<(QueueId, bool)>, Option<QueueId>) {
    let (mut path, mut rest, mut lender) = (Vec::new(), asked.to_vec(), None);
    let mut at = Some(queue);
    while let Some(node) = at {
        path.push((node, lender.is_some()));
        let has = |&(column, amount): &(FlavorResource, i64)| tree.beyond_own(node, column).saturating_add(amount) <= 0;
        lender = lender.or(rest.iter().all(has).then_some(node));
        for (column, amount) in &mut rest {
            *amount = amount.saturating_sub(tree.local_rest(node, *column)).max(0);
        }
        at = cell.quota.above(node);
    }
    (path, lender)
}
