//! The quota tree: queues under cohorts, with borrowing and lending (Kueue's cohort arithmetic, restated).
//!
//! For each resource: `local` is what a node never lends; usage beyond it counts in the parent; what is available is the
//! local rest plus what the parent can spare, within the borrowing limit.

use ohm_model::{Amounts, QueueSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    fn local(&self, resource: &str) -> i64 {
        match self.spec.lending_limit.get(resource) {
            Some(&lent) => (self.of(&self.subtree, resource) - lent).max(0),
            None => 0,
        }
    }

    fn of(&self, amounts: &Amounts, resource: &str) -> i64 {
        amounts.get(resource).copied().unwrap_or(0)
    }
}

/// All queues and cohorts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let node = self.nodes.get(queue)?;
        node.spec.nominal.contains_key(resource).then(|| self.available_at(node, resource, self.nodes.len()))
    }

    fn available_at(&self, node: &QuotaNode, resource: &str, depth: usize) -> i64 {
        let (subtree, usage) = (node.of(&node.subtree, resource), node.of(&node.usage, resource));
        let parent = self.nodes.get(&node.spec.parent).filter(|_| depth > 0);
        let Some(parent) = parent else { return subtree.saturating_sub(usage) };
        let local = node.local(resource);
        let mut from_parent = self.available_at(parent, resource, depth - 1);
        if let Some(&limit) = node.spec.borrowing_limit.get(resource) {
            let lent = subtree - local;
            from_parent = from_parent.min(lent.saturating_sub((usage - local).max(0)).saturating_add(limit));
        }
        (local - usage).max(0).saturating_add(from_parent)
    }

    /// Adds `amount` of `resource` to the usage of `queue`; negative gives back.
    pub(crate) fn charge(&mut self, queue: &str, resource: &str, amount: i64) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let (mut at, mut amount) = (queue.to_string(), amount);
        while amount != 0 {
            let Some(node) = nodes.get_mut(&at) else { return };
            let local = node.local(resource);
            let usage = node.usage.entry(resource.to_string()).or_insert(0);
            let above_before = (*usage - local).max(0);
            *usage += amount;
            amount = (*usage - local).max(0) - above_before;
            at.clone_from(&node.spec.parent);
        }
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
                let lends = |resource: &String| node.of(&node.subtree, resource) - node.local(resource);
                let lent: Amounts = node.subtree.keys().map(|resource| (resource.clone(), lends(resource))).collect();
                (node.spec.parent.clone(), lent)
            };
            if let Some(parent) = nodes.get_mut(&parent) {
                lent.into_iter().for_each(|(resource, amount)| *parent.subtree.entry(resource).or_insert(0) += amount);
            }
        }
        for (queue, amounts) in direct {
            amounts.iter().for_each(|(resource, &amount)| self.charge(queue, resource, amount));
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
