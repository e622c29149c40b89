//! Planted bugs of quotas: less is seen than is left, or queues let their jobs stop more than they say.

use ohm_model::{PreemptionPolicy, QueuePreemption, QueueSpec};
use ohm_stdx::bug::{self, Bug};

/// What planners and the judge are shown of so much that is left.
pub(crate) fn show_left(left: i64) -> i64 {
    if bug::is_planted(Bug::HideQuota) && left > 0 { left / 2 } else { left }
}

/// Whether the quota of a queue is not looked at.
pub(crate) fn overlooks(queue: &QueueSpec) -> bool {
    bug::is_planted(Bug::OverlookFlavorQuota) && !queue.resource_groups.is_empty()
}

/// Whom a queue that says `policy` lets its jobs stop.
pub(crate) fn preemption_policy(policy: QueuePreemption) -> QueuePreemption {
    if !bug::is_planted(Bug::PreemptWithoutRight) {
        return policy;
    }
    let within_cluster_queue = PreemptionPolicy::LowerOrNewerEqualPriority;
    QueuePreemption { within_cluster_queue, reclaim_within_cohort: PreemptionPolicy::Any, ..policy }
}
