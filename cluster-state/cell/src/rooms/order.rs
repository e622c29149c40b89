//! The order in which the jobs of a queue start: the one place that says who comes before whom.
//!
//! ```text
//! key of the subqueue (queues with `usageBasedOrder`) ─▶ priority ─▶ when it came to the queue ─▶ number of the job
//! ```
//! The key is what the subqueue will have consumed in a while, by the weights of the resources and its own. It is
//! worked out at the stamped time of the cell, so that all copies have the same order after the same entry.

use crate::cell::Cell;
use crate::state::flavors::Charges;
use crate::state::jobs::Job;
use crate::state::requests::{by_resource, charged};
use crate::state::subqueues::{Subqueues, UsageKey};
use crate::state::turns::{Merged, Place, Turn};
use ohm_model::ResourceId;
use ohm_model::resources::whole_unit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is charged to the parts of a queue beside what the cell charges, by the name of the part.
pub type HeldUsage = BTreeMap<String, Charges>;

/// The key of a part of the queue: a subqueue, or without a name the jobs that name the queue itself. All are equal in
/// a queue without `usageBasedOrder`.
pub fn usage_key(cell: &Cell, queue: &str, part: &str, held: &HeldUsage) -> UsageKey {
    let Some(book) = cell.subqueues.book(queue) else { return UsageKey::default() };
    let Some(order) = cell.quota.get(queue).and_then(|queue| queue.spec.usage_based_order.as_deref()) else {
        return UsageKey::default();
    };
    let weight_milli =
        if part.is_empty() { 1000 } else { cell.subqueues.get(part).map_or(1000, |part| part.weight_milli) };
    if weight_milli == 0 {
        return UsageKey::LAST;
    }
    let more = held.get(part).map(|amounts| by_resource(cell, amounts)).unwrap_or_default();
    let counted = book.foreseen(part, cell.now_ms, &more).into_iter().map(|(resource, consumed)| {
        let name = cell.resources.name(resource);
        let (whole, weight) = (whole_unit(name) as u128, u128::from(order.weight_milli(name)));
        (consumed / whole).saturating_mul(weight).saturating_add((consumed % whole).saturating_mul(weight) / whole)
    });
    UsageKey::of(counted.fold(0, u128::saturating_add) / u128::from(weight_milli))
}

/// Whether the jobs of `queue` come in the order of what their subqueues have used.
pub fn is_ordered_by_usage(cell: &Cell, queue: &str) -> bool {
    cell.subqueues.book(queue).is_some()
}

/// Where `job` stands in the order of its queue. Whoever was promised something where usage orders comes first: who
/// stops for it uses less by that, and would come before it.
pub(crate) fn place_of(cell: &Cell, job: &Job, held: &HeldUsage) -> Place {
    let key = match is_served_first(cell, job) {
        true => UsageKey::FIRST,
        false => usage_key(cell, &job.spec.queue, &job.spec.subqueue, held),
    };
    Place { key, turn: Turn::of(job) }
}

/// Whether a job of a queue that orders by usage has others stopped for it, or room kept for a planned start: neither
/// is of use to those of which the subqueue has used less meanwhile.
pub fn is_served_first(cell: &Cell, job: &Job) -> bool {
    let is_promised = || cell.preemptions.get(job.id).is_some() || cell.nominations.is_head(job.id);
    is_ordered_by_usage(cell, &job.spec.queue) && is_promised()
}

/// The jobs of `queue` that wait to start and come from `from` on and before `until`, in order.
pub(crate) fn waiting_between<'a>(
    cell: &'a Cell,
    queue: &str,
    (from, until): (Option<Place>, Option<Place>),
    held: &HeldUsage,
) -> Merged<'a> {
    cell.turns.between(queue, &|part| usage_key(cell, queue, part, held), from, until)
}

/// Subqueues, and what they have used.
pub fn subqueues(cell: &Cell) -> &Subqueues {
    &cell.subqueues
}

/// The jobs of `queue` that wait to start, in order.
pub fn waiting_jobs<'a>(cell: &'a Cell, queue: &str) -> impl Iterator<Item = &'a Arc<Job>> + use<'a> {
    waiting_between(cell, queue, (None, None), &HeldUsage::new()).filter_map(|job| cell.jobs.get(job))
}

/// What a subqueue uses of one resource, and has used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubqueueUsage<'a> {
    /// The resource.
    pub name: &'a str,
    /// What its jobs are charged now.
    pub used: i64,
    /// What it has consumed by now, of which half is forgotten in each half-life; what is used now in a queue without
    /// `usageBasedOrder`.
    pub consumed: i64,
}

/// What a part of the queue uses and has used, by resource: a subqueue, or without a name the jobs that name the queue
/// itself.
pub fn subqueue_usage<'a>(cell: &'a Cell, queue: &str, part: &str) -> Vec<SubqueueUsage<'a>> {
    let usage = match cell.subqueues.book(queue) {
        Some(book) => book.of(part, cell.now_ms),
        None => used_by(cell, queue, part),
    };
    let named = |(resource, used, consumed)| SubqueueUsage { name: cell.resources.name(resource), used, consumed };
    usage.into_iter().map(named).collect()
}

fn used_by(cell: &Cell, queue: &str, part: &str) -> Vec<(ResourceId, i64, i64)> {
    let mut sums = Charges::new();
    let holders = cell.turns.holders(queue).filter_map(|job| cell.jobs.get(job));
    for job in holders.filter(|job| job.spec.subqueue == part) {
        charged(cell, job).into_iter().for_each(|(column, amount)| *sums.entry(column).or_insert(0) += amount);
    }
    by_resource(cell, &sums).into_iter().map(|(resource, used)| (resource, used, used)).collect()
}
