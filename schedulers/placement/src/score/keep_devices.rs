//! KeepDevices: a node with devices is left to groups that ask for devices. It loses the whole weight, and once more in
//! so far as its devices are free, in parts of the largest node's: where all nodes have devices, those who ask for none
//! are not to take the processors beside free ones.

use super::costs::{ClassQuestion, Lost};
use crate::table::BLOCK;

/// So many resources count as far as they are free.
pub(crate) const RESOURCES_MAX: usize = 8;
/// Neither what is free nor what it costs is multiplied with so many of its last bits: the product stays small.
const BITS: u32 = 10;

pub(super) fn lost(question: &ClassQuestion<'_>) -> Lost {
    Lost { parts: u64::from(question.has_devices && !question.asks_devices), of: 1 }
}

/// What the free devices of a node cost, by the scaled amount.
pub(crate) fn cost_of(free: i32, cost: i32) -> i32 {
    (free >> BITS) * (cost >> BITS)
}

/// Adds to each node what its free devices cost.
pub(crate) fn add(free: &[i32; BLOCK], cost: i32, scores: &mut [i32; BLOCK]) {
    for (score, free) in scores.iter_mut().zip(free) {
        *score = score.wrapping_add(cost_of(*free, cost));
    }
}
