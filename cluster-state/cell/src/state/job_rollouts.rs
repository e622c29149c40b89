//! What a rollout means for a job: what its owner asks for, what its runs are made of, and how far it has come.

use crate::state::jobs::{Group, Job, TaskState};
use crate::state::rollouts::Rollout;
use crate::state::runs::Run;
use ohm_model::{GroupSpec, JobSpec, RolloutKind, RolloutStrategy};
use std::sync::Arc;

/// How many tasks of a group are where in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// Live, of the target, and not told to stop.
    pub updated: u32,
    /// Of those: running and ready.
    pub updated_ready: u32,
    /// Of those: ready for `minReadySeconds`.
    pub updated_available: u32,
    /// Live, of another revision, and not told to stop.
    pub old: u32,
    /// Of those: ready for `minReadySeconds`.
    pub old_available: u32,
    /// Told to stop, and still there.
    pub stopping: u32,
    /// Waiting to be placed, in back-off or not.
    pub waiting: u32,
}

impl Job {
    /// What its owner asks for. Its spec says what is wanted now, which is something else while a rollout is open.
    pub fn declared(&self) -> &Arc<JobSpec> {
        self.rollout().map_or(&self.spec, |rollout| &rollout.declared)
    }

    /// How many tasks its owner asks for in group `at`.
    pub fn declared_count(&self, at: usize) -> u32 {
        self.declared().groups.get(at).map_or(0, |group| group.count)
    }

    /// Its rollout, while one is open.
    pub fn rollout(&self) -> Option<&Rollout> {
        self.rollouts.as_ref().and_then(|rollouts| rollouts.open.as_ref())
    }

    /// What a run of group `at` with this revision is made of: how many there are and how they are meant is not told
    /// by it.
    pub fn content(&self, at: usize, revision: u32) -> &GroupSpec {
        let present = &self.spec.groups[at];
        if self.groups[at].revision == revision {
            return present;
        }
        self.rollouts.as_ref().and_then(|rollouts| rollouts.content(at, revision)).unwrap_or(present)
    }

    /// The number of its present revision.
    pub fn revision(&self) -> u32 {
        let last = self.rollouts.as_ref().and_then(|rollouts| rollouts.history.last());
        let of_groups = || self.groups.iter().map(|group| group.revision).max();
        last.map(|revision| revision.number).or_else(of_groups).unwrap_or(1)
    }
}

/// How long a task of the job that is told to stop may run on, whatever it is made of.
pub(crate) fn stops_within_ms(job: &Job) -> u64 {
    let former = job.rollouts.iter().flat_map(|rollouts| &rollouts.history).flat_map(|revision| &revision.spec.groups);
    job.spec.groups.iter().chain(former).map(|group| group.task.stops_within_ms()).max().unwrap_or(0)
}

/// Whether all tasks of the group have to end before one of the next revision is placed: those of one topology are one
/// whole.
pub fn is_recreated(strategy: &RolloutStrategy, spec: &GroupSpec) -> bool {
    strategy.kind == RolloutKind::Recreate || spec.topology.is_asked() || !spec.place_with.is_empty()
}

/// Who has been ready since this stamped time is available at `now_ms`.
pub fn available_before_ms(now_ms: u64, strategy: &RolloutStrategy) -> u64 {
    now_ms.saturating_sub(strategy.min_ready_seconds.saturating_mul(1000))
}

/// Since when a run is ready, in stamped time; nothing while it is not, or is told to stop.
pub fn ready_since_ms(run: &Run) -> Option<u64> {
    let since_ms = run.health.as_ref().map_or(run.started_ms, |health| health.ready_ms);
    (run.is_ready() && run.stop.is_none()).then_some(since_ms)
}

/// Counts the tasks of a group by what they are to a rollout to `target`. `run_of` gives the run in a slot.
pub fn rollout_counts<'a>(
    group: &Group,
    target: u32,
    available_before_ms: u64,
    run_of: impl Fn(u32) -> Option<&'a Run>,
) -> RolloutCounts {
    let mut counts = RolloutCounts::default();
    for task in group.tasks.iter() {
        let Some(run) = run_of(task.run) else {
            let waits = matches!(task.state, TaskState::Pending | TaskState::BackingOff | TaskState::Held);
            counts.waiting += u32::from(waits);
            continue;
        };
        if run.stop.is_some() {
            counts.stopping += 1;
            continue;
        }
        let is_available = ready_since_ms(run).is_some_and(|since_ms| since_ms <= available_before_ms);
        if run.revision == target {
            counts.updated += 1;
            counts.updated_ready += u32::from(run.is_ready());
            counts.updated_available += u32::from(is_available);
        } else {
            counts.old += 1;
            counts.old_available += u32::from(is_available);
        }
    }
    counts
}
