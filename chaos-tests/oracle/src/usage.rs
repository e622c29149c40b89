//! What the parts of queues with `usageBasedOrder` have used, from submissions and what stands, in real numbers: books
//! beside those of the log, which counts in integers.

use crate::books::Books;
use crate::facts::Taken;
use crate::p8_quota::Quotas;
use ohm_model::resources::{PODS, UnitKind};
use ohm_model::{Command, JobSpec, Outcome, UsageBasedOrder};
use std::collections::BTreeMap;

/// What is used now counts as if it went on for so long.
const FORESIGHT_MS: f64 = 300_000.0;
/// Two keys that differ by less than this part of them may be equal.
const TELLABLE: f64 = 1e-6;

/// By resource.
type Uses = BTreeMap<String, f64>;

#[derive(Default)]
struct Book {
    order: UsageBasedOrder,
    /// By subqueue, what is used, and what it has consumed.
    parts: BTreeMap<String, (Uses, Uses)>,
    /// Until when it is counted, in stamped time.
    until_ms: u64,
    /// It had checks once: what jobs reserve is not known here.
    is_unsure: bool,
}

/// The books.
#[derive(Default)]
pub(crate) struct UsageBooks {
    queues: BTreeMap<String, Book>,
    weights: BTreeMap<String, f64>,
}

impl UsageBooks {
    /// Brings the books up to an entry that is over, of this stamped time: what stands by now is in use from then on.
    pub(crate) fn entry_over(&mut self, now_ms: u64, taken: &[Taken<'_>], (books, quotas): (&Books, &Quotas)) {
        self.queues.values_mut().for_each(|book| book.advance(now_ms));
        for (command, outcome) in taken {
            match (command, outcome) {
                (Command::PutSubqueue(subqueue), Outcome::Done) => {
                    self.weights.insert(subqueue.name.clone(), subqueue.weight_milli as f64 / 1000.0);
                }
                (Command::RemoveSubqueue { name }, Outcome::Done) => {
                    self.queues.values_mut().for_each(|book| drop(book.parts.remove(name)));
                }
                (Command::PutQueue(spec), Outcome::Done) => match &spec.usage_based_order {
                    Some(order) => {
                        let new = || Book { until_ms: now_ms, ..Book::default() };
                        let book = self.queues.entry(spec.name.clone()).or_insert_with(new);
                        book.order = order.clone();
                        book.is_unsure |= !spec.admission_checks.is_empty();
                    }
                    None => drop(self.queues.remove(&spec.name)),
                },
                (Command::RemoveQueue { name }, Outcome::Done) => drop(self.queues.remove(name)),
                _ => {}
            }
        }
        if !self.queues.is_empty() {
            self.count(books, quotas);
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
                *used.entry(resource.unwrap_or(&name).to_string()).or_insert(0.0) += amount as f64;
            }
        }
    }

    /// Whether `one` surely comes before `other` in their queue, by what their parts of it have used; nothing where
    /// that does not tell, and then something where it surely does not.
    pub(crate) fn precedes(&self, one: &JobSpec, other: &JobSpec, now_ms: u64) -> Precedence {
        let Some(book) = self.queues.get(&one.queue) else { return Precedence::Equal };
        if book.is_unsure {
            return Precedence::Unknown;
        }
        if one.subqueue == other.subqueue {
            return Precedence::Equal;
        }
        let [first, second] = [one, other].map(|spec| self.key(book, &spec.subqueue, now_ms));
        let tellable =
            first.is_infinite() != second.is_infinite() || (first - second).abs() > TELLABLE * first.max(second);
        match tellable {
            true if first < second => Precedence::Before,
            true => Precedence::After,
            false if first == second => Precedence::Equal,
            false => Precedence::Unknown,
        }
    }

    /// Whether the jobs of a queue come in such an order.
    pub(crate) fn orders(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    fn key(&self, book: &Book, part: &str, now_ms: u64) -> f64 {
        let weight = if part.is_empty() { 1.0 } else { self.weights.get(part).copied().unwrap_or(1.0) };
        if weight == 0.0 {
            return f64::INFINITY;
        }
        let none = Default::default();
        let (used, consumed) = book.parts.get(part).unwrap_or(&none);
        let elapsed_ms = now_ms.saturating_sub(book.until_ms) as f64 + FORESIGHT_MS;
        let counts = |(resource, amount): (String, f64)| {
            let weight = match book.order.resource_weights.get(&resource) {
                Some(weight) => *weight as f64 / 1000.0,
                None => f64::from(u8::from(resource != PODS)),
            };
            let whole = match UnitKind::of(&resource) {
                UnitKind::Milli => 1000.0,
                UnitKind::Whole if resource == "memory" => f64::from(1 << 30),
                UnitKind::Whole => 1.0,
            };
            weight * amount / whole
        };
        mixed(consumed, used, left(elapsed_ms, &book.order)).into_iter().map(counts).sum::<f64>() / weight
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
        let left = left(now_ms.saturating_sub(self.until_ms) as f64, &self.order);
        for (used, consumed) in self.parts.values_mut() {
            *consumed = mixed(consumed, used, left);
        }
        self.until_ms = self.until_ms.max(now_ms);
    }
}

/// How much is left after so long of what was used.
fn left(elapsed_ms: f64, order: &UsageBasedOrder) -> f64 {
    match order.half_life_seconds {
        0 => 0.0,
        seconds => (-elapsed_ms / (seconds as f64 * 1000.0)).exp2(),
    }
}

fn mixed(consumed: &Uses, used: &Uses, left: f64) -> Uses {
    let mut mixed: Uses = consumed.iter().map(|(name, amount)| (name.clone(), amount * left)).collect();
    used.iter().for_each(|(name, amount)| *mixed.entry(name.clone()).or_insert(0.0) += amount * (1.0 - left));
    mixed
}
