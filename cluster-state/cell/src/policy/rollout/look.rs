//! What a rollout sees of one group.

use crate::apply::Tx;
use crate::apply::steps::aims::Aim;
use crate::cell::Cell;
use crate::state::job_rollouts::{RolloutCounts, available_before_ms, is_recreated, ready_since_ms, rollout_counts};
use crate::state::jobs::{Job, TaskState};
use crate::state::rollouts::{GroupRollout, RevisionState, Rollout};
use crate::state::runs::Run;
use ohm_model::{JobId, RolloutStrategy};
use std::sync::Arc;

/// The rollout of a job that is under way.
pub(super) fn open(cell: &Cell, id: JobId) -> Option<&Rollout> {
    cell.jobs.get(id).and_then(|job| job.rollout())
}

/// Changes the rollout of a job, if one is under way.
pub(super) fn change(tx: &mut Tx<'_>, id: JobId, how: impl FnOnce(&mut Rollout)) {
    if let Some(rollout) = tx.job_mut(id).rollouts.as_mut().and_then(|rollouts| rollouts.open.as_mut()) {
        how(rollout);
    }
}

/// A live run of another revision that is not told to stop.
#[derive(Clone, Copy)]
pub(super) struct OldRun {
    pub(super) slot: u32,
    pub(super) task: u32,
    pub(super) revision: u32,
    pub(super) is_available: bool,
}

/// What is seen of one group.
pub(super) struct Look {
    pub(super) job: Arc<Job>,
    pub(super) at: usize,
    pub(super) rollout: Rollout,
    pub(super) strategy: RolloutStrategy,
    pub(super) now_ms: u64,
    pub(super) counts: RolloutCounts,
    /// The live runs of another revision that are not told to stop.
    pub(super) old: Vec<OldRun>,
    /// How many of the tasks within the count that are not over are of the target, and available.
    pub(super) settled: u32,
    /// How far beyond the count tasks stand.
    pub(super) beyond: u32,
}

impl Look {
    pub(super) fn of(cell: &Cell, id: JobId, at: usize) -> Self {
        let job = cell.jobs.get(id).cloned().expect("a job whose rollout is open");
        let rollout = job.rollout().cloned().expect("an open rollout");
        let strategy = rollout.declared.strategy();
        let before_ms = available_before_ms(cell.now_ms, &strategy);
        let (group, target) = (&job.groups[at], rollout.groups[at].target);
        let counts = rollout_counts(group, target, before_ms, |slot| cell.runs.get(slot));
        let (mut old, mut settled, mut beyond) = (Vec::new(), 0, 0);
        let count = rollout.declared.groups[at].count;
        for (index, task) in group.tasks.iter().enumerate() {
            let Some(run) = cell.runs.get(task.run).filter(|run| run.stop.is_none()) else { continue };
            let available = is_available(run, before_ms);
            beyond = (index as u32 + 1).saturating_sub(count);
            if run.revision != target {
                let (slot, task, revision) = (task.run, index as u32, run.revision);
                old.push(OldRun { slot, task, revision, is_available: available });
            } else if available && (index as u32) < count {
                settled += 1;
            }
        }
        Look { at, rollout, strategy, now_ms: cell.now_ms, counts, old, settled, beyond, job }
    }

    pub(super) fn group(&self) -> &GroupRollout {
        &self.rollout.groups[self.at]
    }

    pub(super) fn declared_count(&self) -> u32 {
        self.rollout.declared.groups[self.at].count
    }

    /// How many tasks of the count are not over.
    pub(super) fn wanted(&self) -> u32 {
        let group = &self.job.groups[self.at];
        self.declared_count().saturating_sub(group.succeeded + group.failed + group.skipped)
    }

    pub(super) fn is_recreated(&self) -> bool {
        let (now, then) = (&self.job.spec.groups[self.at], &self.rollout.declared.groups[self.at]);
        is_recreated(&self.strategy, now) || is_recreated(&self.strategy, then)
    }

    /// Whether something of another revision stands, stops, or is to be placed again.
    pub(super) fn has_old(&self) -> bool {
        !self.old.is_empty() || !self.group().restore.is_empty()
    }

    pub(super) fn available(&self) -> u32 {
        self.counts.old_available + self.counts.updated_available
    }

    /// How many must be available.
    pub(super) fn available_min(&self) -> u32 {
        self.wanted().saturating_sub(self.strategy.bounds(self.declared_count()).1)
    }

    /// How many tasks there are to be.
    pub(super) fn count(&self) -> u32 {
        let (count, beyond) = (self.declared_count(), self.beyond);
        let more = if self.is_recreated() {
            0
        } else if !self.rollout.promoted {
            if self.has_old() { beyond.max(self.canaries()) } else { beyond }
        } else if self.settled >= self.wanted() {
            0
        } else if self.strategy.pause {
            beyond
        } else {
            let left = self.old.iter().filter(|old| old.task < count).count() as u32;
            let left = left + self.group().restore.keys().filter(|task| **task < count).count() as u32;
            beyond.max(self.strategy.bounds(count).0.min(left))
        };
        count.saturating_add(more)
    }

    /// Which revision is placed, and how many tasks there are to be. Also whether nothing of the target is placed yet.
    pub(super) fn aim(&self) -> (Aim, bool) {
        let (group, target, count) = (&self.job.groups[self.at], self.group().target, self.count());
        let state = |task: &u32| group.tasks.get(*task as usize).map(|task| task.state);
        let waits = |task: &u32| matches!(state(task), Some(TaskState::Pending | TaskState::Held));
        let restored = self.group().restore.iter().find(|(task, _)| waits(task)).map(|(_, former)| former.revision);
        let standing = group.revision;
        if self.is_recreated() && group.live > 0 && self.counts.updated == 0 {
            let former = if standing == target { None } else { Some(standing) };
            return (Aim { revision: restored.or(former).unwrap_or(target), count }, former.is_some());
        }
        let is_of_target = |task: u32| !self.group().restore.contains_key(&task);
        let more = count > self.job.spec.groups[self.at].count;
        let target_waits = more || (0..group.tasks.len() as u32).any(|task| waits(&task) && is_of_target(task));
        let idle = || self.idle_revision().filter(|_| !self.rollout.is_moving(&self.strategy));
        let revision = match restored {
            Some(revision) => revision,
            None if target_waits => target,
            None => idle().unwrap_or(target),
        };
        (Aim { revision, count }, false)
    }

    /// The former revision that is placed where nothing is replaced: that of what stands, else of what waits.
    pub(super) fn idle_revision(&self) -> Option<u32> {
        let waiting = self.group().restore.values().map(|former| former.revision).next();
        self.old.first().map(|old| old.revision).or(waiting)
    }

    /// Whether all of the group is of the target, and available where that is new.
    pub(super) fn is_done(&self) -> bool {
        let is_sized = self.job.spec.groups[self.at].count == self.declared_count();
        !self.has_old() && is_sized && (self.settled >= self.wanted() || self.is_untouched())
    }

    /// Whether the group was made of the same before, and complete.
    pub(super) fn is_untouched(&self) -> bool {
        let history = self.job.rollouts.iter().flat_map(|rollouts| rollouts.history.iter().rev().skip(1));
        let former = history.map(|revision| Some((*revision.groups.get(self.at)?, revision.state))).next().flatten();
        former == Some((self.group().target, RevisionState::Complete))
    }

    /// No more than there are others, and none where nothing of two revisions stands side by side.
    pub(super) fn canaries(&self) -> u32 {
        if self.is_recreated() { 0 } else { self.strategy.canary.min(self.declared_count()) }
    }

    /// Whether more might be replaced, and budgets keep it.
    pub(super) fn is_held_by_budget(&self) -> bool {
        let is_moving = self.rollout.is_moving(&self.strategy) && !self.is_recreated();
        is_moving && self.counts.old_available > 0 && self.available() > self.available_min()
    }

    pub(super) fn canaries_stand(&self) -> bool {
        !self.has_old() || self.counts.updated_available >= self.canaries()
    }
}

fn is_available(run: &Run, before_ms: u64) -> bool {
    ready_since_ms(run).is_some_and(|since_ms| since_ms <= before_ms)
}
