//! Which tasks are healthy, and how many of them are expected.

use crate::state::jobs::{Job, JobState};
use crate::state::runs::Run;

/// Whether a run counts as healthy: it is ready, and nobody told it to stop.
pub(crate) fn is_healthy(run: &Run) -> bool {
    run.is_ready() && run.stop.is_none()
}

/// How many tasks of group `at` are expected to be healthy: all that are to run by now.
pub(crate) fn expected_of(job: &Job, at: usize) -> u32 {
    let (Some(group), Some(spec)) = (job.groups.get(at), job.declared().groups.get(at)) else { return 0 };
    match job.state {
        JobState::Active => spec.count.saturating_sub(group.succeeded + group.failed + group.skipped),
        JobState::Suspended | JobState::Finished(_) => 0,
    }
}
