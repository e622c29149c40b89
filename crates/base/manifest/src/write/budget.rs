//! The disruption budget of a group, written.

use super::amount::Amount;
use ohm_model::budget::UNHEALTHY_EVICTIONS;
use ohm_model::{BudgetLimit, BudgetTerms, UnhealthyEviction};
use serde::Serialize;

/// `disruptionBudget`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_available: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_unavailable: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unhealthy_pod_eviction_policy: Option<&'static str>,
}

impl From<&BudgetTerms> for BudgetDocument {
    fn from(terms: &BudgetTerms) -> Self {
        let (min, max) = match terms.limit {
            BudgetLimit::MinAvailable(amount) => (Some(amount), None),
            BudgetLimit::MaxUnavailable(amount) => (None, Some(amount)),
        };
        let word = UNHEALTHY_EVICTIONS.iter().find(|(_, policy)| *policy == terms.unhealthy);
        BudgetDocument {
            min_available: min.map(|amount| amount.to_string().into()),
            max_unavailable: max.map(|amount| amount.to_string().into()),
            unhealthy_pod_eviction_policy: word
                .filter(|_| terms.unhealthy != UnhealthyEviction::default())
                .map(|(word, _)| *word),
        }
    }
}
