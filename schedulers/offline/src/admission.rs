//! What quota has to do with an answer: why a job is kept out, from how far up it borrows, and its flavors.
//!
//! ```text
//! NoMatchingFlavor    no flavor of the queue suits it
//! ExceedsMaxQuota     it asks for more than the queue could ever use
//! WaitingForQuota     the quota could have it, were less used
//! WaitingForVictims   others are told to stop for it, or for another one and leave it enough
//! ```

use crate::settle::Settled;
use ohm_cell::{Cell, Job, Overlay, borrowing_of, flavors_in_use, flavors_of, preemptions};
use ohm_framework::flavors::choices;
use ohm_framework::{Obstacle, View};
use ohm_model::SessionId;
use std::collections::BTreeMap;

/// Why quota keeps `job` out, in Kueue's words; nothing where something else does.
pub(crate) fn code(cell: &Cell, job: &Job, found: &Settled) -> Option<&'static str> {
    if found.awaits_victims || preemptions(cell).get(job.id).is_some() {
        return Some("WaitingForVictims");
    }
    match &found.explanation.as_ref()?.obstacle {
        Obstacle::NoFlavor { .. } => Some("NoMatchingFlavor"),
        Obstacle::Quota { queue, column, asked, .. } => {
            let most = cell.quota().potential(queue, *column).unwrap_or(0);
            Some(if *asked > most { "ExceedsMaxQuota" } else { "WaitingForQuota" })
        }
        _ => None,
    }
}

/// From how far up the queue of a job that stands borrows.
pub(crate) fn borrowing(cell: &Cell, job: &Job) -> Option<u32> {
    (job.live() > 0).then(|| borrowing_of(cell, job)).flatten()
}

/// By group, the flavors that `job` has; where it waits, those that were found for it, be it that others have to stop
/// first.
pub(crate) fn flavors(cell: &Cell, job: &Job) -> Vec<BTreeMap<String, String>> {
    let groups = 0..job.groups.len();
    let waits = job.may_choose_flavors() && preemptions(cell).get(job.id).is_none();
    let gives_flavors = |queue: &ohm_cell::QuotaNode| !queue.spec.resource_groups.is_empty();
    if !waits || !cell.quota().get(&job.spec.queue).is_some_and(gives_flavors) {
        return groups.map(|at| flavors_of(cell, job, at)).collect();
    }
    let over = Overlay::default();
    let view = View::new(cell, &over, SessionId(0));
    let found = choices(&view, job, true).into_iter().next().filter(|choice| choice.mode.is_found());
    let Some(choice) = found else { return groups.map(|_| BTreeMap::new()).collect() };
    let chosen = job.with_flavors(&choice.flavors);
    groups.map(|at| flavors_in_use(cell, chosen.as_ref().unwrap_or(job), at)).collect()
}
