//! The quota tree: queues under cohorts, with borrowing and lending (Kueue's cohort arithmetic, restated).
//!
//! For each resource of each flavor, a *column*: `local` is what a node never lends; usage beyond it counts in the
//! parent; what is available is the local rest plus what the parent can spare, within the borrowing limit.
//! What a plan or a transaction under judgement takes is laid over them as differences ([`Grid`]), by the same
//! arithmetic.
//!
//! A cohort that is named and that nobody has put is there without quota, as long as it is named.
//!
//! Invariants: nodes are sorted by name; every parent that is named is there; the usage of a queue is what its own jobs
//! hold, that of a cohort what passes the `local` amounts of those below it.

mod walk;

use crate::planted::quota::overlooks;
use crate::rooms::grid::Grid;
use crate::state::flavors::{Charges, NO_FLAVOR, QuotaColumns, ResourceFlavors, flavored};
use crate::state::resources::{PODS, ResourceNames};
use ohm_model::{FlavorResource, QueueSpec, Scheduling};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most levels of cohorts above a queue, so that a walk to the root is short whatever anybody has put.
pub const DEPTH_MAX: usize = 32;
/// No usage is let above this, whatever the quotas say, so that sums over jobs never overflow.
pub(crate) const USAGE_MAX: i64 = 1 << 62;

/// Columns that are worked out at once: one walk up the tree for what a task asks for.
pub(crate) const AT_ONCE: usize = 4;

/// A queue or cohort of one copy of the cell, valid until queues are put or removed. Never written anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId(u32);

impl QueueId {
    /// Where it is among all queues and cohorts by name; its row in a [`Grid`].
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// One resource of one flavor at one queue or cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Level {
    /// Whether this queue limits it at all.
    pub(super) limited: bool,
    /// Whether quota is given for it here; of a cohort, or anywhere below.
    pub(super) given: bool,
    /// The own nominal amount and what those below lend.
    pub(super) subtree: i64,
    /// What is used here, and what those below use beyond their own.
    pub(super) usage: i64,
    /// What is never lent.
    local: i64,
    /// How much may be borrowed; nothing is no limit.
    borrowing: Option<i64>,
}

impl Level {
    const NONE: Level = Level { limited: false, given: false, subtree: 0, usage: 0, local: 0, borrowing: None };

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
    /// Whether nobody has put this cohort: it is there because others name it.
    is_implicit: bool,
    /// Where its cohort is among the nodes.
    above: Option<u32>,
    /// How many levels are below it: 0 for a queue, 1 for a cohort that holds queues only.
    height: u32,
    /// By flavor and resource; what is beyond the end is neither limited nor used.
    columns: Vec<Level>,
}

impl QuotaNode {
    fn new(spec: QueueSpec, is_implicit: bool) -> Self {
        QuotaNode { spec, is_implicit, above: None, height: 0, columns: Vec::new() }
    }

    /// Whether this is a cohort that others name and that nobody has put: it has no quota, and goes with the last name.
    pub fn is_implicit(&self) -> bool {
        self.is_implicit
    }

    /// What is used of a column here: by the own jobs, and beyond their own by those below.
    pub fn used(&self, column: FlavorResource) -> i64 {
        self.level(column).usage
    }

    /// Whether the queue limits anything.
    pub(crate) fn limits_anything(&self) -> bool {
        !self.spec.nominal.is_empty() || !self.spec.resource_groups.is_empty()
    }

    /// The columns that are used here or given by those below, with both amounts.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (FlavorResource, i64, i64)> + '_ {
        let columns = self.columns.iter().enumerate();
        let sums = columns.map(|(column, level)| (FlavorResource(column as u16), level.usage, level.subtree));
        sums.filter(|(_, usage, subtree)| (*usage, *subtree) != (0, 0))
    }

    pub(super) fn level(&self, column: FlavorResource) -> &Level {
        self.columns.get(usize::from(column.0)).unwrap_or(&Level::NONE)
    }
}

/// What a queue or cohort uses of what it has by itself and from below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsedOfOwn {
    /// How much it uses beyond that; below zero is what is left of it.
    pub(crate) beyond: i64,
    /// What is left of that which it never lends.
    pub(crate) local_rest: i64,
}

/// All queues and cohorts by name, and what they give quota of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    nodes: Arc<Vec<QuotaNode>>,
    pub(crate) columns: QuotaColumns,
    pub(crate) flavors: ResourceFlavors,
    pub(crate) scheduling: Scheduling,
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

    /// The flavors and resources in which quota is counted.
    pub fn columns(&self) -> &QuotaColumns {
        &self.columns
    }

    /// Resource flavors.
    pub fn flavors(&self) -> &ResourceFlavors {
        &self.flavors
    }

    /// What holds for all queues.
    pub fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    /// All queues and cohorts by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &QuotaNode> {
        self.nodes.iter()
    }

    /// What is at this place.
    pub(crate) fn at(&self, queue: QueueId) -> &QuotaNode {
        &self.nodes[queue.0 as usize]
    }

    /// The parts of a snapshot; the nodes are sorted by name.
    pub(crate) fn from_parts(
        nodes: Vec<QuotaNode>,
        columns: QuotaColumns,
        flavors: ResourceFlavors,
        scheduling: Scheduling,
    ) -> Self {
        Quota { nodes: Arc::new(nodes), columns, flavors, scheduling }
    }

    /// The topmost cohort above `queue`, or the queue itself.
    pub fn root<'a>(&'a self, queue: &'a str) -> &'a str {
        let Some(mut at) = self.find(queue) else { return queue };
        while let Some(above) = self.above(at) {
            at = above;
        }
        &self.at(at).spec.name
    }

    /// How much more of a column the queue may use; nothing is no limit. May be negative after a quota was cut.
    pub fn available(&self, queue: &str, column: FlavorResource) -> Option<i64> {
        self.available_over(self.find(queue)?, column, &Grid::default())
    }

    /// As [`Quota::available`], with the usage that `over` adds.
    pub(crate) fn available_over(&self, queue: QueueId, column: FlavorResource, over: &Grid) -> Option<i64> {
        self.at(queue).level(column).limited.then(|| self.spare_of(queue, column, over))
    }

    /// As [`Quota::available_over`], whether the queue or cohort limits the column or not.
    pub(super) fn spare_of(&self, queue: QueueId, column: FlavorResource, over: &Grid) -> i64 {
        let (mut spare, mut room_in_sums) = ([0; AT_ONCE], [USAGE_MAX; AT_ONCE]);
        self.spare_over(queue, &[(column, 0)], over, (&mut spare, &mut room_in_sums));
        spare[0]
    }

    /// How much of a column the queue could ever use: its own and all that it may borrow, were nothing used. Of a root,
    /// all that it has.
    pub fn potential(&self, queue: &str, column: FlavorResource) -> Option<i64> {
        self.find(queue).map(|queue| self.potential_at(queue, column))
    }

    pub(super) fn potential_at(&self, queue: QueueId, column: FlavorResource) -> i64 {
        let (node, level) = (self.at(queue), self.at(queue).level(column));
        let Some(above) = node.above else { return level.subtree };
        let most = level.local.saturating_add(self.potential_at(QueueId(above), column));
        level.borrowing.map_or(most, |limit| most.min(level.subtree.saturating_add(limit)))
    }

    /// What a queue or cohort uses of what it has by itself and from below; `over` is what is used besides.
    pub(crate) fn used_of_own(&self, node: QueueId, column: FlavorResource, over: &Grid) -> UsedOfOwn {
        let level = self.at(node).level(column);
        let added = over.peek(node.0 as usize).get(usize::from(column.0)).copied().unwrap_or(0);
        let usage = level.usage.saturating_add(added);
        UsedOfOwn { beyond: usage.saturating_sub(level.subtree), local_rest: (level.local - usage).max(0) }
    }

    /// From how far up `amount` more of a column is lent: 0 where it is within the nominal quota of the queue, else the
    /// height of the lowest cohort that has it, or of the root. `over` is what is used besides.
    pub(crate) fn borrowing_level(&self, queue: QueueId, column: FlavorResource, amount: i64, over: &Grid) -> u32 {
        let (mut at, mut rest) = (queue, amount);
        loop {
            let (node, level) = (self.at(at), self.at(at).level(column));
            let added = over.peek(at.0 as usize).get(usize::from(column.0)).copied().unwrap_or(0);
            let usage = level.usage.saturating_add(added);
            let Some(above) = node.above.filter(|_| usage.saturating_add(rest) > level.subtree) else {
                return node.height;
            };
            rest = rest.saturating_sub((level.local - usage).max(0));
            at = QueueId(above);
        }
    }

    /// How much more of each column, at most [`AT_ONCE`] of them, may be charged to the queue. Where nothing limits
    /// it, what sums can still hold.
    #[inline]
    pub(crate) fn left_over(&self, queue: QueueId, asked: &[(FlavorResource, i64)], over: &Grid) -> [i64; AT_ONCE] {
        let (mut spare, mut room_in_sums) = ([0; AT_ONCE], [USAGE_MAX; AT_ONCE]);
        self.spare_over(queue, asked, over, (&mut spare, &mut room_in_sums));
        let node = self.at(queue);
        for ((column, _), (spare, room)) in asked.iter().zip(spare.into_iter().zip(&mut room_in_sums)) {
            if node.level(*column).limited && !overlooks(&node.spec) {
                *room = spare.min(*room);
            }
        }
        room_in_sums
    }

    /// What the queue may use more of each column, and what the sums from here to the root can still hold.
    fn spare_over(
        &self,
        queue: QueueId,
        asked: &[(FlavorResource, i64)],
        over: &Grid,
        (spare, room_in_sums): (&mut [i64; AT_ONCE], &mut [i64; AT_ONCE]),
    ) {
        let node = self.at(queue);
        if let Some(above) = node.above {
            self.spare_over(QueueId(above), asked, over, (spare, room_in_sums));
        }
        let added = over.peek(queue.0 as usize);
        for ((column, _), (spare, room)) in asked.iter().zip(spare.iter_mut().zip(room_in_sums)) {
            let level = node.level(*column);
            let usage = level.usage + added.get(usize::from(column.0)).copied().unwrap_or(0);
            *spare = level.spare(usage, node.above.map(|_| *spare));
            *room = (*room).min(USAGE_MAX - usage);
        }
    }

    /// Adds `amount` to the usage of the queue in `over`, and what passes its own to those above; negative gives back.
    pub(crate) fn charge_over(&self, queue: QueueId, column: FlavorResource, amount: i64, over: &mut Grid) {
        self.charge_all_over(queue, &[(column, amount)], 1, over);
    }

    /// As [`Quota::charge_over`] with so many times each of these amounts.
    pub(crate) fn charge_all_over(
        &self,
        queue: QueueId,
        amounts: &[(FlavorResource, i64)],
        times: i64,
        over: &mut Grid,
    ) {
        for amounts in amounts.chunks(AT_ONCE) {
            let width = amounts.iter().map(|(column, _)| usize::from(column.0) + 1).max().unwrap_or(0);
            let mut rest = [0; AT_ONCE];
            amounts.iter().zip(&mut rest).for_each(|((_, amount), rest)| *rest = amount.saturating_mul(times));
            let mut at = Some(queue.0);
            while let Some(here) = at
                && rest.iter().fold(0, |any, rest| any | rest) != 0
            {
                let node = &self.nodes[here as usize];
                let added = over.row(here as usize, width);
                for ((column, _), rest) in amounts.iter().zip(&mut rest) {
                    let (level, added) = (node.level(*column), &mut added[usize::from(column.0)]);
                    let passed_on = level.passed_on(level.usage + *added, *rest);
                    *added += *rest;
                    *rest = passed_on;
                }
                at = node.above;
            }
        }
    }

    /// Adds each amount to the usage of `queue`; negative gives back.
    pub(crate) fn charge(&mut self, queue: &str, amounts: impl Iterator<Item = (FlavorResource, i64)>) {
        let Some(queue) = self.find(queue) else { return };
        let nodes = Arc::make_mut(&mut self.nodes);
        for (column, amount) in amounts {
            let (mut at, mut amount, column) = (Some(queue.0), amount, usize::from(column.0));
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
        // A parent that is not there yet will be a root.
        above(parent, "").1.max(1) + below.map(|(_, steps)| steps).max().unwrap_or(0)
    }

    /// Adds or replaces a queue or cohort; [`Quota::rebuild`] must follow. The caller has checked that its parents are
    /// cohorts and make no cycle.
    pub(crate) fn put(&mut self, spec: QueueSpec) {
        let nodes = Arc::make_mut(&mut self.nodes);
        match nodes.binary_search_by(|node| node.spec.name.cmp(&spec.name)) {
            Ok(at) => (nodes[at].spec, nodes[at].is_implicit) = (spec, false),
            Err(at) => nodes.insert(at, QuotaNode::new(spec, false)),
        }
        self.settle_implicit();
    }

    /// Takes out a queue or cohort; [`Quota::rebuild`] must follow. Of a cohort that others name, what it is without
    /// its quota and its parent stays.
    pub(crate) fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.nodes).retain(|node| node.spec.name != name);
        self.settle_implicit();
    }

    /// Puts the cohorts that are named and not there, and takes out those that nobody has put and nobody names.
    fn settle_implicit(&mut self) {
        let nodes = Arc::make_mut(&mut self.nodes);
        let named: BTreeSet<String> = nodes.iter().map(|node| node.spec.parent.clone()).collect();
        nodes.retain(|node| !node.is_implicit || named.contains(&node.spec.name));
        for name in named.into_iter().filter(|name| !name.is_empty()) {
            if let Err(at) = nodes.binary_search_by(|node| node.spec.name.cmp(&name)) {
                nodes.insert(at, QuotaNode::new(QueueSpec { name, is_cohort: true, ..QueueSpec::default() }, true));
            }
        }
    }

    /// Recomputes every sum from the specs and the direct usage of each queue.
    pub(crate) fn rebuild(&mut self, names: &ResourceNames, direct: &BTreeMap<String, Charges>) {
        let above: Vec<Option<u32>> =
            self.nodes.iter().map(|node| self.find(&node.spec.parent).map(|above| above.0)).collect();
        let (nodes, known) = (Arc::make_mut(&mut self.nodes), &self.columns);
        for (node, above) in nodes.iter_mut().zip(above) {
            (node.above, node.columns) = (above, own_columns(&node.spec, names, known));
            node.height = u32::from(node.spec.is_cohort);
        }
        for at in bottom_up(nodes) {
            let QuotaNode { spec, above, height, columns, .. } = &mut nodes[at];
            let height = *height;
            for (flavor, resource, lent) in lending_limits(spec) {
                let column = names.find(resource).and_then(|resource| known.find(flavor, resource));
                if let Some(level) = column.and_then(|column| columns.get_mut(usize::from(column.0))) {
                    level.local = level.subtree.saturating_sub(lent).max(0);
                }
            }
            let lent = columns.iter().map(|level| (level.subtree - level.local, level.given));
            let lent: Vec<(i64, bool)> = lent.collect();
            if let Some(above) = *above {
                let above = &mut nodes[above as usize];
                above.height = above.height.max(height + 1);
                for (level, (lent, given)) in above.columns.iter_mut().zip(lent) {
                    level.subtree = level.subtree.saturating_add(lent);
                    level.given |= given;
                }
            }
        }
        for (queue, amounts) in direct {
            self.charge(queue, amounts.iter().map(|(column, amount)| (*column, *amount)));
        }
    }
}

/// The columns of a queue by itself: nothing used, nothing from below.
fn own_columns(spec: &QueueSpec, names: &ResourceNames, known: &QuotaColumns) -> Vec<Level> {
    let mut columns = vec![Level::default(); known.len()];
    // What runs on a flavor that the queue does not list any more keeps it, and gets no more of it.
    for (column, flavor, resource) in known.iter().filter(|_| !spec.is_cohort) {
        let other = if spec.resource_groups.is_empty() { flavor != NO_FLAVOR } else { resource != PODS };
        columns[usize::from(column.0)] = Level { limited: other, borrowing: other.then_some(0), ..Level::default() };
    }
    let place = |flavor: &str, resource: &str| known.find(flavor, names.find(resource)?);
    let mut level = |flavor: &str, resource: &str, change: &dyn Fn(&mut Level)| {
        place(flavor, resource).and_then(|column| columns.get_mut(usize::from(column.0))).map(change);
    };
    for (resource, &amount) in &spec.nominal {
        level(NO_FLAVOR, resource, &|level| (level.limited, level.given, level.subtree) = (true, true, amount));
    }
    for (resource, &limit) in &spec.borrowing_limit {
        level(NO_FLAVOR, resource, &|level| level.borrowing = Some(limit));
    }
    for (flavor, resource, quota) in flavored(spec) {
        level(flavor, resource, &|level| {
            (level.limited, level.given) = (true, true);
            (level.subtree, level.borrowing) = (quota.nominal, quota.borrowing_limit);
        });
    }
    columns
}

/// What is lent at most, by flavor and resource.
fn lending_limits(spec: &QueueSpec) -> impl Iterator<Item = (&str, &str, i64)> {
    let short = spec.lending_limit.iter().map(|(resource, lent)| (NO_FLAVOR, resource.as_str(), *lent));
    let of_groups =
        flavored(spec).filter_map(|(flavor, resource, quota)| Some((flavor, resource, quota.lending_limit?)));
    short.chain(of_groups)
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
mod tests;
