//! Who is counted, and how many of them stand in each domain.

use super::ground::{GroundId, GroundSpec};
use ohm_model::neighbours::selects;
use ohm_model::selector::Labels;
use ohm_model::{Namespace, NeighbourTerm, Requirement};
use std::collections::BTreeMap;

/// The number of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CounterId(pub(super) u32);

/// Which tasks a counter counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    /// Those that all of these terms mean.
    Meant(Vec<NeighbourTerm>),
    /// Those of a namespace with such labels that are not to stop. An empty selector counts none of them, as in
    /// Kubernetes.
    Spread(String, Option<Vec<Requirement>>),
    /// Those whose own group must not be near what this term means.
    Repelling(NeighbourTerm),
    /// Those whose own group likes to be near what this term means, by this weight; below zero does not like it.
    Liking(i32, NeighbourTerm),
}

impl Whom {
    /// Whether tasks with these labels, in this namespace, are counted by their labels.
    pub(super) fn means(&self, namespace: &Namespace, labels: &Labels) -> bool {
        match self {
            Whom::Meant(terms) => terms.iter().all(|term| term.is_about(namespace) && term.selects(labels)),
            Whom::Spread(of, selector) => {
                let counts = selector.as_ref().is_some_and(|selector| !selector.is_empty());
                counts && *of == namespace.name && selects(selector, labels)
            }
            Whom::Repelling(_) | Whom::Liking(..) => false,
        }
    }

    /// By how much those that are counted like to be near tasks with these labels; nothing where it is no matter to
    /// them.
    pub(super) fn likes(&self, namespace: &Namespace, labels: &Labels) -> Option<i32> {
        match self {
            Whom::Liking(weight, term) if term.is_about(namespace) && term.selects(labels) => Some(*weight),
            _ => None,
        }
    }

    /// Whether tasks with these labels are what must not be near those that are counted.
    pub(super) fn repels(&self, namespace: &Namespace, labels: &Labels) -> bool {
        matches!(self, Whom::Repelling(term) if term.is_about(namespace) && term.selects(labels))
    }
}

/// What makes a counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CounterSpec {
    pub(super) ground: GroundSpec,
    pub(super) whom: Whom,
}

/// How many tasks stand in each domain.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) ground: GroundId,
    pub(super) spec: CounterSpec,
    pub(super) users: u32,
    by_domain: BTreeMap<u32, u32>,
    /// How many domains have so many tasks; without those that have none.
    levels: BTreeMap<u32, u32>,
    total: u64,
}

impl Counter {
    pub(super) fn new(spec: CounterSpec, ground: GroundId) -> Self {
        Counter { ground, spec, users: 0, by_domain: BTreeMap::new(), levels: BTreeMap::new(), total: 0 }
    }

    /// Whether tasks that are to stop don't count.
    pub(crate) fn skips_stopping(&self) -> bool {
        matches!(self.spec.whom, Whom::Spread(..))
    }

    /// How many tasks there are in all domains.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How many tasks there are in one.
    #[inline]
    pub(crate) fn count(&self, domain: u32) -> u32 {
        self.by_domain.get(&domain).copied().unwrap_or(0)
    }

    /// The domains with tasks, and how many.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.by_domain.iter().map(|(domain, count)| (*domain, *count))
    }

    /// How many domains have so many tasks, ascending; without those that have none.
    pub(crate) fn levels(&self) -> &BTreeMap<u32, u32> {
        &self.levels
    }

    pub(super) fn add(&mut self, domain: u32, by: i64) {
        let before = self.count(domain);
        let after = (i64::from(before) + by).max(0) as u32;
        if before > 0
            && let Some(domains) = self.levels.get_mut(&before)
        {
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(&before);
            }
        }
        if after > 0 {
            *self.levels.entry(after).or_insert(0) += 1;
            self.by_domain.insert(domain, after);
        } else {
            self.by_domain.remove(&domain);
        }
        self.total = self.total + u64::from(after) - u64::from(before);
    }
}
