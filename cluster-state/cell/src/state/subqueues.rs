//! Subqueues, and what each of them has used of a queue that orders its jobs by that.
//!
//! A queue with `usageBasedOrder` has a book: of each part of it (a subqueue, or the jobs that name the queue itself,
//! which are the part without a name) what its jobs are charged now, and what it has consumed, which is forgotten by
//! half in each half-life (`state/decay.rs`). Both are brought up to date where a charge changes, so that nothing is
//! sampled.
//!
//! Invariants, swept: exactly the queues with an order have a book; a part uses what its jobs are charged.

use crate::state::decay::{FRACTION, advanced_by, left_after};
use ohm_model::{JobId, ResourceId, Subqueue};
use ohm_stdx::bug::{self, Bug};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What comes first is told by what will have been consumed after so long, if what is used now stays in use: who was
/// placed just now counts at once. Kueue samples that often, and charges a new job as much until then.
pub(crate) const FORESIGHT_MS: u64 = 300_000;

/// How much a subqueue has used, for its weight: whose is smaller comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageKey(pub u128);

impl UsageKey {
    /// Of a subqueue of weight 0.
    pub const LAST: UsageKey = UsageKey(u128::MAX);

    /// Of a job that is served before all others of its queue.
    pub(crate) const FIRST: UsageKey = UsageKey(0);

    /// Of what was used, in parts of [`FRACTION`] bits.
    pub(crate) fn of(used: u128) -> UsageKey {
        UsageKey(used.saturating_add(1).min(u128::MAX - 1))
    }

    /// In whole units of what counts 1, rounded down; nothing where the subqueue comes last whatever it uses.
    pub fn thousandths(self) -> Option<u128> {
        (self != UsageKey::LAST).then(|| self.0.saturating_mul(1000) >> FRACTION)
    }
}

/// What one job is charged, by resource.
pub(crate) type Charged = Vec<(ResourceId, i64)>;

/// One resource of one part of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    resource: ResourceId,
    /// What its jobs are charged now.
    used: i64,
    /// What it had consumed when its charges changed last, with [`FRACTION`] bits below the unit.
    consumed: u128,
}

/// What one part of a queue uses, and has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Usage {
    /// When its charges changed last, in stamped time.
    since_ms: u64,
    /// Sorted by resource.
    by_resource: Vec<Use>,
}

impl Usage {
    fn settle(&mut self, now_ms: u64, half_life_ms: u64) {
        let left = left_after(now_ms.saturating_sub(self.since_ms), half_life_ms);
        for known in self.by_resource.iter_mut().filter(|_| !bug::is_planted(Bug::FreezeSubqueueUsage)) {
            known.consumed = advanced_by(known.consumed, known.used, left);
        }
        self.since_ms = self.since_ms.max(now_ms);
    }

    fn add(&mut self, charged: &Charged, sign: i64) {
        for &(resource, amount) in charged {
            let at = self.by_resource.binary_search_by_key(&resource, |known| known.resource);
            let at = at.unwrap_or_else(|at| {
                self.by_resource.insert(at, Use { resource, used: 0, consumed: 0 });
                at
            });
            self.by_resource[at].used += sign * amount;
        }
        self.by_resource.retain(|known| known.used != 0 || known.consumed != 0);
    }

    fn consumed_by(&self, now_ms: u64, half_life_ms: u64) -> impl Iterator<Item = Use> + '_ {
        let left = left_after(now_ms.saturating_sub(self.since_ms), half_life_ms);
        let advance = move |known: &Use| Use { consumed: advanced_by(known.consumed, known.used, left), ..*known };
        self.by_resource.iter().map(advance)
    }
}

/// What the parts of one queue have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UsageBook {
    half_life_ms: u64,
    parts: BTreeMap<String, Usage>,
}

impl UsageBook {
    /// Of one part, by resource: what is used now, and what it has consumed by `now_ms`, rounded down.
    pub(crate) fn of(&self, part: &str, now_ms: u64) -> Vec<(ResourceId, i64, i64)> {
        let uses = self.parts.get(part).into_iter().flat_map(|usage| usage.consumed_by(now_ms, self.half_life_ms));
        uses.map(|known| (known.resource, known.used, (known.consumed >> FRACTION) as i64)).collect()
    }

    /// Of one part, by resource, what it will have consumed in a while, with [`FRACTION`] bits below the unit, if it
    /// uses what it does at `now_ms`, and `more` besides.
    pub(crate) fn foreseen(&self, part: &str, now_ms: u64, more: &Charged) -> Vec<(ResourceId, u128)> {
        let left = left_after(FORESIGHT_MS, self.half_life_ms);
        let uses = self.parts.get(part).into_iter().flat_map(|usage| usage.consumed_by(now_ms, self.half_life_ms));
        let mut uses: Vec<Use> = uses.collect();
        for &(resource, amount) in more {
            match uses.iter_mut().find(|known| known.resource == resource) {
                Some(known) => known.used = known.used.saturating_add(amount),
                None => uses.push(Use { resource, used: amount, consumed: 0 }),
            }
        }
        uses.into_iter().map(|known| (known.resource, advanced_by(known.consumed, known.used, left))).collect()
    }
}

/// The subqueues of a cell by name, and the books of queues by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subqueues {
    by_name: Arc<BTreeMap<String, Subqueue>>,
    books: Arc<BTreeMap<String, Arc<UsageBook>>>,
    /// In which queue and part each job is charged, and what. Derived from the jobs.
    charged: Arc<BTreeMap<JobId, (String, String, Charged)>>,
}

impl Subqueues {
    /// The subqueue called `name`.
    pub fn get(&self, name: &str) -> Option<&Subqueue> {
        self.by_name.get(name)
    }

    /// All subqueues, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Subqueue> {
        self.by_name.values()
    }

    /// The queues whose jobs come in the order of what their subqueues have used, by name.
    pub fn ordered_queues(&self) -> impl Iterator<Item = &str> {
        self.books.keys().map(String::as_str)
    }

    pub(crate) fn put(&mut self, subqueue: Subqueue) {
        Arc::make_mut(&mut self.by_name).insert(subqueue.name.clone(), subqueue);
    }

    /// Takes a subqueue away that no job names, and with it what it has used.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(subqueue) = Arc::make_mut(&mut self.by_name).remove(name) {
            self.forget(&subqueue.queue, name);
        }
    }

    /// What this part of the queue has used is forgotten; nothing of it is charged.
    pub(crate) fn forget(&mut self, queue: &str, part: &str) {
        if self.books.contains_key(queue) {
            let book = Arc::make_mut(&mut self.books).get_mut(queue).map(Arc::make_mut);
            book.map(|book| book.parts.remove(part));
        }
    }

    /// The book of a queue that has an order.
    pub(crate) fn book(&self, queue: &str) -> Option<&UsageBook> {
        self.books.get(queue).map(AsRef::as_ref)
    }

    pub(crate) fn books(&self) -> impl ExactSizeIterator<Item = (&String, &UsageBook)> {
        self.books.iter().map(|(queue, book)| (queue, &**book))
    }

    /// The queue has this half-life from now on, or no order. Returns whether its jobs are to be charged.
    pub(crate) fn keep_book(&mut self, queue: &str, half_life_ms: Option<u64>, now_ms: u64) -> bool {
        let Some(half_life_ms) = half_life_ms else {
            if self.books.contains_key(queue) {
                Arc::make_mut(&mut self.books).remove(queue);
                Arc::make_mut(&mut self.charged).retain(|_, (known, ..)| known != queue);
            }
            return false;
        };
        let is_new = !self.books.contains_key(queue);
        let book = Arc::make_mut(Arc::make_mut(&mut self.books).entry(queue.to_string()).or_default());
        if book.half_life_ms != half_life_ms {
            book.parts.values_mut().for_each(|usage| usage.settle(now_ms, book.half_life_ms));
            book.half_life_ms = half_life_ms;
        }
        is_new
    }

    /// From `now_ms` on the job is charged this in a part of a queue; nowhere where that has no book.
    pub(crate) fn charge(&mut self, job: JobId, (queue, part): (&str, &str), amounts: Charged, now_ms: u64) {
        let has_book = self.books.contains_key(queue) && !amounts.is_empty();
        let new = has_book.then(|| (queue.to_string(), part.to_string(), amounts));
        if self.charged.get(&job) == new.as_ref() {
            return;
        }
        let charged = Arc::make_mut(&mut self.charged);
        let former = match new.clone() {
            Some(new) => charged.insert(job, new),
            None => charged.remove(&job),
        };
        let books = Arc::make_mut(&mut self.books);
        for ((queue, part, amounts), sign) in former.into_iter().map(|old| (old, -1)).chain(new.map(|new| (new, 1))) {
            let Some(book) = books.get_mut(&queue).map(Arc::make_mut) else { continue };
            let half_life_ms = book.half_life_ms;
            let usage = book.parts.entry(part).or_default();
            usage.settle(now_ms, half_life_ms);
            usage.add(&amounts, sign);
        }
    }

    /// Whether any queue has a book.
    pub(crate) fn keep_any(&self) -> bool {
        !self.books.is_empty()
    }

    /// What each part of each queue uses, by its book; parts that use nothing are left out.
    pub(crate) fn used(&self) -> BTreeMap<(&str, &str), BTreeMap<ResourceId, i64>> {
        let parts = self.books.iter().flat_map(|(queue, book)| book.parts.iter().map(move |part| (queue, part)));
        let used = |usage: &Usage| {
            let uses = usage.by_resource.iter().filter(|known| known.used != 0);
            uses.map(|known| (known.resource, known.used)).collect::<BTreeMap<_, _>>()
        };
        let used = parts.map(|(queue, (part, usage))| ((queue.as_str(), part.as_str()), used(usage)));
        used.filter(|(_, used)| !used.is_empty()).collect()
    }

    /// The parts of a snapshot; what jobs are charged is said afterwards.
    pub(crate) fn from_parts(specs: Vec<Subqueue>, books: Vec<(String, UsageBook)>) -> Self {
        Subqueues {
            by_name: Arc::new(specs.into_iter().map(|subqueue| (subqueue.name.clone(), subqueue)).collect()),
            books: Arc::new(books.into_iter().map(|(queue, book)| (queue, Arc::new(book))).collect()),
            charged: Arc::default(),
        }
    }

    /// With what the jobs are charged, as the books have it already.
    pub(crate) fn with_charged(self, jobs: Vec<(JobId, String, String, Charged)>) -> Self {
        let charged = jobs.into_iter().map(|(job, queue, part, amounts)| (job, (queue, part, amounts)));
        let charged = charged.filter(|(_, (queue, _, amounts))| self.books.contains_key(queue) && !amounts.is_empty());
        Subqueues { charged: Arc::new(charged.collect()), ..self }
    }
}
