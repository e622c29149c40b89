//! P7: a rollout never takes a service below what its owner lets be unavailable, nor above what it lets be beyond its
//! count; what was lost comes back as it was; nothing is replaced while it is paused, or before somebody promoted it.
//! Books: which tasks are ready since when, by the events of their runs, and the revision that each was placed as.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use crate::wanted::Wanted;
use ohm_model::{EventKind, Index, JobId, JobSpec, RolloutEvent, RolloutKind, RolloutStep, StopCause};
use std::collections::{BTreeMap, BTreeSet};

type TaskKey = (JobId, u16, u32);

/// A run that stands.
#[derive(Clone, Copy, Debug)]
struct Stand {
    revision: u32,
    gates: bool,
    ready_ms: Option<u64>,
    stops: bool,
}

/// All rollouts.
#[derive(Debug, Default)]
pub(crate) struct RolloutBooks {
    runs: BTreeMap<TaskKey, Stand>,
    /// The revisions of attempts that are over, and might come back with their node.
    ended: BTreeMap<(TaskKey, u32), u32>,
    returning: BTreeMap<TaskKey, u32>,
    /// Tasks that were lost during a rollout, and the revision that each was of.
    lost: BTreeMap<TaskKey, u32>,
    /// Jobs whose rollout may replace nothing before it is promoted.
    unproven: BTreeSet<JobId>,
    /// When a job was last placed, changed, or came further, in stamped time.
    moved_ms: BTreeMap<JobId, u64>,
    now_ms: u64,
}

impl RolloutBooks {
    /// Judges one fact; `books` and `wanted` know of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, wanted): (&Books, &Wanted),
        broken: &mut Vec<Broken>,
    ) {
        if let Fact::Updated { job, .. } = *fact {
            self.moved_ms.insert(job, self.now_ms);
        }
        let Fact::Happened { at_ms, kind } = *fact else { return };
        self.now_ms = self.now_ms.max(at_ms);
        match *kind {
            EventKind::Placed { job, group, first, count, .. } => {
                self.moved_ms.insert(job, at_ms);
                for task in first..first + count {
                    self.placed(index, (job, group, task), (books, wanted), broken);
                }
            }
            EventKind::Started { job, group, task, .. } => {
                let stand = self.runs.get_mut(&(job, group, task)).filter(|stand| !stand.gates);
                stand.into_iter().for_each(|stand| stand.ready_ms = Some(at_ms));
                self.moved_ms.insert(job, at_ms);
            }
            EventKind::Readiness(ref told) => {
                if let Some(stand) = self.runs.get_mut(&(told.job, told.group, told.task)) {
                    stand.ready_ms = told.ready.then(|| stand.ready_ms.unwrap_or(at_ms));
                }
                self.moved_ms.insert(told.job, at_ms);
            }
            EventKind::Stopping { job, group, task, cause, .. } => {
                let was_available = self.is_available((job, group, task), wanted);
                if let Some(stand) = self.runs.get_mut(&(job, group, task)) {
                    stand.stops = true;
                }
                if cause == StopCause::RolledOut {
                    let found = self.stopped((job, group, task), was_available, (books, wanted));
                    broken.extend(found.map(|what| Broken::new("P7", format!("entry {index}: {what}"))));
                }
                self.moved_ms.insert(job, at_ms);
            }
            EventKind::Ended { job, group, task, incarnation, exit, cause, .. } => {
                let key = (job, group, task);
                let Some(stand) = self.runs.remove(&key) else { return };
                self.ended.insert((key, incarnation.0), stand.revision);
                if cause == Some(StopCause::Restarted) {
                    self.returning.insert(key, stand.revision);
                    return;
                }
                let is_lost = cause.map_or(!exit.is_charged(), StopCause::is_loss);
                if is_lost && wanted.is_open(job) && !wanted.is_of_target(job, group, stand.revision) {
                    self.lost.insert(key, stand.revision);
                }
                self.moved_ms.insert(job, at_ms);
            }
            EventKind::Reconciled { job, group, task, incarnation, lives: true, .. } => {
                let key = (job, group, task);
                let revision = self.ended.get(&(key, incarnation.0)).copied();
                self.returning.extend(revision.map(|revision| (key, revision)));
            }
            EventKind::Rollout(ref told) => self.step(index, told, wanted, broken),
            EventKind::JobState { job, .. } => _ = self.moved_ms.insert(job, at_ms),
            _ => {}
        }
    }

    fn placed(&mut self, index: Index, key: TaskKey, (books, wanted): (&Books, &Wanted), broken: &mut Vec<Broken>) {
        let (job, group, task) = key;
        let revision = self.returning.remove(&key).unwrap_or_else(|| wanted.aim(job, group));
        let made = books.made_of(job, group, task);
        let gates = made.and_then(|made| made.task.probes.as_ref()).is_some_and(|probes| probes.gates_readiness());
        self.runs.insert(key, Stand { revision, gates, ready_ms: None, stops: false });
        let Some(was) = self.lost.remove(&key) else { return };
        if was != revision && wanted.is_open(job) {
            let what =
                format!("task {group}/{task} of job {job} was lost as revision {was} and is placed as {revision}");
            broken.push(Broken::new("P7", format!("entry {index}: {what}")));
        }
    }

    fn step(&mut self, index: Index, told: &RolloutEvent, wanted: &Wanted, broken: &mut Vec<Broken>) {
        let job = told.job;
        self.moved_ms.insert(job, self.now_ms);
        match told.step {
            RolloutStep::Started => {
                self.lost.retain(|key, _| key.0 != job);
                self.unproven.remove(&job);
                // Whether it needs canaries is told by those that are placed.
            }
            // After that what is still lost is placed as what is asked for.
            RolloutStep::Stalled { .. } => self.lost.retain(|key, _| key.0 != job),
            RolloutStep::Promoted | RolloutStep::Finished | RolloutStep::Reverted { .. } => {
                self.unproven.remove(&job);
            }
            RolloutStep::Waits => _ = self.unproven.insert(job),
            RolloutStep::Aimed { group, count, .. } => {
                let Some(declared) = wanted.declared(job) else { return };
                let Some(asked) = declared.groups.get(usize::from(group)) else { return };
                let strategy = declared.strategy();
                let most = strategy.bounds(asked.count).0.max(strategy.canary);
                // A size that was asked for meanwhile leaves those beyond where they are.
                let beyond = count.saturating_sub(asked.count);
                if beyond > most.max(self.beyond(job, group, asked.count)) {
                    let name = &declared.name;
                    let what =
                        format!("entry {index}: {beyond} tasks of {name} are wanted beyond its count, {most} may be");
                    broken.push(Broken::new("P7", what));
                }
            }
        }
    }

    fn beyond(&self, job: JobId, group: u16, count: u32) -> u32 {
        self.runs.range((job, group, count)..=(job, group, u32::MAX)).count() as u32
    }

    fn is_available(&self, key: TaskKey, wanted: &Wanted) -> bool {
        let Some(declared) = wanted.declared(key.0) else { return false };
        let after_ms = declared.strategy().min_ready_seconds.saturating_mul(1000);
        let stand = self.runs.get(&key).filter(|stand| !stand.stops);
        stand.and_then(|stand| stand.ready_ms).is_some_and(|since_ms| since_ms + after_ms <= self.now_ms)
    }

    fn available(&self, (job, group): (JobId, u16), below: u32, wanted: &Wanted) -> u32 {
        let all = self.runs.range((job, group, 0)..(job, group, below));
        all.filter(|(key, _)| self.is_available(**key, wanted)).count() as u32
    }

    /// What is wrong with a task being told to stop by a rollout, if anything is.
    fn stopped(&self, key: TaskKey, was_available: bool, (books, wanted): (&Books, &Wanted)) -> Option<String> {
        let (job, group, task) = key;
        let declared = wanted.declared(job)?;
        let asked = declared.groups.get(usize::from(group))?;
        let strategy = declared.strategy();
        let name = &declared.name;
        let is_beyond = books.jobs.get(&job).and_then(|spec| spec.groups.get(usize::from(group)));
        let is_beyond = is_beyond.is_none_or(|wanted| task >= wanted.count) || task >= asked.count;
        if !is_beyond && strategy.pause {
            return Some(format!("task {group}/{task} of {name} is replaced while its rollout is paused"));
        }
        if !is_beyond && self.unproven.contains(&job) {
            return Some(format!("task {group}/{task} of {name} is replaced before its canaries are promoted"));
        }
        if is_whole(declared, group) || !was_available {
            return None;
        }
        let least = asked.count.saturating_sub(books.done(job, group)).saturating_sub(strategy.bounds(asked.count).1);
        let left = self.available((job, group), u32::MAX, wanted);
        let what = || format!("{left} tasks of {name} are left available by its rollout, {least} must be");
        (left < least).then(what)
    }

    /// Judges what can only be judged when everything is quiet: a rollout that could go on has done so.
    pub(crate) fn finish(&self, books: &Books, wanted: &Wanted, broken: &mut Vec<Broken>) {
        for (job, declared) in wanted.open() {
            let strategy = declared.strategy();
            let quiet_ms = 1_000 + strategy.min_ready_seconds * 1000;
            let is_quiet = self.moved_ms.get(&job).is_none_or(|moved_ms| moved_ms + quiet_ms < self.now_ms);
            let is_alive = books.live_of(job).next().is_some();
            if !is_quiet || !is_alive || strategy.pause || self.unproven.contains(&job) {
                continue;
            }
            let stands = |at: usize| {
                let (group, count) = (at as u16, declared.groups[at].count);
                let all = self.runs.range((job, group, 0)..(job, group, count));
                let new = all.filter(|(key, stand)| {
                    wanted.is_of_target(job, group, stand.revision) && self.is_available(**key, wanted)
                });
                new.count() as u32 >= count.saturating_sub(books.done(job, group))
            };
            if (0..declared.groups.len()).all(stands) {
                let what =
                    format!("all of {} is of its revision and available, and its rollout is not over", declared.name);
                broken.push(Broken::new("P7", what));
            }
        }
    }
}

/// Whether the tasks of a group end whole before the next ones are placed.
fn is_whole(declared: &JobSpec, group: u16) -> bool {
    let recreated = declared.strategy().kind == RolloutKind::Recreate;
    let asked = declared.groups.get(usize::from(group));
    recreated || asked.is_none_or(|asked| asked.topology.is_asked() || !asked.place_with.is_empty())
}
