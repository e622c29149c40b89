//! Planted bugs of quotas: less is seen than is left.

use ohm_model::QueueSpec;
use ohm_stdx::bug::{self, Bug};

/// What planners and the judge are shown of so much that is left.
pub(crate) fn show_left(left: i64) -> i64 {
    if bug::is_planted(Bug::HideQuota) && left > 0 { left / 2 } else { left }
}

/// Whether the quota of a queue is not looked at.
pub(crate) fn overlooks(queue: &QueueSpec) -> bool {
    bug::is_planted(Bug::OverlookFlavorQuota) && !queue.resource_groups.is_empty()
}
