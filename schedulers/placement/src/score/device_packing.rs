//! DevicePacking: a share of a device goes to one that is broken up already; a node where it would break up another one
//! loses the whole weight.

use crate::table::BLOCK;

/// Adds `cost` to each node on which no broken device has `share` left.
pub(crate) fn add(broken: &[i32; BLOCK], share: i32, cost: i32, scores: &mut [i32; BLOCK]) {
    for (score, broken) in scores.iter_mut().zip(broken) {
        *score = score.wrapping_add(if *broken < share { cost } else { 0 });
    }
}
