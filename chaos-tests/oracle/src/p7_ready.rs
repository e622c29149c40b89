//! P7 for ready timeouts (`readyTimeout` of a queue), in stamped time: a job is stopped as not ready only when it was
//! not for so long, and one that is not for longer is stopped; it waits as long as was said, and nothing of it is
//! placed or reserved meanwhile; too many time-outs in a row suspend it. It begins afresh when it is resumed or
//! updated, and where its queue gives no such time any more.
//!
//! A job is ready when an elastic group of it, or one of a service, runs its minimum and any other all that it was
//! started with. The books are looked at between entries. What an update changes, what comes back with its node and
//! what is ready in the midst of an entry makes them unsure: by how much decides which times count, and attempts are
//! taken as they are told.

use crate::books::Books;
use crate::facts::{Fact, Rules};
use crate::history::Broken;
use crate::p7_probes::waits_for_probes;
use crate::quota::QuotaTree;
use crate::waiting::Waiting;
use ohm_model::{EventKind, GroupSpec, Index, JobId, ReadyTimeout, ReadyTimeoutEvent, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// A job that is so late has missed its time by far.
const LATE_MS_MAX: u64 = 10_000;
/// So much of the time between two entries counts at most.
const PAUSE_MS_MAX: u64 = 1_000;

/// What is known of one job.
#[derive(Debug, Default)]
struct Readiness {
    /// The tasks that were reported to run, and to be ready where probes decide about that, by group.
    running: BTreeMap<u16, BTreeSet<u32>>,
    /// Since when it is not ready: at the earliest, and at the latest.
    since_ms: Option<(u64, u64)>,
    /// Whether it was ready since something of it stands; nothing where that is not sure.
    was_ready: Option<bool>,
    is_suspended: bool,
    /// Nothing is judged before all of it is gone.
    is_unsure: bool,
    /// How often it was stopped so since it was ready; nothing where that is not sure.
    timeouts: Option<u32>,
    /// Nothing of it is placed before.
    until_ms: u64,
    /// For how long it has been late.
    late_ms: u64,
}

/// The books.
#[derive(Default)]
pub(crate) struct Readinesses {
    jobs: BTreeMap<JobId, Readiness>,
    /// Jobs of which the entry at hand tells something.
    touched: BTreeSet<JobId>,
    /// Jobs of which it stops runs as not ready, and those of which it says why.
    stopped: BTreeSet<JobId>,
    told: BTreeSet<JobId>,
    now_ms: u64,
}

/// What the judge asks others.
pub(crate) type Known<'a> = (&'a Books, &'a Waiting, &'a QuotaTree);

impl Readinesses {
    /// Judges one fact; `known` knows of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        known: Known<'_>,
        rules: &Rules<'_>,
        broken: &mut Vec<Broken>,
    ) {
        let now_ms = known.1.now_ms;
        let kind = match *fact {
            Fact::Registered { .. } => return,
            Fact::Submitted { job, spec, .. } => {
                let (timeouts, was_ready, is_suspended) = (Some(0), Some(false), spec.suspended);
                self.jobs.insert(job, Readiness { timeouts, was_ready, is_suspended, ..Readiness::default() });
                return;
            }
            Fact::Updated { job, .. } => {
                let found = self.jobs.entry(job).or_default();
                (found.is_unsure, found.timeouts, found.until_ms) = (true, Some(0), 0);
                self.touched.insert(job);
                return;
            }
            Fact::Happened { kind, .. } => kind,
        };
        match kind {
            EventKind::ReadyTimeout(late) => {
                let found = self.jobs.entry(late.job).or_default();
                if !rules.change_queue(&late.queue) {
                    let problem = timed_out(found, late, known);
                    let what = problem.map(|problem| format!("entry {index}: {} {problem}", late.name));
                    broken.extend(what.map(|what| Broken::new("P7", what)));
                }
                (found.timeouts, found.until_ms) = (Some(late.attempt), late.until_ms);
                self.told.insert(late.job);
            }
            EventKind::Stopping { job, cause: StopCause::ReadyTimeout, .. } => drop(self.stopped.insert(*job)),
            EventKind::Placed { job, group, first, count, .. } => {
                let found = self.jobs.entry(*job).or_default();
                let running = found.running.entry(*group).or_default();
                (*first..first + count).for_each(|task| _ = running.remove(&task));
                let is_early = now_ms < found.until_ms
                    && !known.0.has_returned(*job, *group, *first)
                    && !changes_queue(*job, known, rules);
                broken.extend(is_early.then(|| begins_early(index, "placed", *job, found.until_ms, known)));
            }
            EventKind::QuotaReserved { job, .. } => {
                let until_ms = self.jobs.entry(*job).or_default().until_ms;
                let is_early = now_ms < until_ms && !changes_queue(*job, known, rules);
                broken.extend(is_early.then(|| begins_early(index, "reserved", *job, until_ms, known)));
            }
            EventKind::JobState { job, state, .. } => {
                let found = self.jobs.entry(*job).or_default();
                // Who is resumed begins anew, be it that some of it stops still.
                if found.is_suspended && matches!(state.as_str(), "pending" | "running") {
                    (found.timeouts, found.until_ms) = (Some(0), 0);
                }
                found.is_suspended = state == "suspended";
            }
            _ => {}
        }
        self.note_run(kind, known);
    }

    /// Takes note of what begins to run and ends.
    fn note_run(&mut self, kind: &EventKind, known: Known<'_>) {
        let job = match kind {
            // Whether it is ready with that its node has to say.
            EventKind::Started { job, group, task, .. } if waits_for_probes((*job, *group, *task), known.0) => *job,
            EventKind::Readiness(told) => {
                let running = self.jobs.entry(told.job).or_default().running.entry(told.group).or_default();
                if told.ready {
                    running.insert(told.task)
                } else {
                    running.remove(&told.task)
                };
                told.job
            }
            EventKind::Started { job, group, task, .. } => {
                self.jobs.entry(*job).or_default().running.entry(*group).or_default().insert(*task);
                *job
            }
            EventKind::Ended { job, group, task, .. } => {
                self.jobs.entry(*job).or_default().running.entry(*group).or_default().remove(task);
                *job
            }
            EventKind::Reconciled { job, lives: true, .. } => {
                let found = self.jobs.entry(*job).or_default();
                (found.is_unsure, found.timeouts) = (true, None);
                *job
            }
            EventKind::Placed { job, .. } | EventKind::Stopping { job, .. } | EventKind::JobState { job, .. } => *job,
            _ => return,
        };
        let found = self.jobs.entry(job).or_default();
        // Ready only in the midst of an entry: perhaps it counts.
        if found.since_ms.is_some() && is_ready(job, found, known) == Some(true) {
            (found.was_ready, found.timeouts) = (None, None);
            found.since_ms = found.since_ms.map(|(early_ms, _)| (early_ms, known.1.now_ms));
        }
        // Where nothing stood in the midst of an entry, what is placed after it starts anew: perhaps that counts.
        if !stands(job, known) {
            found.was_ready = found.was_ready.filter(|was_ready| !was_ready);
            found.since_ms = found.since_ms.map(|(early_ms, _)| (early_ms, known.1.now_ms));
        }
        self.touched.insert(job);
    }

    /// Judges an entry when all of it is known.
    pub(crate) fn entry_over(&mut self, index: Index, known: Known<'_>, rules: &Rules<'_>, broken: &mut Vec<Broken>) {
        for job in std::mem::take(&mut self.stopped) {
            if !self.told.contains(&job) {
                broken.push(Broken::new(
                    "P7",
                    format!("entry {index}: job {job} stops as not ready, and nothing says so"),
                ));
            }
        }
        self.told.clear();
        self.forget_untimed(known, rules);
        let now_ms = known.1.now_ms;
        for job in std::mem::take(&mut self.touched) {
            if let Some(found) = self.jobs.get_mut(&job) {
                found.settle(job, known);
            }
        }
        let passed_ms = now_ms.saturating_sub(self.now_ms).min(PAUSE_MS_MAX);
        self.now_ms = now_ms;
        for (job, found) in self.jobs.iter_mut().filter(|(_, found)| found.since_ms.is_some() && !found.is_unsure) {
            let Some(spec) = known.0.jobs.get(job).filter(|spec| !rules.change_queue(&spec.queue)) else { continue };
            let Some((_, since_ms)) = found.since_ms else { continue };
            let Some(timeout) = known.2.queue(&spec.queue).and_then(|queue| queue.ready_timeout.as_deref()) else {
                continue;
            };
            let due_ms = since_ms.saturating_add(times(timeout, found.was_ready).1.saturating_mul(1000));
            found.late_ms = if now_ms > due_ms { found.late_ms + passed_ms } else { 0 };
            if found.late_ms > LATE_MS_MAX {
                let (name, for_ms) = (&spec.name, now_ms - since_ms);
                let what = format!("entry {index}: {name} has not been ready for {for_ms} ms under {timeout:?}");
                broken.push(Broken::new("P7", what));
                found.late_ms = 0;
            }
        }
    }

    /// Forgets the time-outs of jobs of queues that were put without a time.
    fn forget_untimed(&mut self, known: Known<'_>, rules: &Rules<'_>) {
        for spec in rules.queues.iter().filter(|spec| spec.ready_timeout.is_none()) {
            // Put twice by one entry, with a time at last: what was between is not known.
            let is_last = known.2.queue(&spec.name).is_none_or(|queue| queue.ready_timeout.is_none());
            let of_queue = |job: &JobId| known.0.jobs.get(job).is_some_and(|known| known.queue == spec.name);
            for (_, found) in self.jobs.iter_mut().filter(|(job, _)| of_queue(job)) {
                (found.timeouts, found.until_ms) = (is_last.then_some(0), 0);
            }
        }
    }
}

impl Readiness {
    /// Between two entries: since when the job is not ready.
    fn settle(&mut self, job: JobId, known: Known<'_>) {
        if known.0.live_of(job).next().is_none() {
            (self.is_unsure, self.running) = (false, BTreeMap::new());
        }
        if !stands(job, known) {
            (self.since_ms, self.was_ready, self.late_ms) = (None, Some(false), 0);
            return;
        }
        match is_ready(job, self, known) {
            None => (self.is_unsure, self.timeouts) = (true, None),
            Some(true) => {
                (self.since_ms, self.was_ready, self.timeouts, self.late_ms) = (None, Some(true), Some(0), 0);
            }
            Some(false) => {
                self.since_ms.get_or_insert((known.1.now_ms, known.1.now_ms));
            }
        }
    }
}

/// Whether the time to be ready runs: something of the job stands that is not to stop.
fn stands(job: JobId, (books, waiting, _): Known<'_>) -> bool {
    waiting.is_active(job) && books.live_of(job).any(|standing| !standing.stopping)
}

/// What is wrong about a job that is stopped as not ready.
fn timed_out(found: &Readiness, late: &ReadyTimeoutEvent, known: Known<'_>) -> Option<String> {
    let now_ms = known.1.now_ms;
    let Some(timeout) = known.2.queue(&late.queue).and_then(|queue| queue.ready_timeout.as_deref()) else {
        return Some("is stopped as not ready, and its queue has no readyTimeout".into());
    };
    let attempt = found.timeouts.map_or(late.attempt, |times| times + 1);
    let is_last = timeout.backoff_limit.is_some_and(|limit| attempt > limit);
    let doubled = (1..attempt).fold(timeout.backoff_base_seconds, |seconds, _| seconds.saturating_mul(2));
    let wait_ms = doubled.min(timeout.backoff_max_seconds).saturating_mul(1000);
    let until_ms = if is_last { 0 } else { now_ms.saturating_add(wait_ms) };
    if (late.attempt, late.until_ms) != (attempt, until_ms) {
        let told = (late.attempt, late.until_ms);
        return Some(format!("is told of attempt and end of back-off {told:?}, not {:?}", (attempt, until_ms)));
    }
    if found.is_unsure {
        return None;
    }
    if is_ready(late.job, found, known) == Some(true) {
        return Some("is stopped as not ready although it is".into());
    }
    let Some((since_ms, _)) = found.since_ms else {
        return Some("is stopped as not ready at once, or although nothing of it stood".into());
    };
    let (for_ms, least) = (now_ms.saturating_sub(since_ms), times(timeout, found.was_ready).0);
    (for_ms < least.saturating_mul(1000))
        .then(|| format!("is stopped after {for_ms} ms, and has {least} s to be ready"))
}

/// The least and the most time that the job may have.
fn times(timeout: &ReadyTimeout, was_ready: Option<bool>) -> (u64, u64) {
    let (first, again) = (timeout.timeout_seconds, timeout.recovery_timeout_seconds);
    match was_ready {
        Some(false) => (first, first),
        Some(true) => (again, again),
        None => (first.min(again), first.max(again)),
    }
}

/// Whether the entry puts the queue of the job.
fn changes_queue(job: JobId, known: Known<'_>, rules: &Rules<'_>) -> bool {
    known.0.jobs.get(&job).is_some_and(|spec| rules.change_queue(&spec.queue))
}

fn begins_early(index: Index, what: &str, job: JobId, until_ms: u64, (books, waiting, _): Known<'_>) -> Broken {
    let name = books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
    let wait_ms = until_ms - waiting.now_ms;
    Broken::new(
        "P7",
        format!("entry {index}: {name} is {what}, and was to wait another {wait_ms} ms: it was not ready"),
    )
}

/// Whether each group runs what it is to; nothing where that is not known.
fn is_ready(job: JobId, found: &Readiness, (books, waiting, _): Known<'_>) -> Option<bool> {
    let spec = books.jobs.get(&job)?;
    let mut ready = true;
    for (index, group) in (0u16..).zip(&spec.groups) {
        let running =
            found.running.get(&index).into_iter().flatten().filter(|task| **task < group.count).count() as u32;
        ready &= running >= to_run((job, index), group, (books, waiting))?;
    }
    Some(ready)
}

/// How many tasks of the group are to run.
fn to_run((job, index): (JobId, u16), group: &GroupSpec, (books, waiting): (&Books, &Waiting)) -> Option<u32> {
    let Some(state) = waiting.group(job, &group.name).filter(|state| state.has_started) else { return Some(0) };
    let done = books.done(job, index);
    if group.elastic || books.is_endless(job) {
        return Some(group.min_count.saturating_sub(done).max(1).min(group.count.saturating_sub(done)));
    }
    let is_open = |task: &u32| books.succeeded(job, index).is_none_or(|tasks| !tasks.contains_key(task));
    let chosen = state.chosen()?;
    let may_come = |task: u32| !chosen.contains(&task) && is_open(&task) && state.has_failed(task);
    (!(0..group.count).any(may_come)).then(|| chosen.iter().filter(|task| is_open(task)).count() as u32)
}
