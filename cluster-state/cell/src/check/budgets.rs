//! Healthy tasks are counted for disruption budgets as runs say.

use crate::cell::Cell;
use crate::state::budgets::settle::count_anew;
use crate::state::budgets::states::budget_name;
use ohm_model::BudgetRef;
use std::collections::BTreeSet;

/// What is counted as runs move against what is counted from them.
pub(super) fn check_budgets(cell: &Cell, broken: &mut Vec<String>) {
    if cell.budgets.counts.is_empty() && !cell.budgets.may_cover_any(&cell.jobs) {
        return;
    }
    let mut anew = cell.clone();
    count_anew(&mut anew);
    if anew.budgets == cell.budgets {
        return;
    }
    let differs = |budget: &&BudgetRef| anew.budgets.counts.of(**budget) != cell.budgets.counts.of(**budget);
    let all: BTreeSet<BudgetRef> = cell.budgets.counts.all().chain(anew.budgets.counts.all()).collect();
    let wrong: Vec<String> = all.iter().filter(differs).map(|budget| budget_name(cell, *budget)).collect();
    broken.push(format!("budgets are not counted as their tasks run: {}", wrong.join(", ")));
}
