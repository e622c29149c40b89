//! NodeResourcesFit: what stays free of each requested resource after one task, in 2^20ths of the cell's largest node.
//!
//! `MostAllocated` wants little, `LeastAllocated` much. kube-scheduler divides by each node's own capacity; here a
//! small node that is filled and a large one that is left alone are told apart.

use crate::table::{BLOCK, WHOLE};
use ohm_model::FitStrategy;

/// How the left-over counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    pub(crate) weight: u32,
    pub(crate) strategy: FitStrategy,
}

impl Fit {
    /// Whether much left over is good, for a group that spreads or packs.
    pub(crate) fn wants_empty(self, spreads: bool) -> bool {
        match self.strategy {
            FitStrategy::ByGroup => spreads,
            FitStrategy::MostAllocated => false,
            FitStrategy::LeastAllocated => true,
        }
    }
}

/// A constant that the left-over of `counted` resources is taken from, so that costs stay above zero.
pub(crate) fn offset(counted: usize) -> i32 {
    (counted.min(256) as i32).saturating_mul(2 * WHOLE)
}

/// Compares a column and adds what is left of it to each score, or takes it from there. Plain passes over 64 integers,
/// which the compiler turns into vector code.
#[inline]
pub(crate) fn compare_and_add(
    column: &[i32; BLOCK],
    least: i32,
    short: &mut [i32; BLOCK],
    scores: &mut [i32; BLOCK],
    add: impl Fn(i32, i32) -> i32,
) {
    for slot in 0..BLOCK {
        let left = column[slot] - least;
        short[slot] |= left;
        scores[slot] = add(scores[slot], left);
    }
}
