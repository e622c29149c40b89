//! P8, StrictFIFO queues: no job starts while one that comes before it waits, by priority, then by age, whatever that
//! one waits for and whoever plans it. In a queue with `usageBasedOrder` what their subqueues have used goes first
//! (`usage.rs`).
//!
//! Judged are jobs to which nothing has happened since they were submitted, in queues without checks.

use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p10_ledger::Ledger;
use crate::usage::Precedence;
use ohm_model::{Command, EventKind, Index, JobId, JobSpec, QueueingStrategy, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the entry at hand.
#[derive(Default)]
pub(crate) struct StrictOrder {
    /// Of each StrictFIFO queue of which it places jobs, those that waited before it.
    waiting: BTreeMap<String, Vec<JobId>>,
    /// Jobs of which it placed something.
    placed: BTreeSet<JobId>,
    /// Jobs for which others stop, or room is kept for a planned start: in queues with `usageBasedOrder` they go first.
    promised: BTreeSet<JobId>,
    /// Of queues with `usageBasedOrder`, which part came before which, before the entry.
    parts: BTreeMap<String, BTreeMap<(String, String), Precedence>>,
    /// Whether the entry holds one command: else nothing says what was used when.
    is_single: bool,
}

impl StrictOrder {
    /// Takes note of who waits before the entry. `ledger` knows nothing of it.
    pub(crate) fn before(stamp_ms: u64, taken: &[(SessionId, Taken<'_>)], ledger: &Ledger<'_>) -> Self {
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
        let waiting: BTreeMap<String, Vec<JobId>> =
            strict.map(|queue| (queue.to_string(), who_waits(queue, ledger))).collect();
        let now_ms = ledger.waiting.now_ms.max(stamp_ms);
        let ordered = waiting.iter().filter(|(queue, _)| ledger.usage.orders(queue));
        let parts = ordered.map(|(queue, jobs)| (queue.clone(), order_of_parts(jobs, ledger, now_ms))).collect();
        let promised = ledger.preemptions.waiting().chain(ledger.claims.heads()).collect();
        StrictOrder { waiting, placed: BTreeSet::new(), promised, parts, is_single: taken.len() == 1 }
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
            if let Some(parts) = self.parts.get(queue) {
                let waits = before.iter().filter(|job| still.contains(job));
                broken.extend(waits.filter_map(|first| self.passed_by(index, first, (before, parts), ledger)));
                continue;
            }
            let Some(first) = before.iter().filter(|job| still.contains(job)).min_by_key(|job| turn(job)) else {
                continue;
            };
            for job in before.iter().filter(|job| self.placed.contains(job) && turn(first) < turn(job)) {
                let (name, waits) = (ledger.title(*job), ledger.title(*first));
                let what = format!(
                    "entry {index}: {name} of the StrictFIFO queue {queue} starts while {waits} waits, which comes \
                     before it"
                );
                broken.push(Broken::new("P8", what));
            }
        }
        broken
    }
}

impl StrictOrder {
    /// Whether the entry places a job that surely comes after `first`, which waits on, by what their parts have used.
    fn passed_by(
        &self,
        index: Index,
        first: &JobId,
        (before, parts): (&[JobId], &BTreeMap<(String, String), Precedence>),
        ledger: &Ledger<'_>,
    ) -> Option<Broken> {
        let spec = |job: &JobId| ledger.books.jobs.get(job);
        let waits = spec(first)?;
        let comes_after = |job: &&JobId| {
            let Some(found) = spec(job).filter(|_| self.is_single && self.placed.contains(job)) else { return false };
            match parts.get(&(waits.subqueue.clone(), found.subqueue.clone())) {
                _ if self.promised.contains(job) => false,
                Some(Precedence::Before) => true,
                Some(Precedence::Equal) => ledger.turns.of(*first, waits) < ledger.turns.of(**job, found),
                _ => false,
            }
        };
        let job = before.iter().find(comes_after)?;
        let (queue, name, waits) = (&waits.queue, ledger.title(*job), &waits.name);
        let what = format!(
            "entry {index}: {name} of the StrictFIFO queue {queue} starts while {waits} waits, which comes before it by \
             what their subqueues have used"
        );
        Some(Broken::new("P8", what))
    }
}

/// Which parts of their queue come before which, of those that these jobs are in.
fn order_of_parts(jobs: &[JobId], ledger: &Ledger<'_>, now_ms: u64) -> BTreeMap<(String, String), Precedence> {
    let specs = jobs.iter().filter_map(|job| ledger.books.jobs.get(job));
    let parts: BTreeMap<&str, &JobSpec> = specs.map(|spec| (spec.subqueue.as_str(), spec)).collect();
    let pairs = parts.values().flat_map(|one| parts.values().map(move |other| (one, other)));
    let order = |(one, other): (&&JobSpec, &&JobSpec)| {
        ((one.subqueue.clone(), other.subqueue.clone()), ledger.usage.precedes(one, other, now_ms))
    };
    pairs.map(order).collect()
}

/// The jobs of the queue that wait, and to which nothing has happened.
fn who_waits(queue: &str, ledger: &Ledger<'_>) -> Vec<JobId> {
    let of_queue = |job: &JobId| ledger.books.jobs.get(job).is_some_and(|spec| spec.queue == queue);
    // What was reserved once was let in then.
    let may_stand = |job: &JobId| ledger.books.live_of(*job).next().is_some() || ledger.admissions.may_hold(*job);
    let waits = |job: &JobId| ledger.waiting.is_untouched(*job) && !may_stand(job);
    ledger.waiting.active().map(|(job, _)| job).filter(|job| of_queue(job) && waits(job)).collect()
}
