//! What must hold of a job's admission: P6 and P8 of the second pass.

use crate::cell::Cell;
use crate::check::timers::is_armed;
use crate::rooms::checks::checks_of;
use crate::state::jobs::{Job, JobState};
use crate::state::offers::{Filters, filters_of};
use crate::state::timers::Timer;

/// A round is open exactly while quota is reserved for it, nothing is placed before it is ready, nothing of it is
/// left when it is over, and who waits for another attempt will be woken.
pub(crate) fn check_admission(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let (name, admission) = (&job.spec.name, &job.admission);
    let is_closed = job.state != JobState::Active;
    if is_closed && !job.reserved.is_empty() {
        broken.push(format!("P8: job {name} is {} and still has quota reserved", job.phase()));
    }
    if admission.round.is_some() && (is_closed || job.reserved.is_empty()) {
        broken.push(format!("P6: job {name} is {} without reservation and its round goes on", job.phase()));
    }
    if admission.round.as_ref().is_some_and(|round| round.admitted && !round.is_ready()) {
        broken.push(format!("P6: job {name} was placed before its checks were ready"));
    }
    let asked: Vec<&String> =
        admission.round.iter().flat_map(|round| &round.checks).map(|check| &check.class).collect();
    if let Some(queue) = cell.quota.get(&job.spec.queue)
        && admission.round.as_ref().is_some_and(|round| !round.admitted)
        && !checks_of(cell, job, &queue.spec).map(|check| &check.name).eq(asked.iter().copied())
    {
        broken.push(format!("P6: job {name} waits for the checks {asked:?}, which are not those of its flavors"));
    }
    let due_ms = admission.back_off_ms;
    let is_due = || is_armed(cell, due_ms, Timer::Admission(job.id, admission.rounds));
    if due_ms > 0 && (is_closed || admission.round.is_some() || !is_due()) {
        broken.push(format!("P10: job {name} is {} and waits for a next round for ever", job.phase()));
    }
    for (at, group) in job.groups.iter().enumerate() {
        let Some(shape) = cell.shapes.get(group.shape) else { continue };
        let Filters { labels, affinity, tolerations } = filters_of(cell, job, at);
        if (&shape.node_selector, &shape.affinity, &shape.tolerations) != (&labels, &affinity, &tolerations) {
            let kept = &shape.node_selector;
            broken.push(format!("P6: job {name} is placed by {kept:?}, its round says {labels:?}"));
        }
    }
}
