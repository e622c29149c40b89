//! P7: a repair keeps every healthy placement of the job, moves the fewest tasks, is never charged, and leaves no gang
//! half repaired. A gang is given up only where its minimum stands no more. One cause is one loss: what a node drives
//! away is repaired, or given up, when all of it has ended, and a job is whole again when nothing of it stops any more.
//! Books: how often each task failed by itself, which tasks wait because they lost their node, and which are about to.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, Exit, Index, JobId, JobSpec, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// What was charged, and what is being repaired.
#[derive(Default)]
pub(crate) struct Repairs {
    failures: BTreeMap<(JobId, u16, u32), u32>,
    first_placed_ms: BTreeMap<JobId, u64>,
    /// Tasks that lost their node and have no new place yet, and whether they can be placed at once.
    lost: BTreeMap<JobId, BTreeMap<(u16, u32), bool>>,
    /// Tasks that stop because their node can't hold them, and whether a place is held for each elsewhere.
    driven: BTreeMap<JobId, BTreeMap<(u16, u32), bool>>,
    /// When each job lost something last.
    last_loss_ms: BTreeMap<JobId, u64>,
    /// Jobs that are suspended: what they lose is sought no more, and what they lost begins anew when they go on.
    suspended: BTreeSet<JobId>,
    /// Lost tasks that were placed in the entry at hand.
    mended: BTreeSet<(JobId, u16, u32)>,
    /// Jobs whose repair is given up in the entry at hand.
    given_up: BTreeSet<JobId>,
}

impl Repairs {
    /// An entry begins: what the one before told of counts no more.
    pub(crate) fn entry_begins(&mut self) {
        self.mended.clear();
        self.given_up.clear();
    }

    /// Whether tasks of this group are lost, or were when the entry at hand began.
    pub(crate) fn is_hurt(&self, job: JobId, group: u16) -> bool {
        let lost = self.lost.get(&job).is_some_and(|lost| lost.keys().any(|(of, _)| *of == group));
        lost || self.mended.range((job, group, 0)..=(job, group, u32::MAX)).next().is_some()
    }

    /// Whether the task is lost, or was when the entry at hand began.
    pub(crate) fn was_lost(&self, job: JobId, group: u16, task: u32) -> bool {
        let lost = self.lost.get(&job).is_some_and(|lost| lost.contains_key(&(group, task)));
        lost || self.mended.contains(&(job, group, task))
    }

    /// Whether tasks of this job wait for a place because they lost theirs.
    pub(crate) fn is_waiting(&self, job: JobId) -> bool {
        self.lost.get(&job).is_some_and(|lost| !lost.is_empty())
    }

    /// How many tasks of a group are lost.
    pub(crate) fn lost_of(&self, job: JobId, group: u16) -> u32 {
        self.lost_tasks(job, group).count() as u32
    }

    /// The tasks of a group that are lost.
    pub(crate) fn lost_tasks(&self, job: JobId, group: u16) -> impl Iterator<Item = u32> {
        let lost = self.lost.get(&job).into_iter().flatten();
        lost.filter(move |((of, _), _)| *of == group).map(|((_, task), _)| *task)
    }

    /// When the job lost something last.
    pub(crate) fn last_loss_ms(&self, job: JobId) -> u64 {
        self.last_loss_ms.get(&job).copied().unwrap_or(0)
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let (at_ms, kind) = match *fact {
            Fact::Registered { .. } | Fact::Submitted { .. } => return,
            Fact::Updated { job, spec, .. } => return self.updated(job, spec),
            Fact::Happened { at_ms, kind } => (at_ms, kind),
        };
        match kind {
            EventKind::Placed { job, group, first, count, .. } => {
                self.first_placed_ms.entry(*job).or_insert(at_ms);
                if let Some(lost) = self.lost.get_mut(job) {
                    let placed = (*first..first + count).filter(|task| lost.remove(&(*group, *task)).is_some());
                    self.mended.extend(placed.map(|task| (*job, *group, task)));
                }
            }
            EventKind::Ended { job, group, task, exit, cause, .. } => {
                self.driven.get_mut(job).into_iter().for_each(|driven| _ = driven.remove(&(*group, *task)));
                if self.ended((*job, *group, *task), *exit, *cause) {
                    self.last_loss_ms.insert(*job, at_ms);
                }
                let spec = books.jobs.get(job).and_then(|spec| spec.groups.get(usize::from(*group)));
                if let Some(lost) = self.lost.get_mut(job).filter(|_| spec.is_none_or(|spec| *task >= spec.count)) {
                    lost.remove(&(*group, *task));
                }
                // What starts again in place stands all the while.
                if *cause != Some(StopCause::Restarted) && books.live_of(*job).next().is_none() {
                    self.lost.remove(job);
                }
            }
            EventKind::RepairCommitted { job, .. } => self.judge_repair(index, *job, books, broken),
            EventKind::Repaired { job, name, .. } => {
                if let Some(driven) = self.driven.get(job).filter(|driven| !driven.is_empty()) {
                    let what = format!("entry {index}: {name} is called whole while {} tasks of it stop", driven.len());
                    broken.push(Broken::new("P7", what));
                }
            }
            EventKind::RepairFailed { job, name, .. } => {
                self.given_up.insert(*job);
                if self.awaits(*job) {
                    let what = format!("entry {index}: {name} is given up before all of its loss is there");
                    broken.push(Broken::new("P7", what));
                }
                self.judge_giving_up(index, *job, books, broken);
            }
            EventKind::Stopping { job, cause: StopCause::RepairFailed, .. } if !self.given_up.contains(job) => {
                let name = books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                broken.push(Broken::new("P7", format!("entry {index}: {name} is evicted whole and nobody says why")));
            }
            EventKind::Stopping { job, group, task, cause, .. } if is_driven(*cause) => {
                let has_place = *cause == StopCause::Drained;
                self.driven.entry(*job).or_default().insert((*group, *task), has_place);
            }
            EventKind::Stopping { job, cause: StopCause::GangRestart, .. } => {
                self.judge_restart(index, *job, books, broken);
            }
            EventKind::JobState { job, state, reason, .. } => match state.as_str() {
                "suspended" => {
                    self.suspended.insert(*job);
                    self.lost.remove(job);
                }
                "failed" => self.judge_failure(index, *job, at_ms, reason, books, broken),
                _ => drop(self.suspended.remove(job)),
            },
            _ => {}
        }
    }

    /// What is removed is waited for no more.
    fn updated(&mut self, job: JobId, spec: &JobSpec) {
        let count = |group: u16| spec.groups.get(usize::from(group)).map_or(0, |group| group.count);
        if let Some(lost) = self.lost.get_mut(&job) {
            lost.retain(|(group, task), _| *task < count(*group));
        }
    }

    /// Whether it was lost.
    fn ended(&mut self, (job, group, task): (JobId, u16, u32), exit: Exit, cause: Option<StopCause>) -> bool {
        if self.suspended.contains(&job) {
            return false;
        }
        let mut lost = |at_once| {
            self.lost.entry(job).or_default().insert((group, task), at_once);
            true
        };
        match (exit, cause) {
            (Exit::NodeLost | Exit::Vanished | Exit::NodeShutdown, None)
            | (_, Some(StopCause::NodeShrunk | StopCause::Drained | StopCause::Moved)) => lost(true),
            // It backs off first.
            (Exit::NeverStarted | Exit::LeaseExpired, None) => lost(false),
            // A success is charged to nobody.
            (Exit::Code(0), None) => false,
            (Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory | Exit::OverRequest | Exit::StartFailed, None)
            | (Exit::Unhealthy, None | Some(StopCause::Restarted)) => {
                *self.failures.entry((job, group, task)).or_insert(0) += 1;
                false
            }
            _ => false,
        }
    }

    /// Whether less than the minimum of a group stands or is done; `counts` says whether a stopping task stands.
    fn is_short(&self, job: JobId, at: usize, books: &Books, counts: bool) -> bool {
        let Some(group) = books.jobs.get(&job).and_then(|spec| spec.groups.get(at)) else { return false };
        let standing = books.live(job, at as u16).filter(|(_, task)| counts || !task.stopping).count() as u32;
        let done = books.done(job, at as u16);
        // The last task counts although the minimum is done.
        standing < group.min_count.saturating_sub(done).max(1).min(group.count.saturating_sub(done))
    }

    /// Tasks of a group that stop because their node drives them away, with no place held elsewhere.
    fn driven_of(&self, job: JobId, at: usize) -> impl Iterator<Item = u32> + '_ {
        let of_job = self.driven.get(&job).into_iter().flatten();
        of_job.filter(move |((of, _), has_place)| usize::from(*of) == at && !**has_place).map(|((_, task), _)| *task)
    }

    /// Whether more of a loss is still to come.
    fn awaits(&self, job: JobId) -> bool {
        self.driven.get(&job).is_some_and(|driven| driven.values().any(|has_place| !has_place))
    }

    /// Whether less than the minimum of a group stands or is done when `gone` of what stands are counted out.
    fn is_short_of(&self, job: JobId, at: usize, books: &Books, gone: u32) -> bool {
        let Some(group) = books.jobs.get(&job).and_then(|spec| spec.groups.get(at)) else { return false };
        let standing = (books.live(job, at as u16).count() as u32).saturating_sub(gone);
        let done = books.done(job, at as u16);
        standing < group.min_count.saturating_sub(done).max(1).min(group.count.saturating_sub(done))
    }

    /// A gang below its minimum gets back everything it lost, or nothing.
    fn judge_repair(&self, index: Index, job: JobId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job).filter(|_| !books.is_endless(job)) else { return };
        for (at, group) in spec.groups.iter().enumerate() {
            // What came back with its node was there all the time.
            let mut live = books.live(job, at as u16);
            let came_back = live.any(|(task, _)| books.has_returned(job, at as u16, task));
            let gone = self.driven_of(job, at).count() as u32;
            if gone > 0 && !came_back && self.is_short_of(job, at, books, gone) {
                let what =
                    format!("entry {index}: {}/{} is repaired while {gone} of it still stop", spec.name, group.name);
                broken.push(Broken::new("P7", what));
            }
            let mut lost = self.lost.get(&job).into_iter().flatten();
            let waits = lost.any(|((of, _), at_once)| usize::from(*of) == at && *at_once);
            if waits && self.is_short(job, at, books, true) {
                let what = format!("entry {index}: {}/{} is repaired by half", spec.name, group.name);
                broken.push(Broken::new("P7", what));
            }
        }
    }

    fn judge_giving_up(&self, index: Index, job: JobId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let short = !books.is_endless(job) && (0..spec.groups.len()).any(|at| self.is_short(job, at, books, false));
        if !short || !self.lost.contains_key(&job) {
            let what = format!("entry {index}: {} is given up although its minimum stands", spec.name);
            broken.push(Broken::new("P7", what));
        }
    }

    /// A gang may only be taken down whole when what is left of it is below its minimum.
    fn judge_restart(&self, index: Index, job: JobId, books: &Books, broken: &mut Vec<Broken>) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let lost = self.lost.get(&job);
        let short = spec.groups.iter().enumerate().any(|(at, group)| {
            let gone = lost.map_or(0, |lost| lost.keys().filter(|(of, _)| usize::from(*of) == at).count());
            (group.count as usize).saturating_sub(gone) < group.min_count as usize
        });
        if !short {
            let what = format!("entry {index}: {} is restarted whole although its minimum still stands", spec.name);
            broken.push(Broken::new("P7", what));
        }
    }

    /// A job fails because a task failed by itself too often, or because its time is over, and for nothing else.
    fn judge_failure(
        &self,
        index: Index,
        job: JobId,
        at_ms: u64,
        reason: &str,
        books: &Books,
        broken: &mut Vec<Broken>,
    ) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let mut failures = self.failures.range((job, 0, 0)..=(job, u16::MAX, u32::MAX));
        let too_often = !books.is_endless(job) && failures.any(|(_, failures)| *failures > spec.retries);
        let since_ms = self.first_placed_ms.get(&job).map_or(0, |first_ms| at_ms.saturating_sub(*first_ms));
        let too_long = spec.active_deadline_seconds > 0 && since_ms >= spec.active_deadline_seconds * 1000;
        // Whether its time to start is over is judged apart.
        let too_late = spec.pending_timeout_seconds > 0 && reason.starts_with("StartDeadlineExceeded");
        if !too_often && !too_long && !too_late {
            let what = format!(
                "entry {index}: {} fails ({reason}) although no task failed more than {} times by itself",
                spec.name, spec.retries
            );
            broken.push(Broken::new("P7", what));
        }
    }
}

/// Whether it says that a node can't hold a task any more.
fn is_driven(cause: StopCause) -> bool {
    matches!(cause, StopCause::Moved | StopCause::NodeShrunk | StopCause::Drained)
}
