//! How a Deployment or a StatefulSet gets from one revision to the next, as the strategy of a service.
//!
//! `revisionHistoryLimit` is not looked at: every service keeps its last ten revisions. A share of a StatefulSet's
//! `maxUnavailable` is rounded down, as that of a Deployment; Kubernetes rounds it up.

use crate::decode::{At, Context, Fields, bounds, times};
use ohm_model::rollout::ROLLOUT_KINDS;
use ohm_model::{RolloutKind, RolloutStrategy, TaskAmount};

/// A Deployment's. One that says nothing has the same defaults as a service.
pub(super) fn of_deployment(cx: &mut Context, spec: &Fields<'_>) -> Option<Box<RolloutStrategy>> {
    let is_given = ["strategy", "minReadySeconds", "progressDeadlineSeconds", "paused"]
        .into_iter()
        .any(|name| spec.get(name).is_some());
    let mut strategy = RolloutStrategy::default();
    times(cx, spec, &mut strategy);
    strategy.pause = spec.boolean(cx, "paused").unwrap_or(false);
    if let Some(at) = spec.get("strategy")
        && let Some(fields) = Fields::open(cx, at, &[])
    {
        strategy.kind = fields.get("type").and_then(|at| at.choice(cx, &ROLLOUT_KINDS)).unwrap_or_default();
        rolling(cx, &fields, &mut strategy);
        report(cx, spec, at, &strategy);
    } else if let Some(at) = spec.get("progressDeadlineSeconds").or_else(|| spec.get("minReadySeconds")) {
        report(cx, spec, at, &strategy);
    }
    is_given.then(|| Box::new(strategy))
}

/// A StatefulSet's: one at a time from the highest ordinal down, and no pod beside the others. It has no deadline.
pub(super) fn of_stateful_set(cx: &mut Context, spec: &Fields<'_>) -> Option<Box<RolloutStrategy>> {
    let mut strategy = RolloutStrategy {
        max_surge: TaskAmount::Tasks(0),
        max_unavailable: TaskAmount::Tasks(1),
        progress_deadline_seconds: 0,
        ..RolloutStrategy::default()
    };
    times(cx, spec, &mut strategy);
    if let Some(at) = spec.get("updateStrategy")
        && let Some(fields) = Fields::open(cx, at, &[])
    {
        if let Some(at) = fields.get("type")
            && at.choice(cx, &[("RollingUpdate", true), ("OnDelete", false)]) == Some(false)
        {
            at.rule(cx, "`OnDelete` replaces what somebody deletes; only `RollingUpdate`, the default, can be had");
        }
        rolling(cx, &fields, &mut strategy);
        report(cx, spec, at, &strategy);
    }
    Some(Box::new(strategy))
}

/// What `rollingUpdate` says.
fn rolling(cx: &mut Context, fields: &Fields<'_>, strategy: &mut RolloutStrategy) {
    let Some(at) = fields.get("rollingUpdate") else { return };
    if strategy.kind == RolloutKind::Recreate {
        return at.rule(cx, "is given with `type: RollingUpdate` only");
    }
    let Some(rolling) = Fields::open(cx, at, &[]) else { return };
    // A Deployment has none: it is no field of its API.
    if let Some(at) = rolling.get("partition")
        && at.whole::<u32>(cx, 0..=i64::from(u32::MAX)).is_some_and(|partition| partition > 0)
    {
        at.rule(cx, "above 0 leaves ranks below it as they are; only `0`, the default, can be had: leave it out");
    }
    bounds(cx, &rolling, strategy);
}

/// Reports what is wrong with the strategy: at the field where it is there, else at `at`.
fn report(cx: &mut Context, spec: &Fields<'_>, at: At<'_>, strategy: &RolloutStrategy) {
    let Some((field, problem)) = strategy.problem() else { return };
    let is_of_spec = matches!(field, "minReadySeconds" | "progressDeadlineSeconds");
    match spec.get(field).filter(|_| is_of_spec) {
        Some(at) => at.rule(cx, problem),
        None => at.rule(cx, format!("`{field}` {problem}")),
    }
}
