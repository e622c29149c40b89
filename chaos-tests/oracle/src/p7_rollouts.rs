//! P7: a rollout never takes a service below what its owner lets be unavailable, nor above what it lets be beyond its
//! count; what was lost comes back as it was; nothing is replaced while it is paused, or before somebody promoted it.
//! Books: which tasks are ready since when, by the events of their runs, and the revision that each was placed as.

use crate::books::Books;
use crate::facts::Fact;
use crate::history::Broken;
use ohm_model::{EventKind, GroupSpec, Index, JobId, JobSpec, RolloutEvent, RolloutKind, RolloutStep, StopCause};
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
    /// Tasks that were lost during a rollout, the revision that each was of, and when.
    lost: BTreeMap<TaskKey, (u32, u64)>,
    /// Jobs whose rollout may replace nothing before it is promoted.
    unproven: BTreeSet<JobId>,
    /// When a job was last placed, changed, or came further, in stamped time.
    moved_ms: BTreeMap<JobId, u64>,
    /// What owners ask for.
    declared: BTreeMap<JobId, JobSpec>,
    /// Jobs that are being rolled out.
    open: BTreeSet<JobId>,
    /// The revision of each group that is placed, and what groups are made of by revision; the one before the first
    /// that is told has number 0.
    aims: BTreeMap<(JobId, u16), u32>,
    contents: BTreeMap<(JobId, u16, u32), GroupSpec>,
    now_ms: u64,
}

impl RolloutBooks {
    /// Judges one fact; `books` know of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        match *fact {
            Fact::Submitted { job, spec, .. } => self.note_declared(job, spec, spec),
            Fact::Updated { job, spec, declared, .. } => self.note_declared(job, spec, declared),
            Fact::Happened { at_ms, kind } => {
                self.now_ms = self.now_ms.max(at_ms);
                self.watch_event(index, (at_ms, kind), books, broken);
            }
            Fact::Registered { .. } => {}
        }
    }

    /// What a group is made of while nothing is rolled out has no number that is told.
    fn note_declared(&mut self, job: JobId, spec: &JobSpec, declared: &JobSpec) {
        self.moved_ms.insert(job, self.now_ms);
        self.declared.insert(job, declared.clone());
        if spec == declared && !self.open.contains(&job) {
            for (at, group) in (0u16..).zip(&spec.groups) {
                self.contents.insert((job, at, 0), group.clone());
                self.aims.remove(&(job, at));
            }
        }
    }

    /// Whether what is made like this is made of what its owner asks for.
    fn is_of_target(&self, job: JobId, group: u16, revision: u32) -> bool {
        let asked = self.declared.get(&job).and_then(|spec| spec.groups.get(usize::from(group)));
        asked.zip(self.contents.get(&(job, group, revision))).is_none_or(|(asked, made)| made.is_made_as(asked))
    }

    fn is_same(&self, (job, group): (JobId, u16), one: u32, other: u32) -> bool {
        let made = |revision| self.contents.get(&(job, group, revision));
        one == other || made(one).zip(made(other)).is_none_or(|(one, other)| one.is_made_as(other))
    }

    /// Whether a lost task waits until others of its group, which are made of something else, are placed.
    pub(crate) fn is_held(&self, (job, group, task): TaskKey) -> bool {
        let aim = self.aims.get(&(job, group)).copied().unwrap_or(0);
        let is_as_placed = match self.lost.get(&(job, group, task)) {
            Some((was, _)) => self.is_same((job, group), *was, aim),
            None => self.is_of_target(job, group, aim),
        };
        self.open.contains(&job) && !is_as_placed
    }

    fn watch_event(&mut self, index: Index, (at_ms, kind): (u64, &EventKind), books: &Books, broken: &mut Vec<Broken>) {
        self.now_ms = self.now_ms.max(at_ms);
        match *kind {
            EventKind::Placed { job, group, first, count, .. } => {
                self.moved_ms.insert(job, at_ms);
                for task in first..first + count {
                    self.placed(index, (job, group, task), books, broken);
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
                let was_available = self.is_available((job, group, task));
                if let Some(stand) = self.runs.get_mut(&(job, group, task)) {
                    stand.stops = true;
                }
                if cause == StopCause::RolledOut {
                    let found = self.stopped((job, group, task), was_available, books);
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
                if is_lost && self.open.contains(&job) && !self.is_of_target(job, group, stand.revision) {
                    self.lost.insert(key, (stand.revision, at_ms));
                }
                if self.runs.range((job, group, 0)..=(job, group, u32::MAX)).next().is_none() {
                    self.emptied(job, group);
                }
                self.moved_ms.insert(job, at_ms);
            }
            EventKind::Reconciled { job, group, task, incarnation, lives: true, .. } => {
                let key = (job, group, task);
                let revision = self.ended.get(&(key, incarnation.0)).copied();
                self.returning.extend(revision.map(|revision| (key, revision)));
            }
            EventKind::Rollout(ref told) => self.step(index, told, books, broken),
            EventKind::JobState { job, .. } => _ = self.moved_ms.insert(job, at_ms),
            _ => {}
        }
    }

    /// Nothing of a group stands. It starts with its minimum, of one revision: of what was lost only if that is enough.
    fn emptied(&mut self, job: JobId, group: u16) {
        let asked = self.declared.get(&job).and_then(|spec| spec.groups.get(usize::from(group)));
        if asked.is_some_and(|asked| asked.min_count > 1) {
            self.lost.retain(|key, _| (key.0, key.1) != (job, group));
        }
    }

    fn placed(&mut self, index: Index, key: TaskKey, books: &Books, broken: &mut Vec<Broken>) {
        let (job, group, task) = key;
        let revision =
            self.returning.remove(&key).unwrap_or_else(|| self.aims.get(&(job, group)).copied().unwrap_or(0));
        let made = books.made_of(job, group, task);
        let gates = made.and_then(|made| made.task.probes.as_ref()).is_some_and(|probes| probes.gates_readiness());
        self.runs.insert(key, Stand { revision, gates, ready_ms: None, stops: false });
        let Some((was, lost_ms)) = self.lost.remove(&key) else { return };
        // Where a group ends whole all of it becomes what is asked for, once anything is replaced.
        let ends_whole = |declared: &JobSpec| is_whole(declared, group) && !declared.strategy().pause;
        if !self.unproven.contains(&job) && self.declared.get(&job).is_some_and(ends_whole) {
            return;
        }
        // What finds no room for so long may become what is asked for.
        let deadline_s = self.declared.get(&job).map_or(0, |spec| spec.strategy().progress_deadline_seconds);
        if lost_ms + if deadline_s == 0 { 600_000 } else { deadline_s * 1000 } <= self.now_ms {
            return;
        }
        if self.open.contains(&job) && !self.is_same((job, group), was, revision) {
            let what =
                format!("task {group}/{task} of job {job} was lost as revision {was} and is placed as {revision}");
            broken.push(Broken::new("P7", format!("entry {index}: {what}")));
        }
    }

    fn step(&mut self, index: Index, told: &RolloutEvent, books: &Books, broken: &mut Vec<Broken>) {
        let job = told.job;
        self.moved_ms.insert(job, self.now_ms);
        match told.step {
            RolloutStep::Started => {
                self.open.insert(job);
                self.lost.retain(|key, _| key.0 != job);
                self.unproven.remove(&job);
            }
            // After that what is still lost is placed as what is asked for.
            RolloutStep::Stalled { .. } => self.lost.retain(|key, _| key.0 != job),
            RolloutStep::Promoted | RolloutStep::Reverted { .. } => _ = self.unproven.remove(&job),
            RolloutStep::Finished => {
                self.open.remove(&job);
                self.unproven.remove(&job);
            }
            RolloutStep::Waits => _ = self.unproven.insert(job),
            RolloutStep::Aimed { group, revision, count } => {
                let wanted = books.jobs.get(&job).and_then(|spec| spec.groups.get(usize::from(group)));
                self.contents.extend(wanted.map(|wanted| ((job, group, revision), wanted.clone())));
                self.aims.insert((job, group), revision);
                let Some(declared) = self.declared.get(&job) else { return };
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

    fn is_available(&self, key: TaskKey) -> bool {
        let Some(declared) = self.declared.get(&key.0) else { return false };
        let after_ms = declared.strategy().min_ready_seconds.saturating_mul(1000);
        let stand = self.runs.get(&key).filter(|stand| !stand.stops);
        stand.and_then(|stand| stand.ready_ms).is_some_and(|since_ms| since_ms + after_ms <= self.now_ms)
    }

    fn available(&self, (job, group): (JobId, u16)) -> u32 {
        let all = self.runs.range((job, group, 0)..=(job, group, u32::MAX));
        all.filter(|(key, _)| self.is_available(**key)).count() as u32
    }

    /// What is wrong with a task being told to stop by a rollout, if anything is.
    fn stopped(&self, key: TaskKey, was_available: bool, books: &Books) -> Option<String> {
        let (job, group, task) = key;
        let declared = self.declared.get(&job)?;
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
        let left = self.available((job, group));
        let what = || format!("{left} tasks of {name} are left available by its rollout, {least} must be");
        (left < least).then(what)
    }

    /// Judges what can only be judged when everything is quiet: a rollout that could go on has done so.
    pub(crate) fn finish(&self, books: &Books, broken: &mut Vec<Broken>) {
        let open = self.open.iter().filter_map(|job| Some((*job, self.declared.get(job)?)));
        for (job, declared) in open {
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
                let new = all
                    .filter(|(key, stand)| self.is_of_target(job, group, stand.revision) && self.is_available(**key));
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
