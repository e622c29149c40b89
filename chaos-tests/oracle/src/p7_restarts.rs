//! P7 for jobs with `survivors: restartAll`: once everything such a job lost is placed again, each task that stayed
//! ends and starts again where it stands, and nothing else is restarted but what a probe ended.

use crate::books::Books;
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p7_probes::may_be_unhealthy;
use crate::p7_repairs::Repairs;
use ohm_model::{Command, EventKind, Exit, Index, JobId, StopCause, Survivors};
use std::collections::{BTreeMap, BTreeSet};

/// Who is to start again has done so after this long when nothing goes wrong any more: it ends with its grace.
const RESTART_MS: u64 = 20_000;

type Task = (JobId, u16, u32);

/// Who is to start again.
#[derive(Default)]
pub(crate) struct Restarts {
    /// The entry that placed each task that stands.
    placed: BTreeMap<Task, Index>,
    /// Tasks that are to start again where they are, since this stamped time.
    due: BTreeMap<Task, u64>,
    /// Tasks that may start again where they are: what was lost of their job may all be placed again, or not. A task
    /// that was to stop and was lost with its node before that counts as either.
    allowed: BTreeSet<Task>,
    /// Tasks that ended for it in the entry at hand.
    ended: Vec<Task>,
    /// Jobs of which a run came back with its node in the entry at hand: for that nobody starts again.
    returned: BTreeSet<JobId>,
    /// Jobs of which a scheduler placed tasks in the entry at hand.
    planned: BTreeSet<JobId>,
    now_ms: u64,
}

impl Restarts {
    /// Takes note of what came back in an entry, before its facts.
    pub(crate) fn entry_begins(&mut self, taken: &[Taken<'_>], facts: &[Fact<'_>]) {
        let returned = facts.iter().filter_map(|fact| match fact {
            Fact::Happened { kind: EventKind::Reconciled { job, lives: true, .. }, .. } => Some(*job),
            _ => None,
        });
        self.returned = returned.collect();
        let places = |(command, _): &Taken<'_>| match command {
            Command::Commit(transaction) => transaction.place.iter().map(|row| row.job).collect(),
            _ => BTreeSet::new(),
        };
        self.planned = taken.iter().flat_map(places).collect();
    }

    /// Judges one fact; `books` and `repairs` know of it already.
    pub(crate) fn watch(
        &mut self,
        index: Index,
        fact: &Fact<'_>,
        (books, repairs): (&Books, &Repairs),
        broken: &mut Vec<Broken>,
    ) {
        let Fact::Happened { at_ms, kind } = *fact else { return };
        self.now_ms = self.now_ms.max(at_ms);
        match kind {
            EventKind::Placed { job, group, first, count, node } => {
                for task in *first..first + count {
                    let key = (*job, *group, task);
                    self.placed.insert(key, index);
                    if books.home(*job, *group, task).is_some_and(|home| home != *node) {
                        broken.push(Broken::new("P7", format!("entry {index}: {} moves", name(books, key))));
                    }
                }
            }
            EventKind::Stopping { job, group, task, .. } => {
                self.due.remove(&(*job, *group, *task));
                self.allowed.remove(&(*job, *group, *task));
            }
            EventKind::Ended { job, group, task, exit, cause, .. } => {
                let key = (*job, *group, *task);
                self.placed.remove(&key);
                let was_due = self.due.remove(&key).is_some();
                let was_allowed = self.allowed.remove(&key) || was_due;
                let what = match (was_due, cause) {
                    (_, Some(StopCause::Restarted)) if was_allowed => {
                        self.ended.push(key);
                        return;
                    }
                    (_, Some(StopCause::Restarted))
                        if *exit == Exit::Unhealthy && may_be_unhealthy((key.0, key.1, key.2), books) =>
                    {
                        self.ended.push(key);
                        return;
                    }
                    (_, Some(StopCause::Restarted)) => "starts again for nothing",
                    (true, None) if is_own(*exit) => "ends for good although it is to start again",
                    _ => return,
                };
                broken.push(Broken::new("P7", format!("entry {index}: {} {what}", name(books, key))));
            }
            EventKind::RepairCommitted { job, .. } => self.repaired(index, at_ms, *job, (books, repairs)),
            _ => {}
        }
    }

    fn repaired(&mut self, index: Index, at_ms: u64, job: JobId, (books, repairs): (&Books, &Repairs)) {
        let Some(spec) = books.jobs.get(&job) else { return };
        let (returned, planned) = (self.returned.contains(&job), self.planned.contains(&job));
        if spec.repair.survivors != Survivors::RestartAll || (returned && !planned) {
            return;
        }
        // Which of both was first is not known.
        let is_whole = !repairs.is_waiting(job) && !returned;
        for group in 0..spec.groups.len() as u16 {
            for (task, _) in books.live(job, group).filter(|(_, standing)| !standing.stopping) {
                let key = (job, group, task);
                // What this very entry places knows the others' places.
                if self.placed.get(&key).is_some_and(|placed| *placed < index) {
                    match is_whole {
                        true => drop(self.due.entry(key).or_insert(at_ms)),
                        false => drop(self.allowed.insert(key)),
                    }
                }
            }
        }
    }

    /// What ended to start again stands again when the entry is over.
    pub(crate) fn entry_over(&mut self, index: Index, books: &Books, broken: &mut Vec<Broken>) {
        for key in std::mem::take(&mut self.ended) {
            let (job, group, task) = key;
            if books.live(job, group).any(|(live, _)| live == task) {
                continue;
            }
            broken.push(Broken::new("P7", format!("entry {index}: {} loses its place", name(books, key))));
        }
    }

    /// Nobody is still to start again once all is quiet.
    pub(crate) fn finish(&self, books: &Books, broken: &mut Vec<Broken>) {
        for (key, _) in self.due.iter().filter(|(_, since_ms)| **since_ms + RESTART_MS < self.now_ms) {
            broken.push(Broken::new("P7", format!("{} was to start again and runs on", name(books, *key))));
        }
    }
}

/// Whether a run ended by itself, and not with its node.
fn is_own(exit: Exit) -> bool {
    exit.is_charged() || exit == Exit::NeverStarted
}

fn name(books: &Books, (job, group, task): Task) -> String {
    let name = books.jobs.get(&job).map_or("?", |spec| spec.name.as_str());
    format!("task {group}/{task} of {name}, which restarts with its job,")
}
