//! Start deadlines: a job that waits under one has a time, and will be looked at when it is over.

use crate::cell::Cell;
use crate::check::timers::is_armed;
use crate::policy::start_deadlines::waits;
use crate::state::jobs::Job;
use crate::state::timers::Timer;

pub(crate) fn check_start_deadline(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let (name, waits) = (&job.spec.name, waits(job));
    if waits != (job.waiting_since_ms > 0) {
        broken.push(format!("job {name} waits under a start deadline: {waits}, since {}", job.waiting_since_ms));
    }
    let due_ms = job.start_deadline_ms().filter(|_| waits);
    if due_ms.is_some_and(|due_ms| !is_armed(cell, due_ms, Timer::StartDeadline(job.id))) {
        broken.push(format!("job {name} waits beyond its start deadline"));
    }
}
