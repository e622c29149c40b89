//! Disruption budgets, in the words of Kubernetes' PodDisruptionBudget.

use super::neighbours::label_selector;
use super::{At, Context, Fields};
use crate::tree::Value;
use ohm_model::budget::UNHEALTHY_EVICTIONS;
use ohm_model::{Budget, BudgetLimit, BudgetTerms, TaskAmount, UnhealthyEviction};

const TERMS_FIELDS: &[&str] = &["minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"];

/// `kind: Budget`.
pub(crate) fn budget(cx: &mut Context, name: String, spec: At<'_>) -> Option<Budget> {
    let fields = Fields::open(cx, spec, &[TERMS_FIELDS, &["selector"]])?;
    let selector = fields.require(cx, "selector", "which tasks it is about, such as `{matchLabels: {app: web}}`");
    let selector = selector.and_then(|at| label_selector(cx, at));
    let terms = terms_of(cx, spec, &fields)?;
    Some(Budget { name, selector: Some(selector?), terms })
}

/// Kubernetes' PodDisruptionBudget. One that gives no limit lets nothing be stopped, and one without a selector is
/// about no task, as there.
pub(crate) fn pod_disruption_budget(cx: &mut Context, name: String, spec: Option<At<'_>>) -> Option<Budget> {
    let none = BudgetTerms { limit: BudgetLimit::MaxUnavailable(TaskAmount::Tasks(0)), unhealthy: Default::default() };
    let Some(spec) = spec else { return Some(Budget { name, selector: None, terms: none }) };
    let fields = Fields::open(cx, spec, &[TERMS_FIELDS, &["selector"]])?;
    let selector = fields.get("selector").and_then(|at| label_selector(cx, at));
    let (limit, unhealthy) = (limit(cx, spec, &fields), unhealthy(cx, &fields));
    let terms = BudgetTerms { limit: limit.unwrap_or(none.limit), unhealthy };
    Some(Budget { name, selector, terms })
}

/// `disruptionBudget` of a group.
pub(crate) fn budget_of_group(cx: &mut Context, at: At<'_>) -> Option<Box<BudgetTerms>> {
    let fields = Fields::open(cx, at, &[TERMS_FIELDS])?;
    terms_of(cx, at, &fields).map(Box::new)
}

fn terms_of(cx: &mut Context, at: At<'_>, fields: &Fields<'_>) -> Option<BudgetTerms> {
    let is_given = fields.get("minAvailable").or_else(|| fields.get("maxUnavailable")).is_some();
    if !is_given {
        at.rule(cx, "needs `minAvailable` or `maxUnavailable`: a number of tasks, or a share such as `50%`");
    }
    let (limit, unhealthy) = (limit(cx, at, fields), unhealthy(cx, fields));
    Some(BudgetTerms { limit: limit?, unhealthy })
}

fn limit(cx: &mut Context, at: At<'_>, fields: &Fields<'_>) -> Option<BudgetLimit> {
    let (min, max) = (fields.get("minAvailable"), fields.get("maxUnavailable"));
    if min.is_some() && max.is_some() {
        at.rule(cx, "give only one of `minAvailable` and `maxUnavailable`");
    }
    let min = min.and_then(|at| amount(cx, at)).map(BudgetLimit::MinAvailable);
    let max = max.and_then(|at| amount(cx, at)).map(BudgetLimit::MaxUnavailable);
    min.or(max)
}

fn unhealthy(cx: &mut Context, fields: &Fields<'_>) -> UnhealthyEviction {
    fields.get("unhealthyPodEvictionPolicy").and_then(|at| at.choice(cx, &UNHEALTHY_EVICTIONS)).unwrap_or_default()
}

/// A number of tasks, or a share of them.
pub(super) fn amount(cx: &mut Context, at: At<'_>) -> Option<TaskAmount> {
    let amount = match &at.node.value {
        Value::Number(text) | Value::Text(text) => TaskAmount::parse(text),
        _ => None,
    };
    if amount.is_none() {
        at.wrong_type(cx, "a number of tasks, or a share of 0% to 100%");
    }
    amount
}
