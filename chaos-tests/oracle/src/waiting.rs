//! Who waits, and since what: which jobs are open, which of their groups have started and with what, and which tasks
//! wait because they failed. From the log alone; a back-off may be taken to be longer than it is, never shorter.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use ohm_model::{Command, EventKind, Exit, JobId, Outcome, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// A task that failed waits 1, 2, 4 … s, and never longer than this.
const BACK_OFF_MS_MAX: u64 = 300_000;
/// So much later than it was told a job may be placed again that was not ready in time: times are rounded up, and
/// looked at when an entry comes.
const READY_LATE_MS: u64 = 2_000;

/// What is known of one job.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// It is neither over nor suspended.
    is_active: bool,
    /// How much has happened to it: while this stays the same, nothing was tried for it.
    pub(crate) changes: u64,
    /// Until when another attempt at its admission waits.
    pub(crate) admission_ms: u64,
    /// Until when it waits because it was not ready in time.
    ready_ms: u64,
    /// By name.
    groups: BTreeMap<String, GroupWait>,
}

/// What is known of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupWait {
    /// It has started and has not ended since.
    pub(crate) has_started: bool,
    /// How many tasks it has had since then.
    count: u32,
    /// It was given another size since then: what it left out waits, too.
    is_resized: bool,
    /// The tasks that were placed since then.
    placed: BTreeSet<u32>,
    /// How often each task has failed, and until when it waits for that at most.
    failures: BTreeMap<u32, (u32, u64)>,
}

impl GroupWait {
    fn end(&mut self) {
        (self.has_started, self.is_resized) = (false, false);
        self.placed.clear();
    }

    /// The tasks that it asks for, when it left out what did not fit at its start.
    pub(crate) fn chosen(&self) -> Option<&BTreeSet<u32>> {
        (self.has_started && !self.is_resized).then_some(&self.placed)
    }

    /// The tasks that were placed since then.
    pub(crate) fn placed(&self) -> &BTreeSet<u32> {
        &self.placed
    }

    /// Whether the task has ever failed: when its group started without it, it may have waited for that, and comes yet.
    pub(crate) fn has_failed(&self, task: u32) -> bool {
        self.failures.contains_key(&task)
    }

    /// The tasks that may wait because they failed.
    pub(crate) fn backing_off(&self, now_ms: u64) -> impl Iterator<Item = u32> + '_ {
        self.failures.iter().filter(move |(_, (_, until_ms))| *until_ms > now_ms).map(|(task, _)| *task)
    }
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) now_ms: u64,
    jobs: BTreeMap<JobId, Wait>,
    provisioning_classes: BTreeSet<String>,
    /// How many tasks of a group of a service may leave a node at once, by the node's name.
    paces: BTreeMap<String, u32>,
}

impl Waiting {
    /// Takes note of the commands of an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, stamp_ms: u64, taken: &[Taken<'_>]) {
        self.now_ms = self.now_ms.max(stamp_ms);
        for (command, outcome) in taken.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Refused(_))) {
            match (command, outcome) {
                (Command::DrainNode { name, at_once, .. }, _) => drop(self.paces.insert(name.clone(), *at_once)),
                (Command::PutProvisioningClass(class), Outcome::Done) => {
                    self.provisioning_classes.insert(class.name.clone());
                }
                (Command::RemoveProvisioningClass { name }, Outcome::Done) => {
                    self.provisioning_classes.remove(name);
                }
                _ => {}
            }
        }
    }

    /// Takes note of one fact; `books` knows of it already.
    pub(crate) fn note(&mut self, fact: &Fact<'_>, books: &Books) {
        match *fact {
            Fact::Registered { .. } => {}
            Fact::Submitted { job, spec, .. } => {
                self.jobs.insert(job, Wait { is_active: !spec.suspended, ..Wait::default() });
            }
            Fact::Updated { job, spec, .. } => {
                let stands = (0..spec.groups.len() as u16).any(|group| books.live(job, group).next().is_some());
                let wait = self.jobs.entry(job).or_default();
                wait.changes += 1;
                for (name, state) in &mut wait.groups {
                    let size = spec.groups.iter().find(|group| group.name == *name).map_or(0, |group| group.count);
                    state.is_resized |= state.has_started && state.count != size;
                    state.count = size;
                    if !stands {
                        state.end();
                    }
                }
            }
            Fact::Happened { at_ms, kind } => self.note_event(at_ms, kind, books),
        }
    }

    fn note_event(&mut self, at_ms: u64, kind: &EventKind, books: &Books) {
        match kind {
            EventKind::JobState { job, state, .. } => {
                let wait = self.jobs.entry(*job).or_default();
                wait.changes += 1;
                let was_active =
                    std::mem::replace(&mut wait.is_active, matches!(state.as_str(), "pending" | "running"));
                if wait.is_active && !was_active {
                    wait.ready_ms = 0;
                }
            }
            EventKind::CheckChanged { job, wait_ms, .. } => {
                let wait = self.jobs.entry(*job).or_default();
                wait.changes += 1;
                wait.admission_ms = wait.admission_ms.max(at_ms + wait_ms);
            }
            EventKind::ReadyTimeout(late) => {
                let wait = self.jobs.entry(late.job).or_default();
                (wait.changes, wait.ready_ms) = (wait.changes + 1, late.until_ms);
            }
            EventKind::QueueStop(stop) => self.jobs.entry(stop.job).or_default().changes += 1,
            EventKind::Placed { job, group, first, count, .. } => {
                let spec = books.jobs.get(job).and_then(|spec| spec.groups.get(usize::from(*group)));
                let Some(spec) = spec else { return };
                let wait = self.jobs.entry(*job).or_default();
                wait.changes += 1;
                let state = wait.groups.entry(spec.name.clone()).or_default();
                if !state.has_started {
                    (state.has_started, state.count) = (true, spec.count);
                }
                state.placed.extend(*first..first + count);
            }
            EventKind::Ended { job, group, task, exit, cause, .. } => {
                // By a probe it may have ended to start again in place.
                let by_probe = *exit == Exit::Unhealthy && *cause == Some(StopCause::Restarted);
                let is_own = (cause.is_none() || by_probe) && exit.is_charged();
                let by_itself = is_own && (books.is_endless(*job) || !exit.is_success());
                let refused = cause.is_none() && matches!(exit, Exit::NeverStarted | Exit::LeaseExpired);
                let failed = by_itself || refused;
                self.ended((*job, *group, *task), failed, at_ms, books);
                // What starts again in place never was away.
                if *cause != Some(StopCause::Restarted) {
                    self.settle_down(*job, books);
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, (job, group, task): (JobId, u16, u32), failed: bool, at_ms: u64, books: &Books) {
        let Some(spec) = books.jobs.get(&job).and_then(|spec| spec.groups.get(usize::from(group))) else { return };
        let wait = self.jobs.entry(job).or_default();
        wait.changes += 1;
        if failed {
            let state = wait.groups.entry(spec.name.clone()).or_default();
            let (times, until_ms) = state.failures.entry(task).or_default();
            *until_ms = at_ms + (1_000u64 << (*times).min(20)).min(BACK_OFF_MS_MAX);
            *times += 1;
        }
    }

    /// A job that holds nothing any more starts again as it did the first time; so does a group of a service.
    fn settle_down(&mut self, job: JobId, books: &Books) {
        let (Some(spec), Some(wait)) = (books.jobs.get(&job), self.jobs.get_mut(&job)) else { return };
        let stands: Vec<bool> =
            (0..spec.groups.len() as u16).map(|group| books.live(job, group).next().is_some()).collect();
        if !books.is_endless(job) && stands.contains(&true) {
            return;
        }
        for (group, _) in spec.groups.iter().zip(stands).filter(|(_, stands)| !stands) {
            wait.groups.get_mut(&group.name).into_iter().for_each(GroupWait::end);
        }
    }

    /// Jobs that are neither over nor suspended.
    pub(crate) fn active(&self) -> impl Iterator<Item = (JobId, &Wait)> {
        self.jobs.iter().filter(|(_, wait)| wait.is_active).map(|(job, wait)| (*job, wait))
    }

    /// Whether the job is neither over nor suspended.
    pub(crate) fn is_active(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|wait| wait.is_active)
    }

    /// Whether the job may wait because it was not ready in time: a moment longer than it was told.
    pub(crate) fn is_timed_out(&self, job: JobId) -> bool {
        let until_ms = self.jobs.get(&job).map_or(0, |wait| wait.ready_ms);
        until_ms > 0 && self.now_ms < until_ms.saturating_add(READY_LATE_MS)
    }

    /// What is known of a group of the job that was placed or failed.
    pub(crate) fn group(&self, job: JobId, name: &str) -> Option<&GroupWait> {
        self.jobs.get(&job)?.groups.get(name)
    }

    /// What is known of the groups of the job that were placed or failed.
    pub(crate) fn groups_of(&self, job: JobId) -> impl Iterator<Item = &GroupWait> {
        self.jobs.get(&job).into_iter().flat_map(|wait| wait.groups.values())
    }

    /// Whether nothing has happened to the job since it was submitted.
    pub(crate) fn is_untouched(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|wait| wait.changes == 0)
    }

    /// Whether there is a provisioning class of this name.
    pub(crate) fn knows_class(&self, name: &str) -> bool {
        self.provisioning_classes.contains(name)
    }

    /// How many tasks of a group of a service may leave the node of this name at once.
    pub(crate) fn pace(&self, node: &str) -> u32 {
        self.paces.get(node).copied().unwrap_or(1).max(1)
    }
}

impl Wait {
    /// What is known of the group of this name.
    pub(crate) fn group(&self, name: &str) -> Option<&GroupWait> {
        self.groups.get(name)
    }
}
