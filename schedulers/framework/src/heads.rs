//! Who may become the head of its line: jobs that found no room, how long they wait, and who was passed over.

use ohm_cell::{Cell, HeldUsage, Job, is_ordered_by_usage, usage_key};
use ohm_model::{Event, EventKind, Index, JobId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The order in which jobs are due, whichever scheduler plans them: by priority, then by when they came to it. In a
/// queue with `usageBasedOrder` what its subqueues have used goes before that.
type Turn = (Reverse<i32>, Index, JobId);

/// Jobs that found no room: until when none in time is sought for them, in stamped time, and who was passed over since.
/// As long as only what is more important or older is placed, a job waits for its turn and needs no room in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    by_job: BTreeMap<JobId, u64>,
    by_time: BTreeSet<(u64, JobId)>,
    turns: BTreeMap<JobId, Turn>,
    waiting: BTreeSet<Turn>,
    passed: BTreeSet<JobId>,
}

impl Heads {
    /// None is sought for the job before `until_ms`.
    pub(crate) fn put_off(&mut self, job: JobId, until_ms: u64) {
        if let Some(former_ms) = self.by_job.insert(job, until_ms) {
            self.by_time.remove(&(former_ms, job));
        }
        self.by_time.insert((until_ms, job));
    }

    /// Whether none is sought for it yet.
    pub(crate) fn is_put_off(&self, job: JobId, now_ms: u64) -> bool {
        self.by_job.get(&job).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// Takes note that `job` found no room. Returns whether others were placed since that were not due before it.
    pub(crate) fn is_passed(&mut self, job: &Job) -> bool {
        let is_passed = self.passed.contains(&job.id);
        if !is_passed {
            let turn = turn(job);
            if let Some(former) = self.turns.insert(job.id, turn).filter(|former| *former != turn) {
                self.waiting.remove(&former);
            }
            self.waiting.insert(turn);
        }
        is_passed
    }

    /// Takes note of who was placed, by whichever scheduler.
    pub(crate) fn note_placed(&mut self, cell: &Cell, events: &[Event]) {
        if self.waiting.is_empty() {
            return;
        }
        let mut last = None;
        for event in events {
            let EventKind::Placed { job, .. } = &event.kind else { continue };
            if last.replace(*job) != Some(*job)
                && let Some(job) = cell.jobs().get(*job)
            {
                self.pass(cell, job);
            }
        }
    }

    /// Some of `job` was placed.
    fn pass(&mut self, cell: &Cell, placed_job: &Job) {
        let placed = turn(placed_job);
        if is_ordered_by_usage(cell, &placed_job.spec.queue) {
            self.pass_parts(cell, placed_job);
        }
        while let Some(waiting) = self.waiting.first().copied().filter(|waiting| *waiting < placed) {
            self.waiting.remove(&waiting);
            self.turns.remove(&waiting.2);
            self.passed.insert(waiting.2);
        }
    }

    /// Whatever their turns, jobs of parts of its queue that have used less were due before it.
    fn pass_parts(&mut self, cell: &Cell, placed: &Job) {
        let key = |part: &str| usage_key(cell, &placed.spec.queue, part, &HeldUsage::new());
        let own = key(&placed.spec.subqueue);
        let is_due = |waiting: &&Turn| {
            let job = cell.jobs().get(waiting.2).filter(|job| job.spec.queue == placed.spec.queue);
            job.is_some_and(|job| job.spec.subqueue != placed.spec.subqueue && key(&job.spec.subqueue) < own)
        };
        let due: Vec<Turn> = self.waiting.iter().filter(is_due).copied().collect();
        for waiting in due {
            self.waiting.remove(&waiting);
            self.turns.remove(&waiting.2);
            self.passed.insert(waiting.2);
        }
    }

    /// The job waits no more.
    pub(crate) fn forget(&mut self, job: JobId) {
        if let Some(until_ms) = self.by_job.remove(&job) {
            self.by_time.remove(&(until_ms, job));
        }
        if let Some(turn) = self.turns.remove(&job) {
            self.waiting.remove(&turn);
        }
        self.passed.remove(&job);
    }

    /// Who has waited long enough to become the head of a line, or to be looked at again.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<JobId> {
        let later = self.by_time.split_off(&(now_ms.saturating_add(1), JobId(0)));
        let due: Vec<JobId> = std::mem::replace(&mut self.by_time, later).into_iter().map(|(_, job)| job).collect();
        for job in &due {
            self.by_job.remove(job);
        }
        due
    }
}

fn turn(job: &Job) -> Turn {
    (Reverse(job.spec.priority), job.queued, job.id)
}
