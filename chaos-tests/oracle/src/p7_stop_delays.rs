//! P7 for delays of stops, in real time: a ready task that is told to stop is left running for as long as its job says
//! before it gets its signal, so that whoever still finds it among the endpoints is served.
//!
//! Nobody waits for a task that is not ready any more, whose time is over, or whose job is to be gone in a hurry.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p7_probes::waits_for_probes;
use ohm_model::{Command, EventKind, Exit, Index, JobId, StopCause};
use std::collections::{BTreeMap, BTreeSet};

/// The least part of a delay that must really have passed, in hundredths: clocks drift.
const PERCENT: u64 = 90;

type Task = (JobId, u16, u32);

/// A task that leaves.
struct Leaves {
    told_ms: u64,
    delay_ms: u64,
}

/// The books.
#[derive(Default)]
pub(crate) struct StopDelays {
    ready: BTreeSet<Task>,
    leaving: BTreeMap<Task, Leaves>,
    /// Ready tasks of jobs whose survivors were told to start again in place, and when: they may leave since then.
    restarts_ms: BTreeMap<Task, u64>,
    now_ms: u64,
}

impl StopDelays {
    /// An entry is applied for the first time at `at_ms`, in real time.
    pub(crate) fn entry_begins(&mut self, at_ms: u64, taken: &[Taken<'_>], books: &Books) {
        self.now_ms = at_ms;
        let hurried = |(command, _): &Taken<'_>| match command {
            Command::CancelJob { name, grace_ms: Some(_) } => Some(name.clone()),
            _ => None,
        };
        for name in taken.iter().filter_map(hurried) {
            let is_of = |job: &JobId| books.jobs.get(job).is_some_and(|spec| spec.name == name);
            self.ready.retain(|(job, ..)| !is_of(job));
            self.leaving.retain(|(job, ..), _| !is_of(job));
        }
    }

    /// Judges one fact; `books` knows of it already.
    pub(crate) fn watch(&mut self, index: Index, fact: &Fact<'_>, books: &Books, broken: &mut Vec<Broken>) {
        let Fact::Happened { kind, .. } = *fact else { return };
        match kind {
            EventKind::Started { job, group, task, .. } if !waits_for_probes((*job, *group, *task), books) => {
                self.ready.insert((*job, *group, *task));
            }
            EventKind::Readiness(told) => {
                let task = (told.job, told.group, told.task);
                if told.ready {
                    self.ready.insert(task);
                } else {
                    self.forget(task);
                }
            }
            EventKind::SurvivorsRestart { job, .. } => {
                let ready = self.ready.range((*job, 0, 0)..=(*job, u16::MAX, u32::MAX));
                self.restarts_ms.extend(ready.map(|task| (*task, self.now_ms)));
            }
            EventKind::Unhealthy(told) => self.forget((told.job, told.group, told.task)),
            EventKind::Stopping { job, group, task, cause, .. } => {
                let task = (*job, *group, *task);
                let told_ms = self.restarts_ms.get(&task).copied().unwrap_or(self.now_ms);
                let delay_ms = books.made_of(task.0, task.1, task.2).map_or(0, |made| made.task.stop_delay_ms);
                if self.ready.contains(&task) && *cause != StopCause::DeadlineExceeded && delay_ms > 0 {
                    self.leaving.entry(task).or_insert(Leaves { told_ms, delay_ms });
                }
            }
            EventKind::Ended { job, group, task, exit, .. } => {
                let task = (*job, *group, *task);
                if let (Some(leaves), Exit::Signal(_)) = (self.leaving.get(&task), exit) {
                    self.judge(index, task, leaves, books, broken);
                }
                self.forget(task);
            }
            _ => {}
        }
    }

    fn judge(&self, index: Index, (job, group, task): Task, leaves: &Leaves, books: &Books, broken: &mut Vec<Broken>) {
        let passed_ms = self.now_ms.saturating_sub(leaves.told_ms);
        if passed_ms >= leaves.delay_ms * PERCENT / 100 {
            return;
        }
        let name = books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
        let delay_ms = leaves.delay_ms;
        let what = format!(
            "entry {index}: task {group}/{task} of {name} got its signal {passed_ms} ms after it was told to stop; it is \
             left running for {delay_ms} ms"
        );
        broken.push(Broken::new("P7", what));
    }

    fn forget(&mut self, task: Task) {
        self.ready.remove(&task);
        self.leaving.remove(&task);
        self.restarts_ms.remove(&task);
    }
}
