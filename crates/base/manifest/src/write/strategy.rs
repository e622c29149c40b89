//! The strategy of a service, written.

use super::amount::Amount;
use super::expression::{is_default, other};
use ohm_model::rollout::ROLLOUT_KINDS;
use ohm_model::{RolloutStrategy, TaskAmount};
use serde::Serialize;

/// `strategy`. One that says nothing but defaults is written as an empty map: that it was given is kept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StrategyDocument {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_surge: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_unavailable: Option<Amount>,
    #[serde(skip_serializing_if = "is_default")]
    min_ready_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_deadline_seconds: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    auto_revert: bool,
    #[serde(skip_serializing_if = "is_default")]
    canary: u32,
    #[serde(skip_serializing_if = "is_default")]
    pause: bool,
}

impl From<&RolloutStrategy> for StrategyDocument {
    fn from(strategy: &RolloutStrategy) -> Self {
        let default = RolloutStrategy::default();
        let kind = other(strategy.kind, default.kind);
        let amount = |amount: TaskAmount, default| other(amount, default).map(|amount| amount.to_string().into());
        StrategyDocument {
            kind: kind.and_then(|kind| ROLLOUT_KINDS.iter().find(|(_, known)| *known == kind)).map(|(word, _)| *word),
            max_surge: amount(strategy.max_surge, default.max_surge),
            max_unavailable: amount(strategy.max_unavailable, default.max_unavailable),
            min_ready_seconds: strategy.min_ready_seconds,
            progress_deadline_seconds: other(strategy.progress_deadline_seconds, default.progress_deadline_seconds),
            auto_revert: strategy.auto_revert,
            canary: strategy.canary,
            pause: strategy.pause,
        }
    }
}
