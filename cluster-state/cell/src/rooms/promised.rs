//! What a job leaves of its quota to those for whom others were stopped: as much less as would be left to it once those
//! stand and their victims have ended. It is never more for that: what victims still have is theirs until they end. Who
//! finds all its quota free before they do need not wait for them, so what still stops for it counts for nobody.

use crate::cell::Cell;
use crate::rooms::ceded::Sums;
use crate::rooms::grid::Grid;
use crate::rooms::quota_if::{kept_of, promise_all};
use crate::state::flavors::Charges;
use crate::state::jobs::Job;
use crate::state::preemptions::Preemption;
use crate::state::quota::QueueId;
use ohm_model::{FlavorResource, PreemptionNeed};
use ohm_stdx::bug::{self, Bug};
use std::collections::BTreeSet;

/// What `job`, which is charged to `queue`, leaves of the quota that `over` leaves. Where nobody waits for others to
/// stop it costs one look.
pub(super) fn promised_to_others((cell, over): (&Cell, &Grid), job: &Job, queue: Option<QueueId>) -> Sums {
    let (Some(queue), false) = (queue, cell.preemptions.is_empty()) else { return Sums::new() };
    if bug::is_planted(Bug::ForgetPromisedQuota) {
        return Sums::new();
    }
    let mut promised = over.clone();
    promise_all(cell, job, &mut promised, (|_: &Job| false, is_free((cell, over))));
    let kept = cell
        .preemptions
        .iter()
        .filter_map(|(waiting, preemption)| Some(kept_of(cell, cell.jobs.get(waiting)?, preemption).into_keys()));
    let columns: BTreeSet<FlavorResource> = kept.flatten().collect();
    let left = |column: FlavorResource, over: &Grid| cell.quota.available_over(queue, column, over);
    let less = |column: FlavorResource| {
        let less = left(column, over)?.saturating_sub(left(column, &promised)?);
        (less > 0).then_some((column, less))
    };
    columns.into_iter().filter_map(less).collect()
}

/// Whether a job for whose quota others stop has all that it needs without them, by what `over` leaves.
fn is_free<'a>((cell, over): (&'a Cell, &'a Grid)) -> impl Fn(&Job, &Preemption, &Charges) -> bool + 'a {
    move |job, preemption, kept| {
        let Some(queue) = cell.quota.find(&job.spec.queue) else { return false };
        let fits = |column, amount| cell.quota.available_over(queue, column, over).is_none_or(|left| left >= amount);
        preemption.need == PreemptionNeed::Quota && kept.iter().all(|(column, amount)| fits(*column, *amount))
    }
}
