//! NodeResourcesBalancedAllocation: whether the task makes the use of a node's resources more even.

use super::fixed::{self, ONE};
use super::ground::{Ground, Place};
use super::normal::SCORE_MAX;
use ohm_model::resources::is_extended;

pub(super) fn score(ground: &Ground<'_>) -> Option<Vec<i64>> {
    let resources = &ground.plugins.balanced.resources;
    if resources.iter().all(|name| ground.own.request(name) == 0) {
        return None;
    }
    let of_node = |place: &Place<'_>| {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for name in resources {
            let (asked, capacity) = (ground.own.request(name), place.capacity(name));
            if capacity <= 0 || (asked == 0 && is_extended(name)) {
                continue;
            }
            let used = ground.requested(place, name);
            before.push(fixed::ratio(used.min(capacity), capacity));
            after.push(fixed::ratio(used.saturating_add(asked).min(capacity), capacity));
        }
        // Half of it says that nothing changes: the other half is for what becomes more even.
        SCORE_MAX / 2 + (SCORE_MAX / 2 + evenness(&after) - evenness(&before)) / 2
    };
    Some(ground.fitting().map(of_node).collect())
}

/// 100 where all shares are equal.
fn evenness(shares: &[i128]) -> i64 {
    fixed::truncated(i128::from(SCORE_MAX) * (ONE - fixed::deviation(shares)))
}
