//! P11, the right and the need: whoever is stopped for another job may be, by the rules of that job's queue and by the
//! reason that is told; that job waits for quota, has it once they have ended, and would not without any of them.
//!
//! Shares are not counted here. Of jobs whose queue gives quota by flavor only policies and priorities are judged.

use crate::p11_tree::{Count, Known, Promises, has, is_within_own};
use crate::quota::QuotaTree;
use ohm_model::{Amounts, JobId, JobSpec, PreemptionPolicy, PreemptionReason, QueuePreemption, Victim};

/// A preemption as it is told, before anybody has stopped.
pub(crate) struct Case<'a> {
    pub(crate) known: Known<'a>,
    pub(crate) promises: &'a Promises,
    pub(crate) is_fair: bool,
    pub(crate) job: JobId,
    pub(crate) victims: &'a [Victim],
    /// For how many tasks of each group rooms are kept, if any are.
    pub(crate) wanted: Option<&'a [u32]>,
}

impl Case<'_> {
    /// What is wrong with it.
    pub(crate) fn problem(&self) -> Option<String> {
        let spec = self.known.spec(self.job)?;
        if self.known.stands(self.job) || !self.known.is_active(self.job) {
            return Some("it does not wait to start".into());
        }
        let policy = self.known.quotas.tree().queue(&spec.queue).map(|queue| queue.preemption).unwrap_or_default();
        if let Some(problem) = self.victims.iter().find_map(|victim| self.problem_of_policy(spec, policy, victim)) {
            return Some(problem);
        }
        if let Some(problem) = self.problem_of_minimum(spec) {
            return Some(problem);
        }
        let ask = self.known.ask(self.job, self.wanted)?;
        self.problem_of_need(spec, &ask).or_else(|| self.problem_of_quota(spec, &ask))
    }

    /// A group that could not start in the rooms that are kept.
    fn problem_of_minimum(&self, spec: &JobSpec) -> Option<String> {
        let wanted = self.wanted.filter(|_| !self.known.books.is_endless(self.job))?;
        let short = (0u16..).zip(spec.groups.iter().zip(wanted)).find(|(at, (group, rooms))| {
            let done = self.known.books.done(self.job, *at);
            done < group.count && done + *rooms < group.min_count.max(1)
        });
        short.map(|(_, (group, rooms))| format!("{rooms} tasks of group {} are too few to start", group.name))
    }

    /// Why the policies of its queue do not let the job stop this one by the reason that is told.
    pub(crate) fn problem_of_policy(&self, spec: &JobSpec, policy: QueuePreemption, victim: &Victim) -> Option<String> {
        use PreemptionPolicy::{Any, LowerOrNewerEqualPriority, LowerPriority};
        let (own, reason) = (spec.priority, victim.reason);
        let other = self.known.spec(victim.job)?;
        if !spec.preempts || !other.preemptible {
            return Some(format!("{} is not to be stopped for it", other.name));
        }
        let tree = self.known.quotas.tree();
        let because = |what: &str| Some(format!("{} {what}", other.name));
        if !self.known.is_active(victim.job) {
            return because("is closed already");
        }
        if (other.queue == spec.queue) != (reason == PreemptionReason::InClusterQueue) {
            return because(&format!("of queue {} is stopped by the rule {}", other.queue, reason.name()));
        }
        let is_newer = self.known.turns.of(victim.job, other) > self.known.turns.of(self.job, spec);
        if other.queue == spec.queue {
            let may = match policy.within_cluster_queue {
                LowerPriority => other.priority < own,
                LowerOrNewerEqualPriority => other.priority < own || (other.priority == own && is_newer),
                _ => false,
            };
            return if may { None } else { because("may not be stopped within the queue") };
        }
        if tree.path(&spec.queue).last() != tree.path(&other.queue).last() {
            return because("is under another root");
        }
        let may = match policy.reclaim_within_cohort {
            Any => true,
            LowerPriority | LowerOrNewerEqualPriority => other.priority < own,
            PreemptionPolicy::Never => false,
        };
        if !may {
            return because("may not be stopped within the cohort");
        }
        let borrowing = policy.borrow_within_cohort;
        let below = borrowing.max_priority_threshold.is_none_or(|threshold| other.priority <= threshold);
        let may_borrow = !self.is_fair && borrowing.lower_priority && other.priority < own && below;
        match reason {
            PreemptionReason::InCohortReclaimWhileBorrowing if !may_borrow => {
                because("may not be stopped for a queue that borrows")
            }
            PreemptionReason::InCohortFairSharing if !self.is_fair => {
                because("is stopped by shares, which don't count")
            }
            _ => None,
        }
    }

    pub(crate) fn tree(&self, count: Count) -> QuotaTree {
        self.known.tree(self.job, self.promises, count)
    }

    pub(crate) fn lift(&self, tree: &mut QuotaTree, victim: JobId, count: Count, times: i64) {
        if let Some(spec) = self.known.spec(victim) {
            tree.charge(&spec.queue, &self.known.charged(victim, self.promises, count), -times);
        }
    }

    fn after_all(&self, count: Count) -> QuotaTree {
        let mut tree = self.tree(count);
        self.victims.iter().for_each(|victim| self.lift(&mut tree, victim.job, count, 1));
        tree
    }

    fn problem_of_need(&self, spec: &JobSpec, ask: &Amounts) -> Option<String> {
        if has(&self.tree(Count::Most), &spec.queue, ask) {
            return Some(format!("its queue has the {ask:?} that it waits for"));
        }
        let fewest = self.after_all(Count::Fewest);
        if !has(&fewest, &spec.queue, ask) {
            return Some(format!("its queue will not have the {ask:?} that it waits for"));
        }
        let may_borrow = self.is_fair || !is_within_own(&fewest, &spec.queue, ask);
        let mut tree = self.after_all(Count::Most);
        for (at, victim) in self.victims.iter().enumerate() {
            self.lift(&mut tree, victim.job, Count::Most, -1);
            let fits = has(&tree, &spec.queue, ask) && (may_borrow || is_within_own(&tree, &spec.queue, ask));
            if fits && self.has_rights_without(at) {
                return Some(format!("its queue has enough without {}", self.known.name(victim.job)));
            }
            self.lift(&mut tree, victim.job, Count::Most, 1);
        }
        None
    }

    /// Whether all others may be stopped without this one, for sure: by shares it may be why they are.
    fn has_rights_without(&self, at: usize) -> bool {
        let left_out = self.victims[at].reason;
        let stays = |victim: &Victim| match victim.reason {
            PreemptionReason::InClusterQueue => true,
            PreemptionReason::InCohortReclamation => left_out != PreemptionReason::InClusterQueue,
            _ => false,
        };
        let mut others = self.victims.iter().enumerate().filter(|(other, _)| *other != at);
        !self.is_fair || others.all(|(_, victim)| stays(victim))
    }

    fn problem_of_quota(&self, spec: &JobSpec, ask: &Amounts) -> Option<String> {
        let mut most = self.tree(Count::Most);
        let (fewest, after) = (self.tree(Count::Fewest), self.after_all(Count::Fewest));
        for victim in self.victims {
            let other = self.known.spec(victim.job)?;
            let has = self.known.charged(victim.job, self.promises, Count::Most);
            if !ask.keys().any(|name| has.get(name).is_some_and(|has| *has > 0)) {
                return Some(format!("{} has none of the {ask:?} that it waits for", other.name));
            }
            let path = most.path(&spec.queue);
            let common = most.path(&other.queue).into_iter().find(|node| path.contains(node)).unwrap_or_default();
            let own: Vec<&str> = path.into_iter().take_while(|node| *node != common).collect();
            if victim.reason != PreemptionReason::InClusterQueue {
                let side: Vec<&str> = most.path(&other.queue).into_iter().take_while(|node| *node != common).collect();
                let borrows = |node: &&str| ask.keys().any(|name| most.over_own(node, name) > 0);
                // By shares the cohorts between the two are not asked.
                if !side.iter().take(if self.is_fair { 1 } else { side.len() }).all(borrows) {
                    return Some(format!("{} of queue {} is within its own quota", other.name, other.queue));
                }
            }
            if victim.reason == PreemptionReason::InCohortReclamation {
                let borrows = |(name, amount): (&String, &i64)| {
                    let lacks = !self.is_fair || fewest.left(&spec.queue, name) < *amount;
                    lacks && after.over_own(&spec.queue, name) + amount > 0
                };
                if ask.iter().any(borrows) && (self.is_fair || !has_advantage(&fewest, &own, ask)) {
                    return Some(format!("{} is taken back from, and it borrows itself", other.name));
                }
            }
            self.lift(&mut most, victim.job, Count::Most, 1);
        }
        None
    }
}

/// Whether one of these nodes, from the queue upwards, takes what is asked within its own.
fn has_advantage(tree: &QuotaTree, path: &[&str], ask: &Amounts) -> bool {
    let mut rest = ask.clone();
    path.iter().any(|node| {
        let takes = is_within_own(tree, node, &rest);
        rest.iter_mut().for_each(|(name, amount)| *amount = (*amount - tree.kept_left(node, name)).max(0));
        takes
    })
}
