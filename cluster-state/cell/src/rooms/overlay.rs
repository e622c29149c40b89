//! What would be: differences to a cell, with savepoints. Judge, planners, moves and spares lay over it what they take
//! and what they give back; [`WhatIf`](super::what_if::WhatIf) reads the cell with them. Nothing copies the cell to ask
//! a question.

use crate::rooms::counted::Counted;
use crate::rooms::grid::Grid;
use crate::rooms::nominations::Held;
use crate::state::jobs::Job;
use crate::state::quota::{QueueId, Quota};
use crate::state::shapes::{Shape, Shapes};
use crate::state::task_counts::counter::CounterId;
use ohm_model::{FlavorResource, GroupIndex, HostPort, JobId, NodeId, ResourceId, ShapeId, Victim};
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive tasks of a group and where they go: (first, count, node).
pub type TasksOn = (u32, u32, NodeId);

/// What is taken and given back beside what the cell counts. Sums by node and by queue are dense and stamped, so that
/// beginning anew costs nothing and a claim allocates nothing. Each step can be undone, back to a savepoint; steps that
/// are to outlast what comes after them are kept as [`Taken`] and given back in any order.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Amounts by node slot and resource.
    nodes: Grid,
    /// What is added to the usage of queues and cohorts, by flavor and resource.
    pub(crate) queues: Grid,
    ports: BTreeMap<(NodeId, HostPort), i32>,
    devices: BTreeMap<(NodeId, ResourceId), [i16; 64]>,
    /// Tasks by group and node, as far as those who take room tell.
    on_node: BTreeMap<(JobId, GroupIndex, NodeId), i32>,
    /// Tasks by counter and domain.
    pub(crate) counts: Counted,
    /// Tasks on the move that are placed where their room is.
    moved: BTreeMap<(JobId, GroupIndex, NodeId), i32>,
    /// Tasks that wait no more.
    placed: BTreeMap<(JobId, GroupIndex), Vec<TasksOn>>,
    /// Jobs whose spares are room for their own tasks.
    pub(super) lent: Vec<JobId>,
    /// Whether what is planned begins only once others have ended.
    pub later: bool,
    /// Room that is held besides.
    held: BTreeMap<NodeId, Vec<Held>>,
    /// Nodes whose held room, as the cell has it, does not count.
    bared: BTreeSet<NodeId>,
    /// Who is told to stop for whom besides.
    pub(crate) preempting: Vec<UnderWay>,
    /// The domain of groups, where it is another one than the cell has.
    domains: BTreeMap<(JobId, u16), Option<u32>>,
    steps: Vec<(GroupIndex, Step)>,
}

/// What tells the amounts of a step that is undone: any `&Cell` does.
#[derive(Clone, Copy, Debug)]
pub struct ShapesAndQuota<'a> {
    pub(super) shapes: &'a Shapes,
    pub(super) quota: &'a Quota,
}

/// A point to which an overlay can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(usize);

/// Steps that stay when an overlay is rolled back, until they are given back. No quota is among them: what a charge
/// passes on to cohorts depends on what the cell charges at that time.
#[derive(Clone, Debug, Default)]
pub struct Taken(Vec<(GroupIndex, Step)>);

impl Taken {
    /// The nodes that are concerned; may repeat.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().filter_map(|(_, step)| step.node())
    }
}

/// How one step is undone.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// What so many tasks of a shape take on a node; its amounts by themselves once it is kept, as the shape may go.
    Tasks(NodeId, ShapeId, i32),
    Amount(NodeId, ResourceId, i64),
    /// What a queue is charged for so many tasks of a shape.
    Charged(QueueId, ShapeId, i32),
    Quota(QueueId, FlavorResource, i64),
    Port(NodeId, HostPort, i32),
    Devices(NodeId, ResourceId, u64, i16),
    Counted(CounterId, u32, i32),
    OnNode(JobId, NodeId, i32),
    Moved(JobId, NodeId, u32),
    Placed(JobId, TasksOn),
    Lent(JobId),
    Held(NodeId),
    Domain(JobId, Option<Option<u32>>),
}

impl Step {
    /// The node whose room it changes.
    fn node(&self) -> Option<NodeId> {
        match self {
            Step::Tasks(node, ..)
            | Step::Amount(node, ..)
            | Step::Port(node, ..)
            | Step::Devices(node, ..)
            | Step::OnNode(_, node, _)
            | Step::Moved(_, node, _)
            | Step::Held(node) => Some(*node),
            Step::Charged(..) | Step::Quota(..) | Step::Placed(..) => None,
            Step::Lent(_) | Step::Domain(..) | Step::Counted(..) => None,
        }
    }
}

/// A preemption that a transaction under way asks for.
#[derive(Clone, Debug)]
pub(crate) struct UnderWay {
    /// For which job.
    pub(crate) job: JobId,
    /// Who stops.
    pub(crate) victims: Vec<Victim>,
    /// For how many tasks of which groups room is to be kept.
    pub(crate) rooms: Vec<(GroupIndex, u32)>,
}

impl Overlay {
    /// Makes this no difference at all.
    pub(crate) fn begin(&mut self) {
        self.nodes.begin();
        self.queues.begin();
        self.ports.clear();
        self.devices.clear();
        self.counts.clear();
        self.on_node.clear();
        self.moved.clear();
        self.placed.clear();
        self.lent.clear();
        self.held.clear();
        self.bared.clear();
        self.preempting.clear();
        self.domains.clear();
        self.steps.clear();
    }

    /// From here on, [`Overlay::roll_back`] undoes.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.steps.len())
    }

    /// The nodes whose room was changed since the savepoint; may repeat.
    pub fn nodes_since(&self, from: Savepoint) -> impl Iterator<Item = NodeId> + '_ {
        self.steps.get(from.0..).into_iter().flatten().filter_map(|(_, step)| step.node())
    }

    /// Undoes everything since the savepoint.
    pub fn roll_back<'a>(&mut self, cell: impl Into<ShapesAndQuota<'a>>, to: Savepoint) {
        let of = cell.into();
        while self.steps.len() > to.0
            && let Some((group, step)) = self.steps.pop()
        {
            revert(self, of, group, step);
        }
    }

    /// Undoes what `group` has done since the savepoint.
    pub(crate) fn roll_back_group<'a>(
        &mut self,
        cell: impl Into<ShapesAndQuota<'a>>,
        to: Savepoint,
        group: GroupIndex,
    ) {
        let (of_cell, undone) = (cell.into(), self.steps.split_off(to.0));
        for &(of, step) in undone.iter().rev().filter(|(of, _)| *of == group) {
            revert(self, of_cell, of, step);
        }
        self.steps.extend(undone.into_iter().filter(|(of, _)| *of != group));
    }

    /// Takes the steps since the savepoint out of what [`Overlay::roll_back`] undoes. Quota is uncharged.
    pub fn keep<'a>(&mut self, cell: impl Into<ShapesAndQuota<'a>>, from: Savepoint) -> Taken {
        let (of, mut kept) = (cell.into(), Vec::new());
        for (group, step) in self.steps.split_off(from.0) {
            match step {
                Step::Charged(..) | Step::Quota(..) => revert(self, of, group, step),
                Step::Tasks(node, shape, tasks) => {
                    kept.extend(requests_of(of, shape).iter().map(|&(resource, request)| {
                        (group, Step::Amount(node, resource, request.saturating_mul(i64::from(tasks))))
                    }));
                }
                _ => kept.push((group, step)),
            }
        }
        Taken(kept)
    }

    /// Gives back what was kept.
    pub fn give_back(&mut self, taken: &Taken) {
        taken.0.iter().rev().for_each(|&(group, step)| revert_kept(self, group, step));
    }

    /// How much of `resource` is taken on `node`.
    #[inline]
    pub fn taken(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.nodes.get(node.0 as usize, usize::from(resource.0))
    }

    /// How much of each resource is taken on `node`, by column; all others are zero.
    #[inline]
    pub(crate) fn taken_on(&self, node: NodeId) -> &[i64] {
        self.nodes.peek(node.0 as usize)
    }

    /// Takes on `node` what so many tasks of a shape ask for; below zero gives back.
    #[inline]
    pub(crate) fn take(&mut self, group: GroupIndex, node: NodeId, (id, shape): (ShapeId, &Shape), tasks: i32) {
        add_amounts(&mut self.nodes, node, &shape.requests, i64::from(tasks));
        self.steps.push((group, Step::Tasks(node, id, tasks)));
    }

    /// Charges `queue` with so many tasks of a shape; below zero gives back.
    #[inline(never)]
    pub(crate) fn charge_shape(
        &mut self,
        quota: &Quota,
        group: GroupIndex,
        queue: QueueId,
        (id, shape, tasks): (ShapeId, &Shape, i32),
    ) {
        quota.charge_all_over(queue, &shape.charges, i64::from(tasks), &mut self.queues);
        self.steps.push((group, Step::Charged(queue, id, tasks)));
    }

    /// Charges `queue` with these amounts; below zero gives back.
    pub(crate) fn charge(
        &mut self,
        quota: &Quota,
        group: GroupIndex,
        queue: QueueId,
        amounts: impl Iterator<Item = (FlavorResource, i64)>,
    ) {
        for (column, amount) in amounts {
            quota.charge_over(queue, column, amount, &mut self.queues);
            self.steps.push((group, Step::Quota(queue, column, amount)));
        }
    }

    /// Ports of `node` that meet `port`, and how often each is taken more than the cell counts.
    pub(super) fn ports_met(&self, node: NodeId, port: HostPort) -> impl Iterator<Item = (HostPort, i32)> + '_ {
        let alike = self.ports.range((node, HostPort::tcp(port.port))..);
        let alike = alike.take_while(move |((of, other), _)| (*of, other.port) == (node, port.port));
        alike.map(|((_, other), by)| (*other, *by)).filter(move |(other, _)| other.meets(port))
    }

    /// Takes a port so often; below zero gives back.
    pub(crate) fn take_port(&mut self, group: GroupIndex, node: NodeId, port: HostPort, by: i32) {
        add(&mut self.ports, (node, port), by);
        self.steps.push((group, Step::Port(node, port, by)));
    }

    /// What is taken of each device of `resource` on `node`, in thousandths.
    pub(crate) fn devices_taken(&self, node: NodeId, resource: ResourceId) -> [i16; 64] {
        self.devices.get(&(node, resource)).copied().unwrap_or([0; 64])
    }

    pub(crate) fn take_devices(
        &mut self,
        group: GroupIndex,
        node: NodeId,
        resource: ResourceId,
        (mask, milli): (u64, i16),
    ) {
        add_devices(self, (node, resource), mask, milli);
        self.steps.push((group, Step::Devices(node, resource, mask, milli)));
    }

    /// How many more tasks of the group are on `node` than the cell counts.
    pub fn added_on_node(&self, job: JobId, group: GroupIndex, node: NodeId) -> i32 {
        self.on_node.get(&(job, group, node)).copied().unwrap_or(0)
    }

    /// The nodes with more tasks of the group than the cell counts, and how many.
    pub fn added_nodes(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let of_group = self.on_node.range((job, group, NodeId(0))..=(job, group, NodeId(u32::MAX)));
        of_group.filter(|(_, count)| **count > 0).map(|((_, _, node), count)| (*node, *count as u32))
    }

    pub(crate) fn add_on_node(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: i32) {
        add(&mut self.on_node, (job, group, node), count);
        self.steps.push((group, Step::OnNode(job, node, count)));
    }

    /// How many tasks of the group that are on the move are placed in their room on `node`.
    pub(crate) fn moved(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.moved.get(&(job, group, node)).map_or(0, |count| count.unsigned_abs())
    }

    pub(crate) fn add_moved(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        add(&mut self.moved, (job, group, node), count as i32);
        self.steps.push((group, Step::Moved(job, node, count)));
    }

    /// The tasks of the group that wait no more.
    pub fn placed(&self, job: JobId, group: GroupIndex) -> &[TasksOn] {
        self.placed.get(&(job, group)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add_placed(&mut self, job: JobId, group: GroupIndex, tasks: TasksOn) {
        self.placed.entry((job, group)).or_default().push(tasks);
        self.steps.push((group, Step::Placed(job, tasks)));
    }

    pub(super) fn lend_spares_of(&mut self, job: JobId) {
        self.lent.push(job);
        self.steps.push((GroupIndex(0), Step::Lent(job)));
    }

    /// True if they were.
    pub(super) fn forget_lent(&mut self, job: JobId) -> bool {
        let before = self.lent.len();
        self.lent.retain(|lent| *lent != job);
        self.lent.len() < before
    }

    /// The room that is held on `node` besides, and whether what the cell holds there counts.
    #[inline]
    pub(super) fn held_besides(&self, node: NodeId) -> (&[Held], bool) {
        (self.held.get(&node).map_or(&[], Vec::as_slice), !self.bared.contains(&node))
    }

    /// Holds room on `node` besides.
    pub(crate) fn hold(&mut self, node: NodeId, held: Held) {
        let group = GroupIndex(held.group);
        self.held.entry(node).or_default().push(held);
        self.steps.push((group, Step::Held(node)));
    }

    /// From now on, room that the cell holds on `node` does not count. This is not undone.
    pub(crate) fn bare(&mut self, node: NodeId) {
        self.bared.insert(node);
    }

    /// The domain that group `group` of `job` is in.
    #[inline]
    pub(crate) fn domain(&self, job: &Job, group: usize) -> Option<u32> {
        if self.domains.is_empty() {
            return job.groups[group].domain;
        }
        self.domains.get(&(job.id, group as u16)).copied().unwrap_or(job.groups[group].domain)
    }

    /// Whether the domain of group `group` of `job` is another one than the cell has.
    pub(crate) fn has_domain_of(&self, job: &Job, group: usize) -> bool {
        self.domains.contains_key(&(job.id, group as u16))
    }

    pub(crate) fn set_domain(&mut self, job: &Job, group: GroupIndex, domain: Option<u32>) {
        let former = self.domains.insert((job.id, group.0), domain);
        self.steps.push((group, Step::Domain(job.id, former)));
    }
}

/// What one task of a shape asks for.
fn requests_of(of: ShapesAndQuota<'_>, shape: ShapeId) -> &[(ResourceId, i64)] {
    of.shapes.get(shape).map_or(&[], |shape| &shape.requests)
}

fn revert(over: &mut Overlay, of: ShapesAndQuota<'_>, group: GroupIndex, step: Step) {
    let quota = of.quota;
    match step {
        Step::Tasks(node, shape, tasks) => {
            add_amounts(&mut over.nodes, node, requests_of(of, shape), i64::from(-tasks));
        }
        Step::Charged(queue, shape, tasks) => {
            let charges = of.shapes.get(shape).map_or(&[][..], |shape| &shape.charges);
            quota.charge_all_over(queue, charges, i64::from(-tasks), &mut over.queues);
        }
        Step::Quota(queue, column, amount) => quota.charge_over(queue, column, -amount, &mut over.queues),
        _ => revert_kept(over, group, step),
    }
}

/// Undoes a step that says all by itself.
fn revert_kept(over: &mut Overlay, group: GroupIndex, step: Step) {
    match step {
        Step::Tasks(..) | Step::Charged(..) | Step::Quota(..) => unreachable!("is not kept"),
        Step::Amount(node, resource, amount) => {
            over.nodes.add(node.0 as usize, usize::from(resource.0), -amount);
        }
        Step::Port(node, port, by) => add(&mut over.ports, (node, port), -by),
        Step::Devices(node, resource, mask, milli) => add_devices(over, (node, resource), mask, -milli),
        Step::Counted(of, domain, by) => over.counts.add(of, domain, -by),
        Step::OnNode(job, node, count) => add(&mut over.on_node, (job, group, node), -count),
        Step::Moved(job, node, count) => add(&mut over.moved, (job, group, node), -(count as i32)),
        Step::Placed(job, tasks) => drop_placed(over, job, group, tasks),
        Step::Lent(job) => drop(over.forget_lent(job)),
        Step::Held(node) => drop(over.held.get_mut(&node).and_then(Vec::pop)),
        Step::Domain(job, Some(former)) => drop(over.domains.insert((job, group.0), former)),
        Step::Domain(job, None) => drop(over.domains.remove(&(job, group.0))),
    }
}

/// Counts so many more tasks of `group` by a counter in a domain.
pub(crate) fn count(over: &mut Overlay, group: GroupIndex, (of, domain): (CounterId, u32), by: i32) {
    over.counts.add(of, domain, by);
    over.steps.push((group, Step::Counted(of, domain, by)));
}

fn drop_placed(over: &mut Overlay, job: JobId, group: GroupIndex, tasks: TasksOn) {
    let Some(placed) = over.placed.get_mut(&(job, group)) else { return };
    if let Some(at) = placed.iter().rposition(|known| *known == tasks) {
        placed.swap_remove(at);
    }
    if placed.is_empty() {
        over.placed.remove(&(job, group));
    }
}

fn add_devices(over: &mut Overlay, of: (NodeId, ResourceId), mask: u64, milli: i16) {
    let taken = over.devices.entry(of).or_insert([0; 64]);
    in_mask(mask).for_each(|device| taken[device] += milli);
    let is_free = |device: usize| taken[device] == 0;
    if in_mask(mask).next().is_none_or(is_free) && (0..64).all(is_free) {
        over.devices.remove(&of);
    }
}

/// Adds so many times these amounts, ascending by column, to what is taken on `node`.
#[inline]
fn add_amounts(nodes: &mut Grid, node: NodeId, amounts: &[(ResourceId, i64)], times: i64) {
    let width = amounts.last().map_or(0, |(resource, _)| usize::from(resource.0) + 1);
    let sums = nodes.row(node.0 as usize, width);
    for (resource, amount) in amounts {
        sums[usize::from(resource.0)] += amount.saturating_mul(times);
    }
}

/// Adds to the sum under `key` and drops it at zero.
fn add<K: Ord>(sums: &mut BTreeMap<K, i32>, key: K, by: i32) {
    match sums.entry(key) {
        std::collections::btree_map::Entry::Occupied(mut sum) => {
            *sum.get_mut() += by;
            if *sum.get() == 0 {
                sum.remove();
            }
        }
        std::collections::btree_map::Entry::Vacant(sum) => drop(sum.insert(by)),
    }
}

/// The devices named by `mask`.
pub(crate) fn in_mask(mask: u64) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let device = (rest != 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        device
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let (mut over, shapes, quota) = (Overlay::default(), Shapes::default(), Quota::default());
        let (job, group, node, resource) = (JobId(1), GroupIndex(0), NodeId(2), ResourceId(0));
        let from = over.savepoint();
        add_amounts(&mut over.nodes, node, &[(resource, 5)], 1);
        over.steps.push((group, Step::Amount(node, resource, 5)));
        over.take_port(group, node, HostPort::tcp(80), 1);
        over.take_devices(group, node, resource, (0b101, 300));
        over.add_on_node(job, group, node, 3);
        over.add_moved(job, group, node, 3);
        over.add_placed(job, group, (0, 3, node));
        let taken = over.keep(ShapesAndQuota { shapes: &shapes, quota: &quota }, from);
        assert_eq!((over.taken(node, resource), over.moved(job, group, node)), (5, 3));
        over.give_back(&taken);
        assert_eq!(over.taken(node, resource), 0);
        assert!(over.ports.is_empty() && over.devices.is_empty() && over.placed.is_empty());
        assert!(over.on_node.is_empty() && over.moved.is_empty(), "{over:?}");
    }
}
