//! The budgets with names, and what is counted for these and those of groups.

use super::counts::Counts;
use crate::state::job_store::Jobs;
use crate::state::jobs::Job;
use ohm_model::{Budget, BudgetRef, BudgetTerms, GroupIndex, split_job_name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whether a group of the job has a budget of its own.
fn has_own(job: &Job) -> bool {
    job.spec.groups.iter().any(|group| group.disruption_budget.is_some())
}

/// Budgets by name, each with its number.
type Numbered = BTreeMap<String, (u32, Arc<Budget>)>;

/// All budgets with names, and what is counted for these and those of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budgets {
    /// By namespace and name, each with its number.
    by_namespace: Arc<BTreeMap<String, Numbered>>,
    /// How many numbers were given.
    numbers: u32,
    /// Namespaces whose budgets the command at hand has changed.
    pub(super) changed: BTreeSet<String>,
    /// Whether the command at hand has brought a group with a budget of its own.
    pub(super) has_news: bool,
    pub(crate) counts: Counts,
}

impl Budgets {
    /// The budget called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Budget>> {
        let (namespace, _) = split_job_name(name);
        self.by_namespace.get(namespace)?.get(name).map(|(_, budget)| budget)
    }

    /// All budgets by namespace and name, each with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Budget>)> {
        self.by_namespace.values().flat_map(|budgets| budgets.values().map(|(number, budget)| (*number, budget)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_namespace.values().map(BTreeMap::len).sum()
    }

    /// Those of one namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (u32, &Arc<Budget>)> {
        let budgets = self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values);
        budgets.map(|(number, budget)| (*number, budget))
    }

    /// How many numbers were given so far.
    pub(crate) fn numbers(&self) -> u32 {
        self.numbers
    }

    pub(crate) fn from_parts(budgets: Vec<(u32, Budget)>, numbers: u32) -> Self {
        let mut by_namespace: BTreeMap<String, Numbered> = BTreeMap::new();
        for (number, budget) in budgets {
            let namespace = split_job_name(&budget.name).0.to_string();
            by_namespace.entry(namespace).or_default().insert(budget.name.clone(), (number, Arc::new(budget)));
        }
        Budgets { by_namespace: Arc::new(by_namespace), numbers, ..Budgets::default() }
    }

    pub(crate) fn put(&mut self, budget: Budget) {
        let namespace = split_job_name(&budget.name).0.to_string();
        let known = self.by_namespace.get(&namespace).and_then(|budgets| budgets.get(&budget.name));
        let number = known.map(|(number, _)| *number);
        self.numbers += u32::from(number.is_none());
        let number = number.unwrap_or(self.numbers);
        let budgets = Arc::make_mut(&mut self.by_namespace).entry(namespace.clone()).or_default();
        budgets.insert(budget.name.clone(), (number, Arc::new(budget)));
        self.changed.insert(namespace);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        let (namespace, _) = split_job_name(name);
        let by_namespace = Arc::make_mut(&mut self.by_namespace);
        if let Some(budgets) = by_namespace.get_mut(namespace) {
            budgets.remove(name);
            if budgets.is_empty() {
                by_namespace.remove(namespace);
            }
        }
        self.changed.insert(namespace.to_string());
    }

    /// Whether a command may change anything that is counted.
    pub(crate) fn is_of_use(&self) -> bool {
        let is_changed = self.has_news || !self.changed.is_empty();
        is_changed || !self.counts.is_empty() || !self.by_namespace.is_empty()
    }

    /// Whether a budget may be about any of the jobs.
    pub(crate) fn may_cover_any(&self, jobs: &Jobs) -> bool {
        !self.by_namespace.is_empty() || jobs.iter().any(|job| has_own(job))
    }

    /// A job was submitted or changed.
    pub(crate) fn note_job(&mut self, job: &Job) {
        self.has_news |= has_own(job);
    }

    /// The budgets of group `at` of `job`, with what they ask for.
    pub(super) fn of_group(&self, job: &Job, at: usize) -> Vec<(BudgetRef, BudgetTerms)> {
        let Some(spec) = job.spec.groups.get(at) else { return Vec::new() };
        let named = self.in_namespace(split_job_name(&job.spec.name).0);
        let named = named.filter(|(_, budget)| budget.selects(&spec.labels));
        let own = spec.disruption_budget.as_deref();
        let own = own.map(|terms| (BudgetRef::OfGroup(job.id, GroupIndex(at as u16)), *terms));
        named.map(|(number, budget)| (BudgetRef::Named(number), budget.terms)).chain(own).collect()
    }
}
