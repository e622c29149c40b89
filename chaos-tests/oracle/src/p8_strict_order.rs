//! P8, StrictFIFO queues: no job starts while one that comes before it waits, by priority, then by age, whatever that
//! one waits for and whoever plans it.
//!
//! Judged are jobs to which nothing has happened since they were submitted, in queues without checks.

use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p10_ledger::Ledger;
use ohm_model::{Command, EventKind, Index, JobId, QueueingStrategy, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the entry at hand.
#[derive(Default)]
pub(crate) struct StrictOrder {
    /// Of each StrictFIFO queue of which it places jobs, those that waited before it.
    waiting: BTreeMap<String, Vec<JobId>>,
    /// Jobs of which it placed something.
    placed: BTreeSet<JobId>,
}

impl StrictOrder {
    /// Takes note of who waits before the entry. `ledger` knows nothing of it.
    pub(crate) fn before(taken: &[(SessionId, Taken<'_>)], ledger: &Ledger<'_>) -> Self {
        let (mut queues, mut changed) = (BTreeSet::new(), BTreeSet::new());
        for (_, (command, _)) in taken {
            match command {
                Command::PutQueue(spec) => drop(changed.insert(spec.name.as_str())),
                Command::RemoveQueue { name } => drop(changed.insert(name.as_str())),
                Command::Commit(transaction) => {
                    let jobs = transaction.place.iter().filter_map(|row| ledger.books.jobs.get(&row.job));
                    queues.extend(jobs.map(|spec| spec.queue.as_str()));
                }
                _ => {}
            }
        }
        let is_strict = |queue: &&&str| {
            let spec = ledger.quotas.tree().queue(queue).filter(|_| !changed.contains(**queue));
            spec.is_some_and(|spec| {
                spec.queueing_strategy == QueueingStrategy::StrictFifo && spec.admission_checks.is_empty()
            })
        };
        let strict = queues.iter().filter(is_strict);
        let waiting = strict.map(|queue| (queue.to_string(), who_waits(queue, ledger))).collect();
        StrictOrder { waiting, placed: BTreeSet::new() }
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        if let Fact::Happened { kind: EventKind::Placed { job, .. }, .. } = *fact {
            self.placed.insert(*job);
        }
    }

    /// Judges the entry, when all of it is known.
    pub(crate) fn judge(&self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        let mut broken = Vec::new();
        for (queue, before) in &self.waiting {
            let still = who_waits(queue, ledger);
            let turn = |job: &JobId| Some(ledger.turns.of(*job, ledger.books.jobs.get(job)?));
            let Some(first) = before.iter().filter(|job| still.contains(job)).min_by_key(|job| turn(job)) else {
                continue;
            };
            for job in before.iter().filter(|job| self.placed.contains(job) && turn(first) < turn(job)) {
                let name = |job: &JobId| ledger.books.jobs.get(job).map_or("?", |spec| spec.name.as_str());
                let what = format!(
                    "entry {index}: {} of the StrictFIFO queue {queue} starts while {} waits, which comes before it",
                    name(job),
                    name(first)
                );
                broken.push(Broken::new("P8", what));
            }
        }
        broken
    }
}

/// The jobs of the queue that wait, and to which nothing has happened.
fn who_waits(queue: &str, ledger: &Ledger<'_>) -> Vec<JobId> {
    let of_queue = |job: &JobId| ledger.books.jobs.get(job).is_some_and(|spec| spec.queue == queue);
    // What was reserved once was let in then.
    let may_stand = |job: &JobId| ledger.books.live_of(*job).next().is_some() || ledger.admissions.may_hold(*job);
    let waits = |job: &JobId| ledger.waiting.is_untouched(*job) && !may_stand(job);
    ledger.waiting.active().map(|(job, _)| job).filter(|job| of_queue(job) && waits(job)).collect()
}
