//! How a service gets from one revision to the next, in the words of Kubernetes' Deployment.

use super::budget::amount;
use super::{At, Context, Fields};
use ohm_model::RolloutStrategy;
use ohm_model::rollout::{ROLLOUT_KINDS, ROLLOUT_SECONDS_MAX};

const STRATEGY_FIELDS: &[&str] = &[
    "type",
    "maxSurge",
    "maxUnavailable",
    "minReadySeconds",
    "progressDeadlineSeconds",
    "autoRevert",
    "canary",
    "pause",
];

/// `strategy` of a job.
pub(super) fn strategy(cx: &mut Context, at: At<'_>) -> Option<Box<RolloutStrategy>> {
    let fields = Fields::open(cx, at, &[STRATEGY_FIELDS])?;
    let mut strategy = RolloutStrategy::default();
    if let Some(kind) = fields.get("type").and_then(|at| at.choice(cx, &ROLLOUT_KINDS)) {
        strategy.kind = kind;
    }
    bounds(cx, &fields, &mut strategy);
    times(cx, &fields, &mut strategy);
    strategy.auto_revert = fields.boolean(cx, "autoRevert").unwrap_or(false);
    strategy.canary = fields.whole(cx, "canary", 0..=i64::from(u32::MAX)).unwrap_or(0);
    strategy.pause = fields.boolean(cx, "pause").unwrap_or(false);
    Some(Box::new(strategy))
}

/// Takes over `maxSurge` and `maxUnavailable`, where they are given.
pub(crate) fn bounds(cx: &mut Context, fields: &Fields<'_>, strategy: &mut RolloutStrategy) {
    let bounds = [("maxSurge", &mut strategy.max_surge), ("maxUnavailable", &mut strategy.max_unavailable)];
    for (name, bound) in bounds {
        if let Some(given) = fields.get(name).and_then(|at| amount(cx, at)) {
            *bound = given;
        }
    }
}

/// Takes over `minReadySeconds` and `progressDeadlineSeconds`, where they are given.
pub(crate) fn times(cx: &mut Context, fields: &Fields<'_>, strategy: &mut RolloutStrategy) {
    let deadline = &mut strategy.progress_deadline_seconds;
    for (name, seconds) in [("minReadySeconds", &mut strategy.min_ready_seconds), ("progressDeadlineSeconds", deadline)]
    {
        if let Some(given) = fields.whole(cx, name, 0..=ROLLOUT_SECONDS_MAX as i64) {
            *seconds = given;
        }
    }
}
