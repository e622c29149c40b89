//! Who should have how much of one resource when every queue has endless work: Kueue's quota tree and fair sharing
//! (sections 1 and 5 of its semantics), poured out in small portions.
//!
//! The next portion goes to the queue that wins at every cohort from the root down: who does not borrow by it comes
//! first, then who has the smaller share, both with the portion added. A queue to which no more is available is out.

use std::collections::BTreeMap;

/// So much is given out at a time, in cpus.
const PORTION: f64 = 0.02;
const NEARLY: f64 = 1e-9;

/// A queue or a cohort.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    /// The place of the cohort above; parents come before their children.
    pub parent: Option<usize>,
    pub is_cohort: bool,
    pub nominal: f64,
    pub weight: f64,
    pub borrowing_limit: Option<f64>,
    pub lending_limit: Option<f64>,
}

struct Tree<'a> {
    nodes: &'a [Node],
    /// What a node and all below it have, as far as it can be seen from there.
    subtree: Vec<f64>,
    /// What of that nobody above sees.
    local: Vec<f64>,
    /// The most that it could ever use.
    potential: Vec<f64>,
    usage: Vec<f64>,
}

/// How a child does in the contest of its cohort, with its portion added.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Standing {
    borrows: bool,
    share: f64,
}

impl<'a> Tree<'a> {
    fn new(nodes: &'a [Node]) -> Self {
        let mut subtree: Vec<f64> = nodes.iter().map(|node| node.nominal).collect();
        let mut local = vec![0.0; nodes.len()];
        for at in (0..nodes.len()).rev() {
            local[at] = nodes[at].lending_limit.map_or(0.0, |limit| (subtree[at] - limit).max(0.0));
            if let Some(parent) = nodes[at].parent {
                subtree[parent] += subtree[at] - local[at];
            }
        }
        let mut potential = subtree.clone();
        for (at, node) in nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                let most = local[at] + potential[parent];
                potential[at] = node.borrowing_limit.map_or(most, |limit| most.min(subtree[at] + limit));
            }
        }
        let usage = vec![0.0; nodes.len()];
        Tree { nodes, subtree, local, potential, usage }
    }

    fn available(&self, at: usize) -> f64 {
        let Some(parent) = self.nodes[at].parent else { return self.subtree[at] - self.usage[at] };
        let (usage, local, subtree) = (self.usage[at], self.local[at], self.subtree[at]);
        let above = self.available(parent);
        let bound = self.nodes[at].borrowing_limit.map(|limit| subtree - local - (usage - local).max(0.0) + limit);
        (local - usage).max(0.0) + bound.map_or(above, |bound| above.min(bound))
    }

    /// What `amount` more of a queue adds to it and to each node above it.
    fn added(&self, queue: usize, amount: f64) -> Vec<(usize, f64)> {
        let (mut added, mut next, mut amount) = (Vec::new(), Some(queue), amount);
        while let Some(at) = next {
            added.push((at, amount));
            let hidden = |usage: f64| (usage - self.local[at]).max(0.0);
            amount = hidden(self.usage[at] + amount) - hidden(self.usage[at]);
            next = self.nodes[at].parent;
        }
        added
    }

    fn standing(&self, at: usize, amount: f64) -> Standing {
        let Some(parent) = self.nodes[at].parent else { return Standing { borrows: false, share: 0.0 } };
        let borrowed = (self.usage[at] + amount - self.subtree[at]).max(0.0);
        let borrows = borrowed > NEARLY;
        let share = if borrows { borrowed / self.potential[parent].max(NEARLY) / self.nodes[at].weight } else { 0.0 };
        Standing { borrows, share }
    }

    /// The queue below `at` whose turn it is, of those that are open.
    fn winner(&self, at: usize, children: &[Vec<usize>], open: &[bool]) -> Option<usize> {
        if !self.nodes[at].is_cohort {
            return open[at].then_some(at);
        }
        let contest = children[at].iter().filter_map(|&child| {
            let queue = self.winner(child, children, open)?;
            let amount = self.added(queue, PORTION).into_iter().find(|(node, _)| *node == child)?.1;
            Some((self.standing(child, amount), queue))
        });
        contest
            .min_by(|(one, _), (other, _)| one.partial_cmp(other).expect("no share is no number"))
            .map(|(_, queue)| queue)
    }
}

/// The fair usage of each queue. `nodes` is one tree, its root first.
pub fn fair_usage(nodes: &[Node]) -> BTreeMap<String, f64> {
    let mut tree = Tree::new(nodes);
    let mut children = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent].push(at);
        }
    }
    let mut open: Vec<bool> = nodes.iter().map(|node| !node.is_cohort).collect();
    while let Some(queue) = tree.winner(0, &children, &open) {
        if tree.available(queue) + NEARLY < PORTION {
            open[queue] = false;
            continue;
        }
        for (at, amount) in tree.added(queue, PORTION) {
            tree.usage[at] += amount;
        }
    }
    let queues = nodes.iter().zip(&tree.usage).filter(|(node, _)| !node.is_cohort);
    queues.map(|(node, usage)| (node.name.clone(), *usage)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, parent: Option<usize>, nominal: f64, weight: f64) -> Node {
        let is_cohort = name.starts_with('C');
        let (borrowing_limit, lending_limit) = (None, None);
        Node { name: name.into(), parent, is_cohort, nominal, weight, borrowing_limit, lending_limit }
    }

    fn check(nodes: &[Node], expected: &[(&str, f64)]) {
        let found = fair_usage(nodes);
        for (name, usage) in expected {
            assert!((found[*name] - usage).abs() < 0.1, "{name}: {found:?}");
        }
    }

    #[test]
    fn what_is_left_over_goes_by_weight_beyond_what_each_has() {
        let flat = [node("C", None, 8.0, 1.0), node("a", Some(0), 2.0, 3.0), node("b", Some(0), 2.0, 1.0)];
        check(&flat, &[("a", 8.0), ("b", 4.0)]);
        let mut bounded = flat.clone();
        bounded[1].borrowing_limit = Some(1.0);
        check(&bounded, &[("a", 3.0), ("b", 9.0)]);
        let mut kept = flat.to_vec();
        kept.push(Node { lending_limit: Some(0.0), ..node("c", Some(0), 5.0, 1.0) });
        kept[3].borrowing_limit = Some(0.0);
        check(&kept, &[("a", 8.0), ("b", 4.0), ("c", 5.0)]);
    }

    #[test]
    fn cohorts_share_before_their_queues_do() {
        let nodes = [
            node("C", None, 12.0, 1.0),
            node("Cl", Some(0), 0.0, 2.0),
            node("Cr", Some(0), 0.0, 1.0),
            node("a", Some(1), 0.0, 1.0),
            node("b", Some(2), 0.0, 1.0),
            node("c", Some(2), 0.0, 3.0),
        ];
        check(&nodes, &[("a", 8.0), ("b", 1.0), ("c", 3.0)]);
    }
}
