//! The quota tree: queues under cohorts, with borrowing and lending (Kueue's cohort arithmetic, restated).
//!
//! For each resource: `local` is what a node never lends; usage beyond it counts in the parent; what is available is
//! the local rest plus what the parent can spare, within the borrowing limit.

use ohm_model::{Amounts, QueueSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most levels of cohorts above a queue, so that a walk to the root is short whatever anybody has put.
pub const DEPTH_MAX: usize = 32;
/// No usage is let above this, whatever the quotas say, so that sums over jobs never overflow.
pub(crate) const USAGE_MAX: i64 = 1 << 62;

/// One resource at one queue or cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// Whether this queue limits the resource at all.
    pub(crate) limited: bool,
    pub(crate) subtree: i64,
    pub(crate) usage: i64,
    /// What is never lent.
    pub(crate) local: i64,
    pub(crate) borrowing: Option<i64>,
}

impl Level {
    /// How much more may be used here, when the cohort above can spare `above`; nothing is the root.
    pub(crate) fn spare(&self, above: Option<i64>) -> i64 {
        let Some(mut above) = above else { return self.subtree.saturating_sub(self.usage) };
        if let Some(limit) = self.borrowing {
            let lent = self.subtree - self.local;
            above = above.min(lent.saturating_sub((self.usage - self.local).max(0)).saturating_add(limit));
        }
        (self.local - self.usage).max(0).saturating_add(above)
    }

    /// Adds `amount` to the usage, and returns how much of it counts in the cohort above.
    pub(crate) fn charge(&mut self, amount: i64) -> i64 {
        let above_before = (self.usage - self.local).max(0);
        self.usage += amount;
        (self.usage - self.local).max(0) - above_before
    }
}

/// One queue or cohort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaNode {
    /// What was asked for.
    pub spec: QueueSpec,
    /// Own nominal amounts and what children lend, by resource.
    pub subtree: Amounts,
    /// What is used here, and what children use beyond their own.
    pub usage: Amounts,
}

impl QuotaNode {
    pub(crate) fn level(&self, resource: &str) -> Level {
        let of = |amounts: &Amounts| amounts.get(resource).copied().unwrap_or(0);
        let subtree = of(&self.subtree);
        Level {
            limited: self.spec.nominal.contains_key(resource),
            subtree,
            usage: of(&self.usage),
            local: self.spec.lending_limit.get(resource).map_or(0, |lent| (subtree - lent).max(0)),
            borrowing: self.spec.borrowing_limit.get(resource).copied(),
        }
    }
}

/// All queues and cohorts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    nodes: Arc<BTreeMap<String, QuotaNode>>,
}

impl Quota {
    /// The queue or cohort called `name`.
    pub fn get(&self, name: &str) -> Option<&QuotaNode> {
        self.nodes.get(name)
    }

    /// All queues and cohorts by name.
    pub fn iter(&self) -> impl Iterator<Item = &QuotaNode> {
        self.nodes.values()
    }

    pub(crate) fn from_nodes(nodes: impl Iterator<Item = QuotaNode>) -> Self {
        Quota { nodes: Arc::new(nodes.map(|node| (node.spec.name.clone(), node)).collect()) }
    }

    /// The topmost cohort above `queue`, or the queue itself.
    pub fn root<'a>(&'a self, queue: &'a str) -> &'a str {
        let mut at = queue;
        for _ in 0..=self.nodes.len() {
            match self.nodes.get(at) {
                Some(node) if !node.spec.parent.is_empty() => at = &node.spec.parent,
                _ => break,
            }
        }
        at
    }

    /// How much more of `resource` the queue may use; nothing is no limit. May be negative after a quota was cut.
    pub fn available(&self, queue: &str, resource: &str) -> Option<i64> {
        self.available_beside(queue, resource, std::iter::empty())
    }

    /// As [`Quota::available`], were each of `held`, a queue and an amount of the resource, charged before.
    pub fn available_beside<'a>(
        &'a self,
        queue: &str,
        resource: &str,
        held: impl Iterator<Item = (&'a str, i64)>,
    ) -> Option<i64> {
        let node = self.nodes.get(queue)?;
        if !node.spec.nominal.contains_key(resource) {
            return None;
        }
        let mut charged: BTreeMap<&str, Level> = BTreeMap::new();
        for (queue, mut amount) in held {
            let mut at = self.nodes.get(queue);
            while let Some(node) = at.filter(|_| amount != 0) {
                amount = charged.entry(&node.spec.name).or_insert_with(|| node.level(resource)).charge(amount);
                at = self.nodes.get(&node.spec.parent);
            }
        }
        Some(self.spare_at(node, resource, &charged, self.nodes.len()))
    }

    fn spare_at(&self, node: &QuotaNode, resource: &str, charged: &BTreeMap<&str, Level>, depth: usize) -> i64 {
        let above = self.nodes.get(&node.spec.parent).filter(|_| depth > 0);
        let level = charged.get(node.spec.name.as_str()).copied().unwrap_or_else(|| node.level(resource));
        level.spare(above.map(|above| self.spare_at(above, resource, charged, depth - 1)))
    }

    /// Adds each amount to the usage of `queue`; negative gives back.
    pub(crate) fn charge(&mut self, queue: &str, amounts: &mut [(&str, i64)]) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let mut at = queue.to_string();
        while let Some(node) = nodes.get_mut(&at)
            && amounts.iter().any(|(_, amount)| *amount != 0)
        {
            for (resource, amount) in amounts.iter_mut().filter(|(_, amount)| *amount != 0) {
                let mut level = node.level(resource);
                *amount = level.charge(*amount);
                match node.usage.get_mut(*resource) {
                    Some(usage) => *usage = level.usage,
                    None => drop(node.usage.insert(resource.to_string(), level.usage)),
                }
            }
            at.clone_from(&node.spec.parent);
        }
    }

    /// How many levels `name` stands below its root, were its parent `parent`; and how many are below it.
    pub(crate) fn depth_under(&self, name: &str, parent: &str) -> usize {
        let above = |from: &str, until: &str| {
            let (mut at, mut steps) = (from, 0);
            while let Some(node) = self.nodes.get(at)
                && at != until
                && steps <= self.nodes.len()
            {
                (at, steps) = (&node.spec.parent, steps + 1);
            }
            (at == until, steps)
        };
        let below = self.nodes.keys().map(|from| above(from, name)).filter(|(reached, _)| *reached);
        above(parent, "").1 + below.map(|(_, steps)| steps).max().unwrap_or(0)
    }

    /// Adds or replaces a queue or cohort, keeping usage. The caller has checked that parents exist without a cycle.
    pub(crate) fn put(&mut self, spec: QueueSpec) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let usage = nodes.get(&spec.name).map(|node| node.usage.clone()).unwrap_or_default();
        nodes.insert(spec.name.clone(), QuotaNode { spec, subtree: Amounts::new(), usage });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.nodes).remove(name);
    }

    /// Recomputes every sum from the direct usage of each queue.
    pub(crate) fn rebuild(&mut self, direct: &BTreeMap<String, Amounts>) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let order = bottom_up(nodes);
        for node in nodes.values_mut() {
            node.subtree.clone_from(&node.spec.nominal);
            node.usage.clear();
        }
        for name in order {
            let (parent, lent) = {
                let node = &nodes[&name];
                let lends = |resource: &String| {
                    let level = node.level(resource);
                    level.subtree - level.local
                };
                let lent: Amounts = node.subtree.keys().map(|resource| (resource.clone(), lends(resource))).collect();
                (node.spec.parent.clone(), lent)
            };
            if let Some(parent) = nodes.get_mut(&parent) {
                for (resource, amount) in lent {
                    let sum = parent.subtree.entry(resource).or_insert(0);
                    *sum = sum.saturating_add(amount);
                }
            }
        }
        for (queue, amounts) in direct {
            let mut amounts: Vec<(&str, i64)> = amounts.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
            self.charge(queue, &mut amounts);
        }
    }
}

/// Names ordered so that children come before their parents.
fn bottom_up(nodes: &BTreeMap<String, QuotaNode>) -> Vec<String> {
    let depth = |name: &String| {
        let (mut at, mut depth) = (name, 0usize);
        while let Some(node) = nodes.get(at)
            && !node.spec.parent.is_empty()
            && depth <= nodes.len()
        {
            at = &node.spec.parent;
            depth += 1;
        }
        depth
    };
    let mut names: Vec<(usize, String)> = nodes.keys().map(|name| (depth(name), name.clone())).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 6] = ["root", "left", "right", "a", "b", "c"];
    const PARENTS: [&str; 6] = ["", "root", "root", "left", "left", "right"];

    fn tree(limits: &[(i64, Option<i64>, Option<i64>)]) -> Quota {
        let mut quota = Quota::default();
        let amounts = |amount: Option<i64>| amount.map(|amount| ("cpu".to_string(), amount)).into_iter().collect();
        for ((name, parent), &(nominal, borrowing, lending)) in NAMES.iter().zip(PARENTS).zip(limits) {
            quota.put(QueueSpec {
                name: name.to_string(),
                is_cohort: !matches!(*name, "a" | "b" | "c"),
                parent: parent.into(),
                nominal: amounts(Some(nominal)),
                borrowing_limit: amounts(borrowing),
                lending_limit: amounts(lending),
                weight_milli: 1000,
                admission_checks: Vec::new(),
            });
        }
        quota.rebuild(&BTreeMap::new());
        quota
    }

    fn limit() -> impl Strategy<Value = Option<i64>> {
        proptest::option::of(0..20i64)
    }

    proptest! {
        /// What is left beside amounts that are only held is what is left once they are charged.
        #[test]
        fn held_amounts_count_as_charged_ones(
            limits in proptest::collection::vec((0..20i64, limit(), limit()), 6),
            charged in proptest::collection::vec((3..6usize, 0..12i64), 0..6),
            held in proptest::collection::vec((3..6usize, 0..12i64), 0..6),
        ) {
            let mut quota = tree(&limits);
            for (queue, amount) in charged {
                quota.charge(NAMES[queue], &mut [("cpu", amount)]);
            }
            let beside = |queue| {
                let held = held.iter().map(|&(held, amount)| (NAMES[held], amount));
                quota.available_beside(queue, "cpu", held)
            };
            let mut after = quota.clone();
            for &(queue, amount) in &held {
                after.charge(NAMES[queue], &mut [("cpu", amount)]);
            }
            for queue in ["a", "b", "c"] {
                prop_assert_eq!(beside(queue), after.available(queue, "cpu"), "{}", queue);
            }
        }
    }
}
