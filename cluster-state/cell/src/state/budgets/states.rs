//! What people are told of budgets.

use crate::cell::Cell;
use ohm_model::{Budget, BudgetRef, BudgetTerms};

/// What is to be known of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetState {
    /// What it is called: its name, or `JOB:GROUP` where a group has it by itself.
    pub name: String,
    /// What it asks for.
    pub terms: BudgetTerms,
    /// How many of its tasks are healthy.
    pub healthy: u64,
    /// How many there are to be.
    pub expected: u64,
}

impl BudgetState {
    /// How many must be healthy.
    pub fn desired(&self) -> u64 {
        self.terms.limit.desired(self.expected)
    }

    /// How many may be stopped now by those who keep the budget.
    pub fn allowed(&self) -> u64 {
        self.healthy.saturating_sub(self.desired())
    }
}

/// All budgets of a cell, those with names first.
pub fn budgets(cell: &Cell) -> impl Iterator<Item = (BudgetRef, BudgetState)> + '_ {
    let named = cell.budgets.iter().map(|(number, budget)| (BudgetRef::Named(number), budget.name.clone()));
    let of_groups = cell.budgets.counts.of_groups().map(|budget| (budget, budget_name(cell, budget)));
    named.chain(of_groups).filter_map(|(budget, name)| Some((budget, state_of(cell, budget, name)?)))
}

/// What is to be known of a budget.
pub fn budget_state(cell: &Cell, budget: BudgetRef) -> Option<BudgetState> {
    state_of(cell, budget, budget_name(cell, budget))
}

/// The budget called `name`.
pub fn budget<'a>(cell: &'a Cell, name: &str) -> Option<&'a Budget> {
    cell.budgets.get(name).map(|budget| &**budget)
}

/// What people call a budget; one that is gone has no name any more.
pub fn budget_name(cell: &Cell, budget: BudgetRef) -> String {
    let gone = || "that is gone".to_string();
    match budget {
        BudgetRef::Named(number) => {
            let named = cell.budgets.iter().find(|(known, _)| *known == number);
            named.map_or_else(gone, |(_, budget)| budget.name.clone())
        }
        BudgetRef::OfGroup(job, group) => {
            let Some(job) = cell.jobs.get(job) else { return gone() };
            let group = job.spec.groups.get(usize::from(group.0));
            group.map_or_else(gone, |group| format!("{}:{}", job.spec.name, group.name))
        }
    }
}

/// What it asks for.
pub(crate) fn terms_of(cell: &Cell, budget: BudgetRef) -> Option<BudgetTerms> {
    match budget {
        BudgetRef::Named(number) => {
            let named = cell.budgets.iter().find(|(known, _)| *known == number);
            named.map(|(_, budget)| budget.terms)
        }
        BudgetRef::OfGroup(job, group) => {
            let group = cell.jobs.get(job)?.spec.groups.get(usize::from(group.0))?;
            group.disruption_budget.as_deref().copied()
        }
    }
}

fn state_of(cell: &Cell, budget: BudgetRef, name: String) -> Option<BudgetState> {
    let (terms, count) = match cell.budgets.counts.of(budget) {
        Some(count) => (count.terms, (count.healthy, count.expected)),
        None => (terms_of(cell, budget)?, (0, 0)),
    };
    Some(BudgetState { name, terms, healthy: count.0, expected: count.1 })
}
