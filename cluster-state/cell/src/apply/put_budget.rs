//! Disruption budgets are put and removed.

use crate::apply::Tx;
use crate::apply::steps::names::check_names;
use ohm_model::budget::BUDGETS_MAX;
use ohm_model::{Budget, Outcome, Refusal, split_job_name};

/// Adds a budget, or changes one.
pub(crate) fn put_budget(tx: &mut Tx<'_>, budget: &Budget) -> Result<Outcome, Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(budget)?;
    let (namespace, _) = split_job_name(&budget.name);
    if tx.namespaces.get(namespace).is_none() {
        let problem = format!("there is no namespace \"{namespace}\"; submit a document of `kind: Namespace` first");
        return invalid("metadata.namespace", problem);
    }
    if let Some((field, problem)) = budget.terms.problem() {
        return invalid(&format!("spec.{field}"), problem);
    }
    if tx.budgets.get(&budget.name).is_none() && tx.budgets.len() >= BUDGETS_MAX {
        return invalid("metadata.name", format!("the cell has {BUDGETS_MAX} budgets already; remove one first"));
    }
    if tx.budgets.get(&budget.name).is_none_or(|known| **known != *budget) {
        tx.budgets.put(budget.clone());
    }
    Ok(Outcome::Done)
}

/// Removes a budget.
pub(crate) fn remove_budget(tx: &mut Tx<'_>, name: &str) -> Result<Outcome, Refusal> {
    if tx.budgets.get(name).is_none() {
        return Err(Refusal::NotFound { kind: "budget".into(), name: name.into() });
    }
    tx.budgets.remove(name);
    Ok(Outcome::Done)
}
