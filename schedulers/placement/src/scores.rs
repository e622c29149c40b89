//! Scores and their weights, as costs: lower is better. The unit is one resource's whole largest node, so a cost of 1
//! weighs as much as leaving a whole node's worth of every requested resource idle.
//!
//! `bestFit` and `spread` are the two directions of the left-over; which one holds is the group's own wish. All other
//! costs follow from a node's class, so they are worked out once per shape and class and cost a scan one look-up. The
//! default weights of the two that kube-scheduler has (NodeAffinity 2, TaintToleration 3) are kube-scheduler's.

use crate::table::WHOLE;
use ohm_cell::{NodeClass, Shape};
use ohm_model::{SelectorTerm, TaintEffect};

/// The most that all costs of a class may sum up to; left-overs and offsets stay below it, too.
pub(crate) const COST_MAX: i64 = 1 << 29;

/// How much each score counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The left-over after the placement: little is good where the group packs.
    pub best_fit: u32,
    /// The left-over after the placement: much is good where the group spreads.
    pub spread: u32,
    /// Preferred node affinity that the node does not meet.
    pub preferred_affinity: u32,
    /// `PreferNoSchedule` taints the group does not tolerate.
    pub prefer_no_schedule: u32,
    /// A device that would be broken up although no broken one is missing room elsewhere.
    pub device_packing: u32,
    /// A node with devices, for a group that asks for none.
    pub keep_devices: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            best_fit: 1,
            spread: 1,
            preferred_affinity: 2,
            prefer_no_schedule: 3,
            device_packing: 2,
            keep_devices: 4,
        }
    }
}

/// What a shape costs beyond its left-over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    weights: Weights,
    /// How many resources the left-over sums up: costs are multiplied by it instead of dividing the sum by it.
    counted: u32,
    /// The weight of the left-over itself.
    unit: u32,
}

impl Costs {
    pub(crate) fn new(weights: Weights, counted: usize, spreads: bool) -> Self {
        let unit = if spreads { weights.spread } else { weights.best_fit };
        Costs { weights, counted: counted.clamp(1, 16) as u32, unit: unit.max(1) }
    }

    /// `parts` of `of` of `weight`, in the unit of the scan.
    fn of(&self, weight: u32, parts: u64, of: u64) -> i64 {
        let whole = u64::from(weight) * u64::from(self.counted) * WHOLE as u64 / u64::from(self.unit);
        (whole * parts / of.max(1)) as i64
    }

    /// The cost of breaking up a device.
    pub(crate) fn of_breaking(&self) -> i32 {
        self.of(self.weights.device_packing, 1, 1).min(COST_MAX / 4) as i32
    }

    /// The cost of any node of `class` for `shape` with these preferences.
    pub(crate) fn of_class(
        &self,
        shape: &Shape,
        preferred: &[(u32, SelectorTerm)],
        class: &NodeClass,
        has_devices: bool,
    ) -> i32 {
        let mut cost = 0;
        let disliked = |taint: &&ohm_model::Taint| {
            taint.effect == TaintEffect::PreferNoSchedule && !shape.tolerations.iter().any(|t| t.covers(taint))
        };
        let taints = class.taints.iter().filter(disliked).count().min(4) as u64;
        cost += self.of(self.weights.prefer_no_schedule, taints, 1);
        let all: u64 = preferred.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let missed = preferred.iter().filter(|(_, term)| !term.matches(&class.labels));
        let missed: u64 = missed.map(|(weight, _)| u64::from(*weight)).sum();
        cost += self.of(self.weights.preferred_affinity, missed, all);
        if has_devices && shape.devices.is_empty() {
            cost += self.of(self.weights.keep_devices, 1, 1);
        }
        cost.min(COST_MAX) as i32
    }
}
