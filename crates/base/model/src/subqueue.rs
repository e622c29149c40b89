//! Subqueues: parts of a queue between which what was used over time decides who comes first (Kueue's LocalQueue and
//! its admission fair sharing).

use crate::resources::PODS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most subqueues of a cell.
pub const SUBQUEUES_MAX: usize = 10_000;
/// Largest weight of a subqueue, and of a resource in [`UsageBasedOrder`], in thousandths.
pub const WEIGHT_MILLI_MAX: u64 = 1_000_000_000 * 1000;
/// Most resources that are given a weight.
pub const RESOURCE_WEIGHTS_MAX: usize = 64;

/// A part of a queue that jobs name in its stead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subqueue {
    /// Unique in the cell among queues, cohorts and subqueues.
    pub name: String,
    /// The queue whose jobs its jobs are.
    pub queue: String,
    /// Its share of the queue beside others, in thousandths; one of weight 0 comes last.
    pub weight_milli: u64,
}

/// Among the jobs of a queue those come first whose subqueue has used least of late, for its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageBasedOrder {
    /// After so long what was used counts half; 0 is: what is used now counts alone.
    pub half_life_seconds: u64,
    /// How much one whole unit of a resource counts, in thousandths.
    pub resource_weights: BTreeMap<String, u64>,
}

impl UsageBasedOrder {
    /// What one whole unit (see [`crate::resources::whole_unit`]) of a resource counts, in thousandths: 1 unless said,
    /// of `pods` nothing, since every task has one.
    pub fn weight_milli(&self, resource: &str) -> u64 {
        let known = self.resource_weights.get(resource).copied();
        known.unwrap_or(if resource == PODS { 0 } else { 1000 })
    }

    /// The first weight that is larger than it may be, by its resource.
    pub fn excessive(&self) -> Option<&str> {
        let mut weights = self.resource_weights.iter();
        weights.find(|(_, weight)| **weight > WEIGHT_MILLI_MAX).map(|(resource, _)| resource.as_str())
    }
}
