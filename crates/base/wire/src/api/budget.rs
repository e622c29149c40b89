//! Disruption budgets.

use super::is_default;
use serde::{Deserialize, Serialize};

/// Disruption budgets: those with names, by namespace and name, then those that groups have by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetList {
    /// The budgets.
    pub budgets: Vec<BudgetView>,
}

/// A disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetView {
    /// Its name, with the namespace as jobs have it; `JOB:GROUP` where a group has it by itself.
    pub name: String,
    /// The namespace of its tasks.
    pub namespace: String,
    /// How many tasks must be healthy: a number, or a share such as `50%`; empty where the other limit is given.
    #[serde(skip_serializing_if = "is_default")]
    pub min_available: String,
    /// How many may not be, in the same words.
    #[serde(skip_serializing_if = "is_default")]
    pub max_unavailable: String,
    /// When tasks may be stopped that are not healthy: `IfHealthyBudget` or `AlwaysAllow`.
    pub unhealthy_pod_eviction_policy: String,
    /// How many tasks are to run.
    pub expected: u64,
    /// How many of them are healthy.
    pub healthy: u64,
    /// How many must be healthy.
    pub desired: u64,
    /// How many may be stopped now by those who keep the budget.
    pub allowed: u64,
}
