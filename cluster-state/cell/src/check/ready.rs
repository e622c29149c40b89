//! Ready timeouts: a job has a time to be ready by exactly while it is to have one, and is looked at by then; it backs
//! off only where its queue gives such a time.

use crate::cell::Cell;
use crate::check::timers::is_armed;
use crate::policy::ready::{readiness_of, timeout_of};
use crate::state::jobs::{Job, JobState};
use crate::state::timers::Timer;

pub(crate) fn check_readiness(cell: &Cell, job: &Job, broken: &mut Vec<String>) {
    let (name, known) = (&job.spec.name, job.readiness);
    let settled = readiness_of(cell, job);
    if settled != known {
        broken.push(format!("job {name} is known to be {known:?} and is {settled:?}"));
    }
    if known.backs_off() && timeout_of(cell, job).is_none() {
        broken.push(format!("job {name} backs off in a queue without a time to be ready by"));
    }
    let may = job.state == JobState::Active && job.stands() && timeout_of(cell, job).is_some();
    if (known.due_ms > 0) != (may && known.unready_since_ms > 0) {
        broken.push(format!("job {name} is to be ready by {} under {:?}", known.due_ms, timeout_of(cell, job)));
    }
    for due_ms in [known.due_ms, known.until_ms].into_iter().filter(|due_ms| *due_ms > 0) {
        if !is_armed(cell, due_ms, Timer::Ready(job.id)) {
            broken.push(format!("job {name} waits beyond the time at which it is to be ready, or may be placed"));
        }
    }
    if known.backs_off() && (job.stands() || !job.reserved.is_empty()) {
        broken.push(format!("job {name} stands or has quota reserved while it backs off"));
    }
}
