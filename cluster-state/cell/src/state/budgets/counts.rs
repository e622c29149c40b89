//! What is counted of the jobs that budgets are about.

use ohm_model::{BudgetRef, BudgetTerms, GroupIndex, JobId, JobSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The counts of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Nothing while no budget is about any job.
    pub(super) inner: Option<Arc<Inner>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inner {
    pub(super) counts: BTreeMap<BudgetRef, Count>,
    pub(super) jobs: BTreeMap<JobId, Arc<Covered>>,
    /// The budgets of which something has changed since [`Counts::take_moved`].
    pub(super) moved: BTreeSet<BudgetRef>,
}

/// One budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) terms: BudgetTerms,
    pub(crate) healthy: u64,
    pub(crate) expected: u64,
    /// The groups that it is about.
    pub(super) groups: u32,
    /// Its jobs that have to leave nodes.
    pub(super) leaving: BTreeSet<JobId>,
}

/// A job that budgets are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Covered {
    /// As it was asked for when its budgets were looked up.
    pub(super) spec: Arc<JobSpec>,
    pub(super) groups: Vec<CoveredGroup>,
    /// Whether it has to leave nodes.
    pub(super) leaves: bool,
    /// The budget that keeps it on nodes that it has to leave.
    pub(super) held_by: Option<BudgetRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CoveredGroup {
    pub(super) budgets: Vec<BudgetRef>,
    pub(super) healthy: u32,
    pub(super) expected: u32,
}

impl Count {
    /// How many tasks must be healthy.
    pub(crate) fn desired(&self) -> u64 {
        self.terms.limit.desired(self.expected)
    }
}

impl Counts {
    /// Whether no budget is about any job.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.is_none()
    }

    pub(crate) fn of(&self, budget: BudgetRef) -> Option<&Count> {
        self.inner.as_ref()?.counts.get(&budget)
    }

    /// The budgets that are about any job.
    pub(crate) fn all(&self) -> impl Iterator<Item = BudgetRef> + '_ {
        self.inner.iter().flat_map(|inner| inner.counts.keys().copied())
    }

    /// The budgets that groups have by themselves.
    pub(crate) fn of_groups(&self) -> impl Iterator<Item = BudgetRef> + '_ {
        self.all().filter(|budget| matches!(budget, BudgetRef::OfGroup(..)))
    }

    /// The budgets that are about a group.
    pub(crate) fn budgets_of(&self, job: JobId, group: GroupIndex) -> &[BudgetRef] {
        let covered = self.inner.as_ref().and_then(|inner| inner.jobs.get(&job));
        let group = covered.and_then(|covered| covered.groups.get(usize::from(group.0)));
        group.map_or(&[], |group| &group.budgets)
    }

    /// `by` more tasks of a group are healthy.
    pub(crate) fn shift(&mut self, job: JobId, group: GroupIndex, by: i32) {
        let Some(inner) = &mut self.inner else { return };
        let at = usize::from(group.0);
        let is_covered = |covered: &Arc<Covered>| covered.groups.get(at).is_some_and(|group| !group.budgets.is_empty());
        if !inner.jobs.get(&job).is_some_and(is_covered) {
            return;
        }
        let inner = Arc::make_mut(inner);
        let Some(covered) = inner.jobs.get_mut(&job) else { return };
        let found = &mut Arc::make_mut(covered).groups[at];
        found.healthy = found.healthy.saturating_add_signed(by);
        for budget in &found.budgets {
            if let Some(count) = inner.counts.get_mut(budget) {
                count.healthy = count.healthy.saturating_add_signed(i64::from(by));
            }
            inner.moved.insert(*budget);
        }
    }

    /// The budgets that have moved since this was asked last.
    pub(super) fn take_moved(&mut self) -> BTreeSet<BudgetRef> {
        match &mut self.inner {
            Some(inner) if !inner.moved.is_empty() => std::mem::take(&mut Arc::make_mut(inner).moved),
            _ => BTreeSet::new(),
        }
    }

    /// The jobs of a budget that have to leave nodes.
    pub(super) fn leaving(&self, budget: BudgetRef) -> impl Iterator<Item = JobId> + '_ {
        self.of(budget).into_iter().flat_map(|count| count.leaving.iter().copied())
    }

    /// Whether a budget is about the job.
    pub(super) fn covers(&self, job: JobId) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.jobs.contains_key(&job))
    }

    /// The jobs that budgets keep on nodes that they have to leave.
    pub(super) fn held(&self) -> impl Iterator<Item = JobId> + '_ {
        let jobs = self.inner.iter().flat_map(|inner| &inner.jobs);
        jobs.filter(|(_, covered)| covered.held_by.is_some()).map(|(job, _)| *job)
    }

    /// Whether a budget is about the job, and it has to leave nodes.
    pub(super) fn leaves(&self, job: JobId) -> bool {
        let covered = self.inner.as_ref().and_then(|inner| inner.jobs.get(&job));
        covered.is_some_and(|covered| covered.leaves || covered.held_by.is_some())
    }

    /// Takes note of which budget keeps a job on nodes that it has to leave. Returns which one did.
    pub(super) fn set_held(&mut self, job: JobId, held_by: Option<BudgetRef>) -> Option<BudgetRef> {
        let inner = self.inner.as_mut()?;
        let former = inner.jobs.get(&job)?.held_by;
        if former != held_by
            && let Some(covered) = Arc::make_mut(inner).jobs.get_mut(&job)
        {
            Arc::make_mut(covered).held_by = held_by;
        }
        former
    }
}
