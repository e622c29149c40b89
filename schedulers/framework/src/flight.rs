//! Transactions that were sent and not judged yet, as far as the own copy knows.

use crate::explain::Explanation;
use crate::holds::{Holds, Taken};
use crate::plan::PlannedJob;
use ohm_cell::Cell;
use ohm_model::transaction::Row;
use ohm_model::{Claim, ConflictReason, Epoch, Grain, Index, JobId, Sequence, Shard, Transaction, Verdict};
use ohm_queueing::Fare;
use std::collections::BTreeMap;

/// Several plans that travel together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) transaction: Transaction,
    pub(crate) jobs: Vec<FlyingJob>,
    bytes: usize,
    closed: bool,
}

/// One plan of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct FlyingJob {
    pub(crate) job: JobId,
    /// One past its last placement row.
    rows_end: usize,
    /// Whether it is placed, or its quota is reserved.
    starts: bool,
    /// Why nothing more was planned.
    pub(crate) rest: Option<Box<Explanation>>,
    /// What its queue was charged for it.
    pub(crate) fare: Option<Fare>,
}

/// What became of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) planned_tasks: u64,
    pub(crate) accepted_tasks: u64,
    pub(crate) conflict: Option<ConflictReason>,
}

impl Fate {
    /// How much of the plan was refused, and of how much.
    pub(crate) fn refused(&self) -> (u64, u64) {
        match self.planned_tasks {
            0 => (u64::from(self.conflict.is_some()), 1),
            planned => (planned - self.accepted_tasks.min(planned), planned),
        }
    }
}

impl Batch {
    /// A transaction with this plan alone.
    pub(crate) fn new(shard: Shard, epoch: Epoch, seen: Index, plan: PlannedJob, fare: Option<Fare>) -> Self {
        let (grain, guard) = (plan.grain, plan.guard);
        let transaction = Transaction { guard, ..Transaction::empty(shard, epoch, seen, grain) };
        let mut batch = Batch { transaction, jobs: Vec::new(), bytes: 0, closed: !plan.is_mergeable() };
        batch.add(plan, fare);
        batch
    }

    /// Whether this plan may join, so that the whole stays within `limit` bytes.
    pub(crate) fn takes(&self, shard: Shard, plan: &PlannedJob, limit: usize) -> bool {
        let key = |transaction: &Transaction| (transaction.shard, transaction.grain, transaction.guard);
        let same = key(&self.transaction) == (shard, plan.grain, plan.guard);
        same && !self.closed && plan.is_mergeable() && self.bytes + plan.bytes_max() <= limit
    }

    pub(crate) fn add(&mut self, plan: PlannedJob, fare: Option<Fare>) {
        self.bytes += plan.bytes_max();
        let starts = plan.reserve || !plan.place.is_empty();
        let transaction = &mut self.transaction;
        if plan.reserve {
            transaction.reserve.push(plan.job.job);
        }
        transaction.claim.extend(plan.claim.iter().map(|group| Claim { job: plan.job.job, group: *group }));
        transaction.jobs.push(plan.job);
        transaction.jobs.extend(plan.others);
        transaction.flavors.extend(plan.flavors);
        transaction.evict.extend(plan.evict);
        transaction.place.extend(plan.place);
        transaction.nominate.extend(plan.nominate);
        transaction.preempt.extend(plan.preempt);
        transaction.breaks = transaction.breaks.saturating_add(plan.breaks);
        let rows_end = transaction.place.len();
        self.jobs.push(FlyingJob { job: plan.job.job, rows_end, starts, rest: plan.rest, fare });
    }
}

/// What is known of a transaction under way.
///
/// ```text
///        ┌──────── the log judges it, or a server refuses it whole ────────┐
///        │                                                                 ▼
///      Sent ──a server says its verdict──▶ Judged ──the log judges it──▶ landed
///        │                                   │                             ▲
///        └──the own copy jumps──▶ Orphan ◀───┘ the copy jumps, or the      │
///                                   │          session is gone             │
///                                   └───any verdict, also one known before─┘
/// ```
/// From every state a transaction that nobody will judge, or that the cell does not take, is given up.
#[derive(Clone, Debug)]
enum State {
    /// Nobody has said anything.
    Sent,
    /// A server has said the verdict; it counts when the own copy has the entry with this number.
    Judged { sequence: Sequence, verdict: Verdict },
    /// The own copy jumped: it may contain the entry already, or never see it.
    Orphan,
}

/// One transaction under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) jobs: Vec<FlyingJob>,
    pub(crate) taken: Taken,
    state: State,
    /// How often nodes had got better when it was planned.
    pub(crate) improvements: u64,
    counts: Vec<u32>,
    all_or_nothing: bool,
    only_places: bool,
}

impl Flight {
    pub(crate) fn new(cell: &Cell, holds: &mut Holds, batch: &mut Batch, improvements: u64) -> Self {
        let transaction = &batch.transaction;
        let kept = transaction.nominate.len() + transaction.reserve.len() + transaction.claim.len();
        let others = transaction.evict.len() + transaction.preempt.len() + kept;
        let taken = holds.take(cell, transaction);
        Flight {
            jobs: std::mem::take(&mut batch.jobs),
            taken,
            state: State::Sent,
            improvements,
            counts: transaction.place.iter().map(|placement| placement.count).collect(),
            all_or_nothing: transaction.grain == Grain::AllOrNothing,
            only_places: others == 0,
        }
    }

    /// Whether its entry may never be seen.
    pub(crate) fn is_orphan(&self) -> bool {
        matches!(self.state, State::Orphan)
    }

    /// Whether the verdict says that nothing at all came of it. Then it may be believed before the own copy has it: the
    /// server turned it away, or the log did.
    fn is_refused_whole(&self, verdict: &Verdict) -> bool {
        let none = verdict.accepted.len() == self.counts.len() && verdict.accepted.iter().all(|count| *count == 0);
        let by_whole = verdict.conflicts.iter().any(|conflict| conflict.row == Row::Whole);
        !verdict.conflicts.is_empty() && (by_whole || self.all_or_nothing || (none && self.only_places))
    }

    /// What became of each plan, in the order of `jobs`.
    pub(crate) fn fates(&self, verdict: &Verdict) -> Vec<Fate> {
        let nothing = Fate { planned_tasks: 0, accepted_tasks: 0, conflict: None };
        let mut fates = vec![nothing; self.jobs.len()];
        for conflict in &verdict.conflicts {
            match conflict.row {
                Row::Place(row) => {
                    let at = self.jobs.partition_point(|job| job.rows_end <= row as usize);
                    if let Some(fate) = fates.get_mut(at) {
                        fate.conflict.get_or_insert(conflict.reason);
                    }
                }
                // The rows of its job are refused, too.
                Row::Flavor(_) => {}
                Row::Whole | Row::Evict(_) | Row::Nominate(_) | Row::Reserve(_) | Row::Claim(_) | Row::Preempt(_) => {
                    for fate in &mut fates {
                        fate.conflict.get_or_insert(conflict.reason);
                    }
                }
            }
        }
        let mut row = 0;
        for (fate, job) in fates.iter_mut().zip(&self.jobs) {
            for at in row..job.rows_end {
                let accepted = if verdict.accepted.is_empty() { self.counts.get(at) } else { verdict.accepted.get(at) };
                fate.planned_tasks += u64::from(self.counts.get(at).copied().unwrap_or(0));
                fate.accepted_tasks += u64::from(accepted.copied().unwrap_or(0));
            }
            row = job.rows_end;
        }
        fates
    }
}

/// All transactions under way, and which job is in which.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    flights: BTreeMap<u64, Flight>,
    jobs: BTreeMap<JobId, u64>,
    next: u64,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Whether a job is under way to its start.
    pub(crate) fn starts(&self, job: JobId) -> bool {
        let flight = self.jobs.get(&job).and_then(|tag| self.flights.get(tag));
        flight.is_some_and(|flight| flight.jobs.iter().any(|flying| flying.job == job && flying.starts))
    }

    pub(crate) fn add(&mut self, flight: Flight) -> u64 {
        self.next += 1;
        for job in &flight.jobs {
            self.jobs.insert(job.job, self.next);
        }
        self.flights.insert(self.next, flight);
        self.next
    }

    pub(crate) fn remove(&mut self, tag: u64) -> Option<Flight> {
        let flight = self.flights.remove(&tag)?;
        for job in &flight.jobs {
            self.jobs.remove(&job.job);
        }
        Some(flight)
    }

    /// A server has said the verdict on the transaction under `tag`, which was sent with this number. Returns whether
    /// it may be believed at once.
    pub(crate) fn judge(&mut self, tag: u64, sequence: Sequence, verdict: &Verdict) -> bool {
        let Some(flight) = self.flights.get_mut(&tag) else { return false };
        let at_once = flight.is_orphan() || flight.is_refused_whole(verdict);
        if !at_once {
            flight.state = State::Judged { sequence, verdict: verdict.clone() };
        }
        at_once
    }

    /// The transaction of which a server said the verdict, and the verdict, now that the own copy has its entry.
    pub(crate) fn judged_by(&self, answered: Sequence) -> Option<(u64, Verdict)> {
        self.flights.iter().find_map(|(tag, flight)| match &flight.state {
            State::Judged { sequence, verdict } if *sequence == answered => Some((*tag, verdict.clone())),
            _ => None,
        })
    }

    /// Makes orphans of all that a server has judged, and returns them with their verdicts.
    pub(crate) fn orphan_judged(&mut self) -> Vec<(u64, Verdict)> {
        let mut found = Vec::new();
        for (tag, flight) in &mut self.flights {
            if let State::Judged { verdict, .. } = &mut flight.state {
                found.push((*tag, std::mem::take(verdict)));
                flight.state = State::Orphan;
            }
        }
        found
    }

    /// The own copy was replaced: no entry of these may ever be seen.
    pub(crate) fn orphan_all(&mut self) {
        self.flights.values_mut().for_each(|flight| flight.state = State::Orphan);
    }
}
