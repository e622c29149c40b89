//! Who may be stopped at all, and in which order.

use ohm_cell::{Cell, Job, WhatIf, promised_victims};
use std::cmp::Reverse;

/// The jobs that have quota, and that nobody waits for yet.
pub(super) fn open_jobs(what: WhatIf<'_>) -> impl Iterator<Item = &Job> {
    let taken = promised_victims(what);
    let holding = what.cell.jobs().iter().map(AsRef::as_ref).filter(|job| job.live() > 0 || !job.reserved.is_empty());
    holding.filter(move |job| !taken.contains(&job.id))
}

/// The order in which those of one group are stopped: who stops already, then the least important, then who has its
/// quota for the shortest time.
pub(super) type Order = (bool, i32, Reverse<u64>, String);

pub(super) fn order(cell: &Cell, job: &Job) -> Order {
    (!stops(job), job.spec.priority, Reverse(quota_since_ms(cell, job)), job.spec.name.clone())
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
    let tasks = job.groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
    let placed = tasks.filter_map(|task| cell.runs().get(task.run)).map(|run| run.placed_ms).next();
    placed.unwrap_or(job.submitted_ms)
}
