//! Subqueues: what they use, have used, and in which order they come.

use ohm_cell::{Cell, HeldUsage, is_ordered_by_usage, subqueue_usage, usage_key};
use ohm_model::UsageBasedOrder;
use ohm_model::resources::{PODS, display};
use ohm_wire::api::{SubqueueView, UsageBasedOrderView};
use std::collections::BTreeMap;

pub(super) fn usage_based_order(order: &UsageBasedOrder) -> UsageBasedOrderView {
    UsageBasedOrderView {
        half_life_seconds: order.half_life_seconds,
        resource_weights_milli: order.resource_weights.clone(),
    }
}

/// The parts of a queue; none where it has no subqueue.
pub(crate) fn subqueues(cell: &Cell, queue: &str) -> Vec<SubqueueView> {
    let of_queue = ohm_cell::subqueues(cell).iter().filter(|subqueue| subqueue.queue == queue);
    let named: Vec<(&str, u64)> = of_queue.map(|subqueue| (subqueue.name.as_str(), subqueue.weight_milli)).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let mut jobs: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for job in cell.jobs().iter().filter(|job| job.spec.queue == queue) {
        let counts = jobs.entry(job.spec.subqueue.as_str()).or_default();
        match job.phase() {
            "pending" => counts[0] += 1,
            "running" => counts[1] += 1,
            _ => {}
        }
    }
    let parts = std::iter::once(("", 1000)).chain(named);
    parts.map(|part| view(cell, queue, part, jobs.get(part.0).copied().unwrap_or_default())).collect()
}

fn view(cell: &Cell, queue: &str, (name, weight_milli): (&str, u64), [pending, running]: [u64; 2]) -> SubqueueView {
    let usage = subqueue_usage(cell, queue, name);
    let amounts = |of: &dyn Fn(&ohm_cell::SubqueueUsage<'_>) -> i64| {
        let named = usage.iter().filter(|usage| usage.name != PODS);
        named.map(|usage| (usage.name.to_string(), display(usage.name, of(usage)))).collect::<BTreeMap<_, _>>()
    };
    let is_ordered = is_ordered_by_usage(cell, queue);
    let key = is_ordered.then(|| usage_key(cell, queue, name, &HeldUsage::new()).thousandths()).flatten();
    SubqueueView {
        name: name.to_string(),
        weight_milli,
        used: amounts(&|usage| usage.used),
        consumed: if is_ordered { amounts(&|usage| usage.consumed) } else { BTreeMap::new() },
        key_milli: key.map(|key| u64::try_from(key).unwrap_or(u64::MAX)),
        pending,
        running,
    }
}
