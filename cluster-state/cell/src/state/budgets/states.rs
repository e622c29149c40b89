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
    let named = cell.budgets.iter();
    let named = named.map(|(number, budget)| (BudgetRef::Named(number), (budget.name.clone(), budget.terms)));
    let of_groups = cell.budgets.counts.of_groups().filter_map(|budget| Some((budget, find(cell, budget)?)));
    named.chain(of_groups).map(|(budget, found)| (budget, state_of(cell, budget, found)))
}

/// What is to be known of a budget.
pub fn budget_state(cell: &Cell, budget: BudgetRef) -> Option<BudgetState> {
    Some(state_of(cell, budget, find(cell, budget)?))
}

/// The budget called `name`.
pub fn budget<'a>(cell: &'a Cell, name: &str) -> Option<&'a Budget> {
    cell.budgets.get(name).map(|budget| &**budget)
}

/// What people call a budget; one that is gone has no name any more.
pub fn budget_name(cell: &Cell, budget: BudgetRef) -> String {
    find(cell, budget).map_or_else(|| "that is gone".to_string(), |(name, _)| name)
}

/// What people call a budget, and what it asks for; nothing where it is gone.
fn find(cell: &Cell, budget: BudgetRef) -> Option<(String, BudgetTerms)> {
    match budget {
        BudgetRef::Named(number) => {
            let (_, budget) = cell.budgets.iter().find(|(known, _)| *known == number)?;
            Some((budget.name.clone(), budget.terms))
        }
        BudgetRef::OfGroup(job, group) => {
            let job = cell.jobs.get(job)?;
            let group = job.spec.groups.get(usize::from(group.0))?;
            Some((format!("{}:{}", job.spec.name, group.name), *group.disruption_budget.as_deref()?))
        }
    }
}

fn state_of(cell: &Cell, budget: BudgetRef, (name, terms): (String, BudgetTerms)) -> BudgetState {
    let count = cell.budgets.counts.of(budget);
    let (healthy, expected) = count.map_or((0, 0), |count| (count.healthy, count.expected));
    BudgetState { name, terms, healthy, expected }
}
