//! The quota tree: queues under cohorts, with borrowing and lending (Kueue's cohort arithmetic, restated).
//!
//! For each resource: `local` is what a node never lends; usage beyond it counts in the parent; what is available is
//! the local rest plus what the parent can spare, within the borrowing limit. All sums stand in columns by resource.
//! What a plan or a transaction under judgement takes is laid over them as differences ([`Grid`]), by the same
//! arithmetic.
//!
//! Invariants: nodes are sorted by name; the usage of a queue is what its own jobs hold, that of a cohort what passes
//! the `local` amounts of those below it.

use crate::rooms::grid::Grid;
use crate::state::resources::ResourceNames;
use ohm_model::{Amounts, QueueSpec, ResourceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most levels of cohorts above a queue, so that a walk to the root is short whatever anybody has put.
pub const DEPTH_MAX: usize = 32;
/// No usage is let above this, whatever the quotas say, so that sums over jobs never overflow.
pub(crate) const USAGE_MAX: i64 = 1 << 62;

/// Resources that are worked out at once: one walk up the tree for what a task asks for.
pub(crate) const AT_ONCE: usize = 4;

/// A queue or cohort of one copy of the cell, valid until queues are put or removed. Never written anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(u32);

/// One resource at one queue or cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Level {
    /// Whether this queue limits the resource at all.
    limited: bool,
    /// The own nominal amount and what those below lend.
    subtree: i64,
    /// What is used here, and what those below use beyond their own.
    usage: i64,
    /// What is never lent.
    local: i64,
    /// How much may be borrowed; nothing is no limit.
    borrowing: Option<i64>,
}

impl Level {
    const NONE: Level = Level { limited: false, subtree: 0, usage: 0, local: 0, borrowing: None };

    /// How much more may be used here beside `usage`, when the cohort above can spare `above`; nothing is the root.
    fn spare(&self, usage: i64, above: Option<i64>) -> i64 {
        let Some(mut above) = above else { return self.subtree.saturating_sub(usage) };
        if let Some(limit) = self.borrowing {
            let lent = self.subtree - self.local;
            above = above.min(lent.saturating_sub((usage - self.local).max(0)).saturating_add(limit));
        }
        (self.local - usage).max(0).saturating_add(above)
    }

    /// How much of `amount`, charged on top of `usage`, counts in the cohort above.
    fn passed_on(&self, usage: i64, amount: i64) -> i64 {
        (usage + amount - self.local).max(0) - (usage - self.local).max(0)
    }
}

/// One queue or cohort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaNode {
    /// What was asked for.
    pub spec: QueueSpec,
    /// Where its cohort is among the nodes.
    above: Option<u32>,
    /// By resource; what is beyond the end is neither limited nor used.
    columns: Vec<Level>,
}

impl QuotaNode {
    /// What is used of `resource` here: by the own jobs, and beyond their own by those below.
    pub fn used(&self, resource: ResourceId) -> i64 {
        self.level(resource).usage
    }

    /// Whether the queue limits any resource.
    pub(crate) fn limits_anything(&self) -> bool {
        self.columns.iter().any(|level| level.limited)
    }

    /// The resources that are used here or given by those below, with both amounts.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (ResourceId, i64, i64)> + '_ {
        let columns = self.columns.iter().enumerate();
        let sums = columns.map(|(column, level)| (ResourceId(column as u16), level.usage, level.subtree));
        sums.filter(|(_, usage, subtree)| (*usage, *subtree) != (0, 0))
    }

    fn level(&self, resource: ResourceId) -> &Level {
        self.columns.get(usize::from(resource.0)).unwrap_or(&Level::NONE)
    }
}

/// All queues and cohorts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    nodes: Arc<Vec<QuotaNode>>,
}

impl Quota {
    /// Where the queue or cohort called `name` is.
    pub fn find(&self, name: &str) -> Option<QueueId> {
        if name.is_empty() {
            return None;
        }
        let at = self.nodes.binary_search_by(|node| node.spec.name.as_str().cmp(name)).ok()?;
        Some(QueueId(at as u32))
    }

    /// As [`Quota::find`], where it probably is one of `near`.
    pub(crate) fn find_near(&self, name: &str, near: [Option<QueueId>; 2]) -> Option<QueueId> {
        let is_it = |queue: &QueueId| self.at(*queue).spec.name == name;
        near.into_iter().flatten().find(is_it).or_else(|| self.find(name))
    }

    /// The queue or cohort called `name`.
    pub fn get(&self, name: &str) -> Option<&QuotaNode> {
        self.find(name).map(|at| self.at(at))
    }

    /// All queues and cohorts by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &QuotaNode> {
        self.nodes.iter()
    }

    /// What is at this place.
    pub(crate) fn at(&self, queue: QueueId) -> &QuotaNode {
        &self.nodes[queue.0 as usize]
    }

    fn above(&self, queue: QueueId) -> Option<QueueId> {
        self.at(queue).above.map(QueueId)
    }

    /// The nodes of a snapshot, which are sorted by name.
    pub(crate) fn from_nodes(nodes: Vec<QuotaNode>) -> Self {
        Quota { nodes: Arc::new(nodes) }
    }

    /// The topmost cohort above `queue`, or the queue itself.
    pub fn root<'a>(&'a self, queue: &'a str) -> &'a str {
        let Some(mut at) = self.find(queue) else { return queue };
        while let Some(above) = self.above(at) {
            at = above;
        }
        &self.at(at).spec.name
    }

    /// How much more of `resource` the queue may use; nothing is no limit. May be negative after a quota was cut.
    pub fn available(&self, queue: &str, resource: ResourceId) -> Option<i64> {
        self.available_over(self.find(queue)?, resource, &Grid::default())
    }

    /// As [`Quota::available`], with the usage that `over` adds.
    pub(crate) fn available_over(&self, queue: QueueId, resource: ResourceId, over: &Grid) -> Option<i64> {
        let (mut spare, mut room_in_sums) = ([0; AT_ONCE], [USAGE_MAX; AT_ONCE]);
        self.spare_over(queue, &[(resource, 0)], over, (&mut spare, &mut room_in_sums));
        self.at(queue).level(resource).limited.then_some(spare[0])
    }

    /// How much more of each resource, at most [`AT_ONCE`] of them, may be charged to the queue. Where nothing limits
    /// it, what sums can still hold.
    #[inline]
    pub(crate) fn left_over(&self, queue: QueueId, asked: &[(ResourceId, i64)], over: &Grid) -> [i64; AT_ONCE] {
        let (mut spare, mut room_in_sums) = ([0; AT_ONCE], [USAGE_MAX; AT_ONCE]);
        self.spare_over(queue, asked, over, (&mut spare, &mut room_in_sums));
        let node = self.at(queue);
        for ((resource, _), (spare, room)) in asked.iter().zip(spare.into_iter().zip(&mut room_in_sums)) {
            if node.level(*resource).limited {
                *room = spare.min(*room);
            }
        }
        room_in_sums
    }

    /// What the queue may use more of each resource, and what the sums from here to the root can still hold.
    fn spare_over(
        &self,
        queue: QueueId,
        asked: &[(ResourceId, i64)],
        over: &Grid,
        (spare, room_in_sums): (&mut [i64; AT_ONCE], &mut [i64; AT_ONCE]),
    ) {
        let node = self.at(queue);
        if let Some(above) = node.above {
            self.spare_over(QueueId(above), asked, over, (spare, room_in_sums));
        }
        let added = over.peek(queue.0 as usize);
        for ((resource, _), (spare, room)) in asked.iter().zip(spare.iter_mut().zip(room_in_sums)) {
            let level = node.level(*resource);
            let usage = level.usage + added.get(usize::from(resource.0)).copied().unwrap_or(0);
            *spare = level.spare(usage, node.above.map(|_| *spare));
            *room = (*room).min(USAGE_MAX - usage);
        }
    }

    /// Adds `amount` to the usage of the queue in `over`, and what passes its own to those above; negative gives back.
    pub(crate) fn charge_over(&self, queue: QueueId, resource: ResourceId, amount: i64, over: &mut Grid) {
        self.charge_all_over(queue, &[(resource, amount)], 1, over);
    }

    /// As [`Quota::charge_over`] with so many times each of these amounts.
    pub(crate) fn charge_all_over(&self, queue: QueueId, amounts: &[(ResourceId, i64)], times: i64, over: &mut Grid) {
        for amounts in amounts.chunks(AT_ONCE) {
            let width = amounts.iter().map(|(resource, _)| usize::from(resource.0) + 1).max().unwrap_or(0);
            let mut rest = [0; AT_ONCE];
            amounts.iter().zip(&mut rest).for_each(|((_, amount), rest)| *rest = amount.saturating_mul(times));
            let mut at = Some(queue.0);
            while let Some(here) = at
                && rest.iter().fold(0, |any, rest| any | rest) != 0
            {
                let node = &self.nodes[here as usize];
                let added = over.row(here as usize, width);
                for ((resource, _), rest) in amounts.iter().zip(&mut rest) {
                    let (level, added) = (node.level(*resource), &mut added[usize::from(resource.0)]);
                    let passed_on = level.passed_on(level.usage + *added, *rest);
                    *added += *rest;
                    *rest = passed_on;
                }
                at = node.above;
            }
        }
    }

    /// Adds each amount to the usage of `queue`; negative gives back.
    pub(crate) fn charge(&mut self, queue: &str, amounts: impl Iterator<Item = (ResourceId, i64)>) {
        let Some(queue) = self.find(queue) else { return };
        let nodes = Arc::make_mut(&mut self.nodes);
        for (resource, amount) in amounts {
            let (mut at, mut amount, column) = (Some(queue.0), amount, usize::from(resource.0));
            while let Some(here) = at
                && amount != 0
            {
                let node = &mut nodes[here as usize];
                if node.columns.len() <= column {
                    node.columns.resize(column + 1, Level::default());
                }
                let level = &mut node.columns[column];
                let passed_on = level.passed_on(level.usage, amount);
                level.usage += amount;
                (at, amount) = (node.above, passed_on);
            }
        }
    }

    /// How many levels `name` stands below its root, were its parent `parent`; and how many are below it.
    pub(crate) fn depth_under(&self, name: &str, parent: &str) -> usize {
        let above = |from: &str, until: &str| {
            let (mut at, mut steps) = (from, 0);
            while let Some(node) = self.get(at)
                && at != until
                && steps <= self.nodes.len()
            {
                (at, steps) = (&node.spec.parent, steps + 1);
            }
            (at == until, steps)
        };
        let below = self.nodes.iter().map(|node| above(&node.spec.name, name)).filter(|(reached, _)| *reached);
        above(parent, "").1 + below.map(|(_, steps)| steps).max().unwrap_or(0)
    }

    /// Adds or replaces a queue or cohort; [`Quota::rebuild`] must follow. The caller has checked that parents exist
    /// without a cycle.
    pub(crate) fn put(&mut self, spec: QueueSpec) {
        let nodes = Arc::make_mut(&mut self.nodes);
        match nodes.binary_search_by(|node| node.spec.name.cmp(&spec.name)) {
            Ok(at) => nodes[at].spec = spec,
            Err(at) => nodes.insert(at, QuotaNode { spec, above: None, columns: Vec::new() }),
        }
    }

    /// Takes out a queue or cohort that nothing names; [`Quota::rebuild`] must follow.
    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.nodes).retain(|node| node.spec.name != name);
    }

    /// Recomputes every sum from the specs and the direct usage of each queue.
    pub(crate) fn rebuild(&mut self, names: &ResourceNames, direct: &BTreeMap<String, Amounts>) {
        let above: Vec<Option<u32>> =
            self.nodes.iter().map(|node| self.find(&node.spec.parent).map(|above| above.0)).collect();
        let nodes = Arc::make_mut(&mut self.nodes);
        for (node, above) in nodes.iter_mut().zip(above) {
            (node.above, node.columns) = (above, own_columns(&node.spec, names));
        }
        for at in bottom_up(nodes) {
            let QuotaNode { spec, above, columns } = &mut nodes[at];
            for (resource, lent) in &spec.lending_limit {
                if let Some(level) = names.find(resource).and_then(|column| columns.get_mut(usize::from(column.0))) {
                    level.local = (level.subtree - lent).max(0);
                }
            }
            let lent: Vec<i64> = columns.iter().map(|level| level.subtree - level.local).collect();
            if let Some(above) = *above {
                for (level, lent) in nodes[above as usize].columns.iter_mut().zip(lent) {
                    level.subtree = level.subtree.saturating_add(lent);
                }
            }
        }
        for (queue, amounts) in direct {
            self.charge(queue, names.columns(amounts));
        }
    }
}

/// The columns of a queue by itself: nothing used, nothing from below.
fn own_columns(spec: &QueueSpec, names: &ResourceNames) -> Vec<Level> {
    let mut columns = vec![Level::default(); names.len()];
    for (column, amount) in names.columns(&spec.nominal) {
        let level = &mut columns[usize::from(column.0)];
        (level.limited, level.subtree) = (true, amount);
    }
    for (column, limit) in names.columns(&spec.borrowing_limit) {
        columns[usize::from(column.0)].borrowing = Some(limit);
    }
    columns
}

/// Places ordered so that children come before their parents.
fn bottom_up(nodes: &[QuotaNode]) -> Vec<usize> {
    let depth = |at: usize| {
        let (mut at, mut depth) = (at, 0usize);
        while let Some(above) = nodes[at].above.filter(|_| depth <= nodes.len()) {
            (at, depth) = (above as usize, depth + 1);
        }
        depth
    };
    let mut places: Vec<usize> = (0..nodes.len()).collect();
    places.sort_by_key(|at| (std::cmp::Reverse(depth(*at)), *at));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::resources::CPU;
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
        quota.rebuild(&ResourceNames::default(), &BTreeMap::new());
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
                quota.charge(NAMES[queue], [(CPU, amount)].into_iter());
            }
            let mut over = Grid::default();
            for &(held, amount) in &held {
                quota.charge_over(quota.find(NAMES[held]).expect("a queue"), CPU, amount, &mut over);
            }
            let beside = |queue| quota.available_over(quota.find(queue).expect("a queue"), CPU, &over);
            let mut after = quota.clone();
            for &(queue, amount) in &held {
                after.charge(NAMES[queue], [(CPU, amount)].into_iter());
            }
            for queue in ["a", "b", "c"] {
                prop_assert_eq!(beside(queue), after.available(queue, CPU), "{}", queue);
            }
        }
    }
}
