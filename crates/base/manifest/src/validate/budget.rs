//! Rules for disruption budgets.

use super::findings::{Findings, Violation, spec};
use super::group::task_selector;
use ohm_model::Budget;

/// Rules for disruption budgets.
pub(crate) fn budget(budget: &Budget) -> Vec<Violation> {
    let mut findings = Findings::new();
    findings.spelling(budget);
    task_selector(&mut findings, budget.selector.as_deref().unwrap_or_default(), &|| spec().field("selector"));
    if let Some((name, problem)) = budget.terms.problem() {
        findings.check(Err(problem), || spec().field(name));
    }
    findings.violations
}
