//! What the parts of queues with `usageBasedOrder` have used, from submissions and what stands: books beside those of
//! the log, with an arithmetic of their own. What is left after a part of a half-life is made of square roots of one
//! half.

use crate::books::Books;
use crate::facts::Taken;
use crate::p8_quota::Quotas;
use ohm_model::resources::{PODS, UnitKind};
use ohm_model::{Command, JobSpec, Outcome, QueueSpec, UsageBasedOrder};
use std::collections::{BTreeMap, BTreeSet};

/// What is used now counts as if it went on for so long.
const FORESIGHT_MS: u64 = 300_000;
/// Two keys that differ by less than this part of them may be equal.
const TELLABLE: u128 = 1_000_000;
/// So many bits of an amount are below its unit.
const BITS: u32 = 32;
/// So many bits of what is left of 1 are below 1.
const LEFT_BITS: u32 = 40;

/// By resource, with [`BITS`] below the unit.
type Uses = BTreeMap<String, u128>;

#[derive(Default)]
struct Book {
    order: UsageBasedOrder,
    /// By subqueue, what is used, and what it has consumed.
    parts: BTreeMap<String, (Uses, Uses)>,
    /// Until when it is counted, in stamped time.
    until_ms: u64,
}

/// The books.
#[derive(Default)]
pub(crate) struct UsageBooks {
    queues: BTreeMap<String, Book>,
    weights_milli: BTreeMap<String, u64>,
    /// Queues that had checks once, or of which a job reserved quota: how much is reserved is not known here.
    unsure: BTreeSet<String>,
}

impl UsageBooks {
    /// Brings the books up to an entry that is over, of this stamped time: what stands by now is in use from then on.
    pub(crate) fn entry_over(&mut self, now_ms: u64, taken: &[Taken<'_>], (books, quotas): (&Books, &Quotas)) {
        self.queues.values_mut().for_each(|book| book.advance(now_ms));
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::PutSubqueue(subqueue), Outcome::Done) => {
                    self.weights_milli.insert(subqueue.name.clone(), subqueue.weight_milli);
                }
                (Command::RemoveSubqueue { name }, Outcome::Done) => {
                    self.queues.values_mut().for_each(|book| drop(book.parts.remove(name)));
                }
                (Command::PutQueue(spec), Outcome::Done) => self.put(spec, now_ms),
                (Command::Commit(transaction), _) => {
                    let specs = transaction.reserve.iter().filter_map(|job| books.jobs.get(job));
                    self.unsure.extend(specs.map(|spec| spec.queue.clone()));
                }
                (Command::RemoveQueue { name }, Outcome::Done) => drop(self.queues.remove(name)),
                _ => {}
            }
        }
        if !self.queues.is_empty() {
            self.count(books, quotas);
        }
    }

    fn put(&mut self, spec: &QueueSpec, now_ms: u64) {
        if !spec.admission_checks.is_empty() {
            self.unsure.insert(spec.name.clone());
        }
        match &spec.usage_based_order {
            Some(order) => {
                let new = || Book { until_ms: now_ms, ..Book::default() };
                let book = self.queues.entry(spec.name.clone()).or_insert_with(new);
                book.order = UsageBasedOrder::clone(order);
            }
            None => drop(self.queues.remove(&spec.name)),
        }
    }

    fn count(&mut self, books: &Books, quotas: &Quotas) {
        self.queues.values_mut().flat_map(|book| book.parts.values_mut()).for_each(|(used, _)| used.clear());
        for (job, spec) in &books.jobs {
            let Some(book) = self.queues.get_mut(&spec.queue) else { continue };
            let charged = quotas.charged(*job, books);
            if charged.is_empty() {
                continue;
            }
            let (used, _) = book.parts.entry(spec.subqueue.clone()).or_default();
            for (name, amount) in charged {
                let resource = name.split_once(':').map(|(_, resource)| resource);
                let amount = u128::from(amount.max(0).unsigned_abs()) << BITS;
                *used.entry(resource.unwrap_or(&name).to_string()).or_insert(0) += amount;
            }
        }
    }

    /// Whether `one` surely comes before `other` in their queue, by what their parts of it have used; nothing where
    /// that does not tell, and then something where it surely does not.
    pub(crate) fn precedes(&self, one: &JobSpec, other: &JobSpec, now_ms: u64) -> Precedence {
        let Some(book) = self.queues.get(&one.queue) else { return Precedence::Equal };
        if self.unsure.contains(&one.queue) {
            return Precedence::Unknown;
        }
        if one.subqueue == other.subqueue {
            return Precedence::Equal;
        }
        let [first, second] = [one, other].map(|spec| self.key(book, &spec.subqueue, now_ms));
        let far_apart = |one: u128, other: u128| one.abs_diff(other) > one.max(other) / TELLABLE;
        let tellable = first.is_none() != second.is_none() || first.zip(second).is_some_and(|(a, b)| far_apart(a, b));
        // Who has no key comes last.
        let comes_before = first.is_some_and(|first| second.is_none_or(|second| first < second));
        match tellable {
            true if comes_before => Precedence::Before,
            true => Precedence::After,
            false if first == second => Precedence::Equal,
            false => Precedence::Unknown,
        }
    }

    /// Whether the jobs of a queue come in such an order.
    pub(crate) fn orders(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// What a part has used for its weight; nothing of one without weight, which comes last.
    fn key(&self, book: &Book, part: &str, now_ms: u64) -> Option<u128> {
        let weight_milli = if part.is_empty() { 1000 } else { self.weights_milli.get(part).copied().unwrap_or(1000) };
        let none = Default::default();
        let (used, consumed) = book.parts.get(part).unwrap_or(&none);
        let elapsed_ms = now_ms.saturating_sub(book.until_ms) + FORESIGHT_MS;
        let counts = |(resource, amount): (String, u128)| {
            let counts_milli = match book.order.resource_weights.get(&resource) {
                Some(counts_milli) => *counts_milli,
                None => u64::from(resource != PODS) * 1000,
            };
            let whole = match UnitKind::of(&resource) {
                UnitKind::Milli => 1000,
                UnitKind::Whole if resource == "memory" => 1 << 30,
                UnitKind::Whole => 1,
            };
            amount * u128::from(counts_milli) / whole
        };
        let sum: u128 = mixed(consumed, used, left(elapsed_ms, &book.order)).into_iter().map(counts).sum();
        sum.checked_div(u128::from(weight_milli))
    }
}

/// Who of two comes first, by what their parts have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    Before,
    After,
    /// Something else tells.
    Equal,
    Unknown,
}

impl Book {
    fn advance(&mut self, now_ms: u64) {
        let left = left(now_ms.saturating_sub(self.until_ms), &self.order);
        for (used, consumed) in self.parts.values_mut() {
            *consumed = mixed(consumed, used, left);
        }
        self.until_ms = self.until_ms.max(now_ms);
    }
}

/// How much of 1 is left after so long of what was used, with [`LEFT_BITS`] below 1.
fn left(elapsed_ms: u64, order: &UsageBasedOrder) -> u128 {
    let half_life_ms = order.half_life_seconds * 1000;
    if half_life_ms == 0 {
        return 0;
    }
    let (halvings, mut rest_ms) = (elapsed_ms / half_life_ms, elapsed_ms % half_life_ms);
    let (mut left, mut root) = (1u128 << LEFT_BITS, 1u128 << (LEFT_BITS - 1));
    for _ in 0..LEFT_BITS {
        root = (root << LEFT_BITS).isqrt();
        rest_ms *= 2;
        if rest_ms >= half_life_ms {
            rest_ms -= half_life_ms;
            left = (left * root) >> LEFT_BITS;
        }
    }
    left.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
}

fn mixed(consumed: &Uses, used: &Uses, left: u128) -> Uses {
    let mut mixed: Uses = consumed.iter().map(|(name, amount)| (name.clone(), (amount * left) >> LEFT_BITS)).collect();
    let new = (1u128 << LEFT_BITS) - left;
    used.iter().for_each(|(name, amount)| *mixed.entry(name.clone()).or_insert(0) += (amount * new) >> LEFT_BITS);
    mixed
}

#[cfg(test)]
mod tests {
    use super::{LEFT_BITS, left};
    use ohm_model::UsageBasedOrder;

    #[test]
    fn half_is_left_after_a_half_life_and_seven_tenths_after_half_of_one() {
        let order = UsageBasedOrder { half_life_seconds: 600, ..UsageBasedOrder::default() };
        let millionths = |elapsed_ms| (left(elapsed_ms, &order) * 1_000_000) >> LEFT_BITS;
        assert_eq!([0, 300_000, 600_000, 900_000].map(millionths), [1_000_000, 707_106, 500_000, 353_553]);
        assert_eq!(millionths(600_000 * 300), 0);
    }
}
