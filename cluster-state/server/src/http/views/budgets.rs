//! Disruption budgets.

use ohm_cell::{BudgetState, Cell, budgets};
use ohm_model::budget::UNHEALTHY_EVICTIONS;
use ohm_model::{BudgetEvent, BudgetLimit, split_job_name};
use ohm_wire::api::{BudgetList, BudgetView, EventView};

/// The budgets of one namespace, or of all.
pub(crate) fn budget_list(cell: &Cell, namespace: Option<&str>) -> BudgetList {
    let views = budgets(cell).map(|(_, state)| view(&state));
    let is_asked = |view: &BudgetView| namespace.is_none_or(|namespace| view.namespace == namespace);
    BudgetList { budgets: views.filter(is_asked).collect() }
}

fn view(state: &BudgetState) -> BudgetView {
    let (min_available, max_unavailable) = match state.terms.limit {
        BudgetLimit::MinAvailable(amount) => (amount.to_string(), String::new()),
        BudgetLimit::MaxUnavailable(amount) => (String::new(), amount.to_string()),
    };
    let policy = UNHEALTHY_EVICTIONS.iter().find(|(_, policy)| *policy == state.terms.unhealthy);
    BudgetView {
        name: state.name.clone(),
        namespace: split_job_name(&state.name).0.to_string(),
        min_available,
        max_unavailable,
        unhealthy_pod_eviction_policy: policy.map_or_else(String::new, |(word, _)| word.to_string()),
        expected: state.expected,
        healthy: state.healthy,
        desired: state.desired(),
        allowed: state.allowed(),
    }
}

/// An event about a job that a budget holds.
pub(super) fn of_held(held: &BudgetEvent, view: EventView) -> EventView {
    let BudgetEvent { name, budget, .. } = held;
    EventView {
        kind: "heldByBudget".into(),
        message: format!("job {name} has to leave nodes and waits until budget {budget} lets it"),
        job: name.clone(),
        reason: budget.clone(),
        ..view
    }
}
