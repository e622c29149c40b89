//! Rollouts with every field filled in.

use super::filled::text;
use ohm_wire::api::{GroupRolloutView, RevisionView, RolloutSummary, RolloutView};

/// How far a rollout is.
pub(super) fn summary() -> RolloutSummary {
    RolloutSummary { revision: 1, state: text(), message: text() }
}

/// A rollout.
pub(super) fn rollout() -> RolloutView {
    let group = GroupRolloutView {
        name: text(),
        revision: 1,
        count: 1,
        updated: 1,
        updated_ready: 1,
        updated_available: 1,
        old: 1,
        old_available: 1,
        stopping: 1,
        waiting: 1,
        surge: 1,
    };
    let revision = RevisionView { revision: 1, since_ms: 1, owner: text(), state: text(), changed: vec![text()] };
    RolloutView {
        job: text(),
        summary: summary(),
        reverts: true,
        since_ms: 1,
        deadline_ms: 1,
        groups: vec![group],
        history: vec![revision],
    }
}
