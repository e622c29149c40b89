//! The search of Kueue's preemption under fair sharing.
//!
//! Whoever has the largest share is stopped first: from the root down, the child with the largest one is followed until
//! a queue is found (a tournament, held anew after each victim). Of its candidates the first one is taken that the
//! rules let the job stop; a queue of which none passes is passed over. What fails the first rule gets one more try
//! under the second. What turns out to be needless is put back.
//!
//! Better than there: equal cohorts go by their best candidates as equal queues do, and nobody is put back whose return
//! would leave another one stopped without a right (two jobs would stop each other for ever).

use super::order::{Order, open_jobs, order};
use ohm_cell::{Cell, Job, Preemptor, QueueId, QuotaIf, Share, Stopping, WhatIf};
use ohm_model::{PreemptionNeed, PreemptionReason, ShareRule, Victim};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A job that may be stopped.
#[derive(Clone)]
struct Candidate<'a> {
    job: &'a Job,
    order: Order,
}

struct Search<'a, 'p> {
    cell: &'a Cell,
    preemptor: &'p Preemptor<'a>,
    tree: &'p mut QuotaIf<'a>,
    /// Who is left of each queue.
    left: BTreeMap<QueueId, VecDeque<Candidate<'a>>>,
    /// Cohorts in which nobody is left.
    pruned: BTreeSet<QueueId>,
    taken: Vec<&'a Job>,
}

/// The jobs to stop, in the order in which each may be; none where that would not do. The tree is as before afterwards.
pub(super) fn search<'a>(what: WhatIf<'a>, preemptor: &Preemptor<'a>, tree: &mut QuotaIf<'a>) -> Vec<Victim> {
    let cell = what.cell;
    preemptor.take(tree);
    let mut candidates: Vec<(QueueId, Candidate<'a>)> = open_jobs((what.cell, what.over), preemptor, tree)
        .into_iter()
        .filter(|job| preemptor.variant(job).is_some())
        .filter_map(|job| {
            let order = order(cell, preemptor.queue_name(), job);
            Some((cell.quota().find(&job.spec.queue)?, Candidate { job, order }))
        })
        .filter(|(queue, _)| preemptor.is_own(*queue) || preemptor.borrows_itself(tree, *queue))
        .collect();
    candidates.sort_by(|(_, one), (_, other)| one.order.cmp(&other.order));
    let mut left: BTreeMap<QueueId, VecDeque<Candidate<'a>>> = BTreeMap::new();
    for (queue, candidate) in candidates {
        left.entry(queue).or_default().push_back(candidate);
    }
    let mut search = Search { cell, preemptor, tree, left, pruned: BTreeSet::new(), taken: Vec::new() };
    let enough = search.run();
    let mut taken = search.taken;
    preemptor.give_back(tree);
    // The last one made it fit.
    for at in (0..taken.len().saturating_sub(1)).rev().filter(|_| enough) {
        if preemptor.is_needless(tree, &taken, at, false) {
            tree.put_back(taken.remove(at));
        }
    }
    taken.iter().for_each(|job| tree.put_back(job));
    let rights = if enough { preemptor.rights(tree, &taken) } else { return Vec::new() };
    taken.iter().for_each(|job| tree.put_back(job));
    let victim = |(job, reason): (&&Job, PreemptionReason)| Victim::whole(job.id, PreemptionNeed::Quota, reason);
    taken.iter().zip(rights.unwrap_or_default()).map(victim).collect()
}

impl<'a> Search<'a, '_> {
    /// Takes victims until the job fits.
    fn run(&mut self) -> bool {
        let rules = self.preemptor.share_rules().to_vec();
        let mut failed: BTreeMap<QueueId, VecDeque<Candidate<'a>>> = BTreeMap::new();
        for (at, rule) in rules.iter().enumerate() {
            while let Some(queue) = self.next_queue() {
                if self.try_queue(queue, *rule, at == 0, &mut failed) {
                    return true;
                }
            }
            self.left = std::mem::take(&mut failed);
            self.pruned.clear();
        }
        false
    }

    /// Takes one candidate of `queue`, if one passes; returns whether the job fits then.
    fn try_queue(
        &mut self,
        queue: QueueId,
        rule: ShareRule,
        all: bool,
        failed: &mut BTreeMap<QueueId, VecDeque<Candidate<'a>>>,
    ) -> bool {
        while let Some(candidate) = self.left.get_mut(&queue).and_then(VecDeque::pop_front) {
            match self.preemptor.share_right(self.tree, Stopping::whole(candidate.job), &[rule]) {
                Some(_) => {
                    self.tree.stop(candidate.job);
                    self.taken.push(candidate.job);
                    if !all {
                        self.left.remove(&queue);
                    }
                    return self.fits();
                }
                None if all => failed.entry(queue).or_default().push_back(candidate),
                // Under the second rule each queue has one try.
                None => {
                    self.left.remove(&queue);
                }
            }
        }
        false
    }

    fn fits(&mut self) -> bool {
        self.preemptor.give_back(self.tree);
        let fits = self.preemptor.fits(self.tree);
        self.preemptor.take(self.tree);
        fits
    }

    /// The queue that is due to lose a job.
    fn next_queue(&mut self) -> Option<QueueId> {
        let root = self.preemptor.root();
        if self.preemptor.is_own(root) {
            return self.has_left(root).then_some(root);
        }
        while !self.pruned.contains(&root) {
            if let Some(queue) = self.descend(root) {
                return Some(queue);
            }
        }
        None
    }

    fn has_left(&self, queue: QueueId) -> bool {
        self.left.get(&queue).is_some_and(|left| !left.is_empty())
    }

    /// The queue below `cohort`; nothing where it was found that nobody is left there.
    fn descend(&mut self, cohort: QueueId) -> Option<QueueId> {
        let mut best: Option<(Share, bool, QueueId)> = None;
        for child in self.cell.quota().children(cohort) {
            let (share, is_cohort) = (self.tree.share(child), self.cell.quota().is_cohort(child));
            let may_lose = share.dominant().is_some() || self.preemptor.is_on_path(child);
            let is_open = match is_cohort {
                true => !self.pruned.contains(&child) && self.best_below(child).is_some(),
                false => self.has_left(child),
            };
            if !may_lose || !is_open {
                continue;
            }
            let wins = match &best {
                None => true,
                Some((known, _, _)) if share != *known => share > *known,
                Some((_, other_is_cohort, _)) if is_cohort != *other_is_cohort => is_cohort,
                Some((_, _, other)) => self.best_below(child) < self.best_below(*other),
            };
            if wins {
                best = Some((share, is_cohort, child));
            }
        }
        match best {
            Some((_, true, cohort)) => self.descend(cohort),
            Some((_, false, queue)) => Some(queue),
            None => {
                self.pruned.insert(cohort);
                None
            }
        }
    }

    /// The place in the order of the first candidate in a queue, or below a cohort.
    fn best_below(&self, node: QueueId) -> Option<Order> {
        let below = self.left.iter().filter(|(queue, _)| self.cell.quota().is_below(**queue, node));
        below.filter_map(|(_, left)| left.front()).map(|first| first.order.clone()).min()
    }
}
