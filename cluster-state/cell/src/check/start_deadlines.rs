//! Start deadlines: a job that waits under one has a time, and will be looked at when it is over.

use crate::cell::Cell;
use crate::policy::start_deadlines::waits;
use crate::state::jobs::Job;
use crate::state::timers::Timer;

/// The coarsest grid of time-outs.
const GRID_MS: u64 = 65_536;

pub(crate) fn check_start_deadline(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let (name, waits) = (&job.spec.name, waits(job));
    if waits != (job.waiting_since_ms > 0) {
        broken.push(format!("job {name} waits under a start deadline: {waits}, since {}", job.waiting_since_ms));
    }
    let due_ms = job.start_deadline_ms().filter(|_| waits);
    let is_armed = |due_ms: u64| {
        let mut due = cell.timers.range(due_ms..=due_ms.saturating_add(GRID_MS));
        due.any(|(_, timers)| timers.contains(&Timer::StartDeadline(job.id)))
    };
    if due_ms.is_some_and(|due_ms| !is_armed(due_ms)) {
        broken.push(format!("job {name} waits beyond its start deadline"));
    }
}
