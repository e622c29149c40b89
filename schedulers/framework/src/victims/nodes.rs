//! Nodes by what would have to stop there for one task: where that is least important comes first. It is kept by shape,
//! for the shapes that were asked for last, and read anew where nodes have changed; where nobody asks it costs nothing.
//!
//! What is known of a node is a bound: nothing less important than that makes room there. What pieces of jobs really
//! stop, and whether the room fits beside all that is kept there, is looked at for the first nodes only.
//!
//! Invariant: no piece that makes room on a node comes before the node's bound, but for runs that transactions under
//! way stop, and where room is kept there for somebody less important.

use ohm_cell::{Cell, Group, Job, Run, Shape};
use ohm_model::{GroupSpec, NodeId, ResourceId, ShapeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Orders are kept for so many shapes.
const SHAPES_MAX: usize = 4;

/// The beginning of a rank of pieces: whether a run may be more than its group has beyond its minimum, the priority of
/// its job, when it was placed.
pub(crate) type Bound = (bool, i32, Reverse<u64>);

/// The orders, the one that was asked for last at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeOrders {
    orders: VecDeque<NodeOrder>,
}

/// The nodes on which a task of one shape finds room once others have stopped.
#[derive(Clone, Debug)]
struct NodeOrder {
    shape: Arc<Shape>,
    by_bound: BTreeSet<(Bound, NodeId)>,
    bounds: BTreeMap<NodeId, Bound>,
    /// Nodes that have changed since they were read.
    unread: BTreeSet<NodeId>,
}

impl NodeOrders {
    /// These nodes have changed, or what stands on them.
    pub(crate) fn changed(&mut self, nodes: impl Iterator<Item = NodeId>) {
        for node in nodes {
            self.orders.iter_mut().for_each(|order| _ = order.unread.insert(node));
        }
    }

    /// Whether any order is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// The nodes for a task of this shape, each with its bound, the first one first.
    pub(crate) fn of(&mut self, cell: &Cell, id: ShapeId) -> impl Iterator<Item = (Bound, NodeId)> + '_ {
        let shape = cell.shapes().get(id);
        let known = shape.and_then(|shape| self.orders.iter().position(|order| Arc::ptr_eq(&order.shape, shape)));
        let order = match known {
            Some(at) => self.orders.remove(at),
            None => shape.map(|shape| NodeOrder::unread(cell, Arc::clone(shape))),
        };
        if let Some(mut order) = order {
            order.bring_up(cell, id);
            self.orders.push_back(order);
        }
        if self.orders.len() > SHAPES_MAX {
            self.orders.pop_front();
        }
        let last = self.orders.back().filter(|_| shape.is_some());
        last.into_iter().flat_map(|order| order.by_bound.iter().copied())
    }
}

impl NodeOrder {
    fn unread(cell: &Cell, shape: Arc<Shape>) -> Self {
        let unread = cell.nodes().present().collect();
        NodeOrder { shape, by_bound: BTreeSet::new(), bounds: BTreeMap::new(), unread }
    }

    fn bring_up(&mut self, cell: &Cell, id: ShapeId) {
        for node in std::mem::take(&mut self.unread) {
            let bound = bound_of(cell, (id, &self.shape), node);
            let former = match bound {
                Some(bound) => self.bounds.insert(node, bound),
                None => self.bounds.remove(&node),
            };
            if former != bound {
                former.into_iter().for_each(|former| _ = self.by_bound.remove(&(former, node)));
                self.by_bound.extend(bound.map(|bound| (bound, node)));
            }
        }
    }
}

/// The bound of a node: that of the last run that has to stop if none stops before one that is less important; nothing
/// where a task of the shape finds no room even so, or may not stand. Room that is kept for whoever waits for others to
/// stop counts as a task of it, which is as important.
fn bound_of(cell: &Cell, (id, shape): (ShapeId, &Shape), node: NodeId) -> Option<Bound> {
    if !cell.nodes().is_schedulable(node) || !cell.admits(id, node) {
        return None;
    }
    let kept = kept_on(cell, node);
    let lacks = |&(resource, amount): &(ResourceId, i64)| {
        let kept: i64 = kept.iter().map(|(_, shape, count)| amount_of(shape, resource).saturating_mul(*count)).sum();
        (resource, amount.saturating_add(kept).saturating_sub(cell.nodes().free(node, resource)))
    };
    let mut lacking: Vec<(ResourceId, i64)> = shape.requests.iter().map(lacks).filter(|(_, lack)| *lack > 0).collect();
    let mut pieces: Vec<(Bound, &Shape, i64)> = kept;
    for (_, run) in cell.runs().on_node(cell.nodes(), node) {
        let Some(shape) = cell.shapes().get(run.shape) else { continue };
        match run.stop {
            Some(_) => give_back((shape, 1), &mut lacking),
            None => pieces.extend(run_bound(cell, run).map(|bound| (bound, shape.as_ref(), 1))),
        }
    }
    pieces.sort_unstable_by_key(|(bound, ..)| *bound);
    let mut last = (false, i32::MIN, Reverse(u64::MAX));
    for (bound, shape, count) in pieces {
        if lacking.is_empty() {
            break;
        }
        give_back((shape, count), &mut lacking);
        last = bound;
    }
    lacking.is_empty().then_some(last)
}

/// What is kept on a node for whoever waits for others to stop.
fn kept_on(cell: &Cell, node: NodeId) -> Vec<(Bound, &Shape, i64)> {
    let kept = cell.nominations().on_node(node).iter().filter(|held| held.is_preemptor());
    let with_shape = kept.filter_map(|held| {
        let group = cell.jobs().get(held.job)?.groups.get(usize::from(held.group))?;
        let bound = (true, held.priority, Reverse(u64::MAX));
        Some((bound, cell.shapes().get(group.shape)?.as_ref(), i64::from(held.count)))
    });
    with_shape.collect()
}

fn run_bound(cell: &Cell, run: &Run) -> Option<Bound> {
    let job = cell.jobs().get(run.run.task.job).filter(|job| job.spec.preemptible)?;
    let at = usize::from(run.run.task.group.0);
    let may_go = job.starts_whole() && beyond_minimum(job.groups.get(at)?, job.spec.groups.get(at)?) > 0;
    Some((!may_go, job.spec.priority, Reverse(run.placed_ms)))
}

/// Whether a job that starts whole has more than it needs, which goes before all else.
pub(crate) fn may_shrink(job: &Job) -> bool {
    let mut groups = job.groups.iter().zip(&job.spec.groups);
    job.starts_whole() && groups.any(|(group, spec)| beyond_minimum(group, spec) > 0)
}

/// How many tasks an elastic group has beyond its minimum.
pub(super) fn beyond_minimum(group: &Group, spec: &GroupSpec) -> u32 {
    let stays = group.live_within_count().saturating_sub(group.stopping);
    if spec.elastic { stays.saturating_sub(group.needed(spec)) } else { 0 }
}

fn amount_of(shape: &Shape, resource: ResourceId) -> i64 {
    shape.requests.iter().find(|(known, _)| *known == resource).map_or(0, |(_, amount)| *amount)
}

/// What so many tasks of a shape have is there for what is lacking.
fn give_back((shape, count): (&Shape, i64), lacking: &mut Vec<(ResourceId, i64)>) {
    for (resource, lack) in lacking.iter_mut() {
        *lack = lack.saturating_sub(amount_of(shape, *resource).saturating_mul(count));
    }
    lacking.retain(|(_, lack)| *lack > 0);
}
