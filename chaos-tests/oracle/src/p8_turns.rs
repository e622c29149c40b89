//! P8, the order of a queue across schedulers: quota that the first job of a queue waits for, and that is there, is not
//! taken by one that comes after it and is planned by another scheduler.
//!
//! Judged is the first job of a queue without checks, to which nothing has happened since it was submitted, while its
//! patience lasts; and only entries in which nothing takes quota but later jobs that start. Queues with
//! `usageBasedOrder` are judged where they are StrictFIFO (`p8_strict_order.rs`).

use crate::amounts::{add, asks};
use crate::facts::{Fact, Taken};
use crate::history::Broken;
use crate::p10_ledger::Ledger;
use ohm_model::{Amounts, Command, EventKind, Index, JobId, JobSpec, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the entry at hand.
#[derive(Default)]
pub(crate) struct OutOfTurn {
    /// The first jobs of queues before it, with what they need to start.
    first: BTreeMap<String, (JobId, Amounts)>,
    /// Jobs that it plans, and to which nothing had happened before.
    fresh: BTreeSet<JobId>,
    /// Jobs of which it placed something.
    placed: BTreeSet<JobId>,
    /// Whether it changes what is to be had, or takes quota in other ways.
    is_unsure: bool,
}

impl OutOfTurn {
    /// Takes note of who waits before the entry. `ledger` knows nothing of it.
    pub(crate) fn before(stamp_ms: u64, taken: &[(SessionId, Taken<'_>)], ledger: &Ledger<'_>) -> Self {
        let is_unsure = taken.iter().any(|(_, (command, _))| match command {
            Command::PutQueue(_) | Command::RemoveQueue { .. } => true,
            Command::Commit(transaction) => !transaction.reserve.is_empty() || !transaction.nominate.is_empty(),
            _ => false,
        });
        let rows = taken.iter().flat_map(|(_, (command, _))| match command {
            Command::Commit(transaction) => transaction.place.as_slice(),
            _ => &[],
        });
        let jobs: BTreeSet<JobId> = rows.map(|row| row.job).collect();
        let specs = jobs.iter().filter_map(|job| ledger.books.jobs.get(job));
        let by_turn = |queue: &&String| !queue.is_empty() && !ledger.usage.orders(queue);
        let queues: BTreeSet<&String> = specs.map(|spec| &spec.queue).filter(by_turn).collect();
        let now_ms = ledger.waiting.now_ms.max(stamp_ms);
        let first = |queue: &String| Some((queue.clone(), first_of(queue, ledger, now_ms)?));
        let first = queues.into_iter().filter_map(first).collect();
        let fresh = jobs.into_iter().filter(|job| ledger.waiting.is_untouched(*job)).collect();
        OutOfTurn { first, fresh, placed: BTreeSet::new(), is_unsure }
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Happened { kind: EventKind::Placed { job, .. }, .. } => {
                self.placed.insert(*job);
            }
            Fact::Happened { kind: EventKind::SpareHeld { .. }, .. } => self.is_unsure = true,
            _ => {}
        }
    }

    /// Judges the entry, when all of it is known.
    pub(crate) fn judge(&self, index: Index, ledger: &Ledger<'_>) -> Vec<Broken> {
        let spec = |job: &JobId| ledger.books.jobs.get(job);
        let placed = self.placed.iter().filter_map(|job| Some((*job, spec(job)?)));
        let queued: Vec<(JobId, &JobSpec)> = placed.filter(|(_, job)| !job.queue.is_empty()).collect();
        if self.is_unsure || ledger.turns.is_changing || queued.is_empty() {
            return Vec::new();
        }
        let found = |(queue, (first, ask)): (&String, &(JobId, Amounts))| {
            let waiting = spec(first).filter(|_| !self.placed.contains(first))?;
            // Whoever else takes quota may have a right to it.
            let comes_after = |(job, other): &(JobId, &JobSpec)| {
                other.queue == *queue
                    && ledger.turns.of(*first, waiting) < ledger.turns.of(*job, other)
                    && ledger.turns.are_apart(waiting, other)
                    && self.fresh.contains(job)
            };
            let tree = ledger.quotas.tree();
            let is_short = |(name, ask): &(&String, &i64)| tree.limits(queue, name) && tree.left(queue, name) < **ask;
            let (name, ask) = ask.iter().find(is_short).filter(|_| queued.iter().all(comes_after))?;
            let by: Vec<&str> = queued.iter().map(|(_, job)| job.name.as_str()).collect();
            let (by, left, waiting) = (by.join(", "), tree.left(queue, name), &waiting.name);
            let what = format!(
                "entry {index}: {by} takes quota of queue {queue}, in which {waiting} comes first and waits for {ask} \
                 of {name}; {left} are left"
            );
            Some(Broken::new("P8", what))
        };
        self.first.iter().filter_map(found).collect()
    }
}

/// The first job of the queue that waits, with what it needs to start, if that is there for sure.
fn first_of(queue: &str, ledger: &Ledger<'_>, now_ms: u64) -> Option<(JobId, Amounts)> {
    if !ledger.quotas.tree().queue(queue)?.admission_checks.is_empty() {
        return None;
    }
    let waits = |job: &JobId| ledger.books.live_of(*job).next().is_none();
    let of_queue = |job: &JobId| ledger.books.jobs.get(job).is_some_and(|spec| spec.queue == queue);
    let jobs = ledger.waiting.active().map(|(job, _)| job).filter(|job| of_queue(job) && waits(job));
    let first = jobs.min_by_key(|job| ledger.turns.of(*job, &ledger.books.jobs[job]))?;
    let spec = &ledger.books.jobs[&first];
    let is_patient = now_ms < ledger.turns.patient_until_ms(first, spec);
    if !is_patient || !ledger.waiting.is_untouched(first) || ledger.admissions.may_hold(first) {
        return None;
    }
    let mut ask = Amounts::new();
    spec.groups.iter().for_each(|group| add(&mut ask, &asks(group, group.min_count.max(1).min(group.count))));
    // What is promised to those for whom others stop is not there for it.
    let is_there = ledger.queue_has(queue, &ask) && !ledger.is_quota_promised(first, spec);
    is_there.then_some((first, ask))
}
