//! Who may be stopped at all, and in which order.

use ohm_cell::{
    Cell, HeldUsage, Job, Overlay, Preemptor, QuotaIf, Stopping, UsageKey, WhatIf, breaks_alone, holders,
    placed_since_ms, promised_victims, usage_key,
};
use std::cmp::Reverse;

/// The jobs that have quota of a queue in which the preemptor may stop some, and that nobody waits for yet.
pub(super) fn open_jobs<'a>(
    (cell, over): (&'a Cell, &Overlay),
    preemptor: &Preemptor<'_>,
    tree: &QuotaIf<'_>,
) -> Vec<&'a Job> {
    let taken = promised_victims(WhatIf { cell, over });
    let queues = cell.quota().iter().filter(|queue| !queue.spec.is_cohort).map(|queue| queue.spec.name.as_str());
    let open = queues.filter(|queue| cell.quota().find(queue).is_some_and(|at| preemptor.may_stop_in(tree, at)));
    let jobs = open.flat_map(|queue| holders(cell, queue).map(AsRef::as_ref));
    jobs.filter(|job: &&Job| !taken.contains(&job.id)).collect()
}

/// The order in which those of one group are stopped: who stops already, then, of the own queue, those whose subqueue
/// has used most, where that orders it, then the least important, then those of whom no disruption budget is broken,
/// then who has its quota for the shortest time.
pub(super) type Order = (bool, Reverse<UsageKey>, i32, bool, Reverse<u64>, String);

/// Where `job` stands among those that may be stopped for one of `queue`.
pub(super) fn order(cell: &Cell, queue: &str, job: &Job) -> Order {
    let is_own = job.spec.queue == queue;
    let key = if is_own { usage_key(cell, queue, &job.spec.subqueue, &HeldUsage::new()) } else { UsageKey::default() };
    let breaks = breaks_alone(cell, Stopping::whole(job));
    (!stops(job), Reverse(key), job.spec.priority, breaks, Reverse(quota_since_ms(cell, job)), job.spec.name.clone())
}

/// Whether all of the job stops already.
fn stops(job: &Job) -> bool {
    job.live() > 0 && job.groups.iter().all(|group| group.live == group.stopping)
}

/// Since when the job has its quota, in stamped time.
fn quota_since_ms(cell: &Cell, job: &Job) -> u64 {
    if let Some(round) = &job.admission.round {
        return round.since_ms;
    }
    placed_since_ms(cell, job).unwrap_or(job.submitted_ms)
}
