//! Disruption budgets as words, and what is shown of them.

use super::Script;
use super::parse::{Words, pair};
use ohm_model::{Budget, BudgetLimit, BudgetTerms, Operator, Requirement, TaskAmount, UnhealthyEviction};
use std::fmt::Write;

impl Words<'_> {
    /// `budget NAME [KEY=VALUE…] min=AMOUNT|max=AMOUNT [unhealthy=always]`
    pub(super) fn budget(&mut self) -> Budget {
        let name = self.need("name").to_string();
        let terms = self.terms(("min", "max")).expect("min=AMOUNT or max=AMOUNT");
        let is = |text: &str| {
            let (key, value) = pair(text);
            Requirement { key, operator: Operator::In, values: vec![value] }
        };
        let mut selector = Vec::new();
        while let Some(word) = self.next() {
            selector.push(is(word));
        }
        Budget { name, selector: Some(selector), terms }
    }

    /// `[budget-min=AMOUNT|budget-max=AMOUNT [unhealthy=always]]` of a group.
    pub(super) fn own_budget(&mut self) -> Option<Box<BudgetTerms>> {
        self.terms(("budget-min", "budget-max")).map(Box::new)
    }

    fn terms(&mut self, (min, max): (&str, &str)) -> Option<BudgetTerms> {
        let amount = |text: &str| match text {
            "101%" => TaskAmount::Percent(101),
            text => TaskAmount::parse(text).expect("an amount"),
        };
        let min = self.option(min).map(|text| BudgetLimit::MinAvailable(amount(text)));
        let limit = min.or_else(|| self.option(max).map(|text| BudgetLimit::MaxUnavailable(amount(text))))?;
        let always = self.option("unhealthy") == Some("always");
        let unhealthy = if always { UnhealthyEviction::AlwaysAllow } else { UnhealthyEviction::IfHealthyBudget };
        Some(BudgetTerms { limit, unhealthy })
    }
}

impl Script {
    pub(super) fn budgets_text(&self) -> String {
        let mut text = "budgets:".to_string();
        for (_, budget) in ohm_cell::budgets(&self.cell) {
            let (healthy, expected) = (budget.healthy, budget.expected);
            let (desired, allowed) = (budget.desired(), budget.allowed());
            let name = &budget.name;
            write!(text, " {name} {healthy} of {expected} healthy, {desired} have to be, {allowed} may go;").unwrap();
        }
        text
    }
}
