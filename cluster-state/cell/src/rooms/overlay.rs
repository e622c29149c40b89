//! What would be: differences over a borrowed cell, with savepoints. The judge lays over it what a transaction takes.
//! Nothing copies the cell to ask a question.

use crate::cell::Cell;
use crate::rooms::grid::Grid;
use crate::rooms::nominations::Held;
use crate::state::jobs::Job;
use crate::state::nodes::NOMINATED;
use crate::state::quota::QueueId;
use ohm_model::{GroupIndex, JobId, NodeId, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// What is taken beside what the cell counts. Sums by node and by queue are dense and stamped, so that beginning anew
/// costs nothing and a claim allocates nothing. Each step can be undone, back to a savepoint.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Amounts by node slot and resource.
    nodes: Grid,
    /// What is added to the usage of queues and cohorts, by resource.
    queues: Grid,
    ports: BTreeSet<(NodeId, u16)>,
    devices: BTreeMap<(NodeId, ResourceId), [u16; 64]>,
    /// Tasks by group and node, of groups with a limit per node.
    on_node: BTreeMap<(JobId, GroupIndex, NodeId), u32>,
    /// Tasks on the move, by where they are placed.
    moved: BTreeMap<(JobId, GroupIndex, NodeId), u32>,
    /// Room that is held besides.
    held: BTreeMap<NodeId, Vec<Held>>,
    /// Nodes whose held room, as the cell has it, does not count.
    bared: BTreeSet<NodeId>,
    /// The domain of groups, where it is another one than the cell has.
    domains: BTreeMap<(JobId, u16), Option<u32>>,
    steps: Vec<(GroupIndex, Step)>,
}

/// A point to which an overlay can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Savepoint(usize);

/// How one step is undone.
#[derive(Clone, Copy, Debug)]
enum Step {
    Amount(NodeId, ResourceId, i64),
    Quota(QueueId, ResourceId, i64),
    Port(NodeId, u16),
    Devices(NodeId, ResourceId, u64, u16),
    OnNode(JobId, NodeId, u32),
    Moved(JobId, NodeId, u32),
    Held(NodeId),
    Domain(JobId, Option<Option<u32>>),
}

impl Overlay {
    /// Makes this an empty difference to `cell`.
    pub(crate) fn begin(&mut self, cell: &Cell) {
        self.nodes.begin(cell.resources.len());
        self.queues.begin(cell.resources.len());
        self.ports.clear();
        self.devices.clear();
        self.on_node.clear();
        self.moved.clear();
        self.held.clear();
        self.bared.clear();
        self.domains.clear();
        self.steps.clear();
    }

    /// An empty difference to `cell`, for a single question.
    pub(crate) fn over(cell: &Cell) -> Self {
        let mut overlay = Overlay::default();
        overlay.begin(cell);
        overlay
    }

    /// From here on, [`Overlay::roll_back`] undoes.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint(self.steps.len())
    }

    /// Undoes what `group` has done since the savepoint, or all groups.
    pub(crate) fn roll_back(&mut self, cell: &Cell, to: Savepoint, group: Option<GroupIndex>) {
        let undone = self.steps.split_off(to.0);
        let is_meant = |of: GroupIndex| group.is_none_or(|group| group == of);
        for &(of, step) in undone.iter().rev().filter(|(of, _)| is_meant(*of)) {
            self.revert(cell, of, step);
        }
        self.steps.extend(undone.into_iter().filter(|(of, _)| !is_meant(*of)));
    }

    fn revert(&mut self, cell: &Cell, group: GroupIndex, step: Step) {
        match step {
            Step::Amount(node, resource, amount) => {
                self.nodes.add(node.0 as usize, usize::from(resource.0), -amount);
            }
            Step::Quota(queue, resource, amount) => cell.quota.charge_over(queue, resource, -amount, &mut self.queues),
            Step::Port(node, port) => drop(self.ports.remove(&(node, port))),
            Step::Devices(node, resource, mask, milli) => {
                if let Some(taken) = self.devices.get_mut(&(node, resource)) {
                    in_mask(mask).for_each(|device| taken[device] -= milli);
                }
            }
            Step::OnNode(job, node, count) => {
                if let Some(sum) = self.on_node.get_mut(&(job, group, node)) {
                    *sum -= count;
                }
            }
            Step::Moved(job, node, count) => {
                if let Some(sum) = self.moved.get_mut(&(job, group, node)) {
                    *sum -= count;
                }
            }
            Step::Held(node) => drop(self.held.get_mut(&node).and_then(Vec::pop)),
            Step::Domain(job, Some(former)) => drop(self.domains.insert((job, group.0), former)),
            Step::Domain(job, None) => drop(self.domains.remove(&(job, group.0))),
        }
    }

    /// What is free of `resource` on `node`.
    pub(crate) fn free(&self, cell: &Cell, node: NodeId, resource: ResourceId) -> i64 {
        let taken = self.nodes.get(node.0 as usize, usize::from(resource.0));
        cell.nodes.free(node, resource).saturating_sub(taken)
    }

    pub(crate) fn take(&mut self, group: GroupIndex, node: NodeId, resource: ResourceId, amount: i64) {
        self.nodes.add(node.0 as usize, usize::from(resource.0), amount);
        self.steps.push((group, Step::Amount(node, resource, amount)));
    }

    /// How much more of `resource` may be charged to `queue`.
    pub(crate) fn quota_left(&self, cell: &Cell, queue: QueueId, resource: ResourceId) -> i64 {
        cell.quota.left_over(queue, resource, &self.queues)
    }

    pub(crate) fn charge(
        &mut self,
        cell: &Cell,
        group: GroupIndex,
        (queue, resource, amount): (QueueId, ResourceId, i64),
    ) {
        cell.quota.charge_over(queue, resource, amount, &mut self.queues);
        self.steps.push((group, Step::Quota(queue, resource, amount)));
    }

    /// Whether a run has `port` of `node`.
    pub(crate) fn has_port(&self, cell: &Cell, node: NodeId, port: u16) -> bool {
        let record = cell.nodes.get(node);
        record.is_none_or(|record| record.ports.binary_search(&port).is_ok()) || self.ports.contains(&(node, port))
    }

    pub(crate) fn take_port(&mut self, group: GroupIndex, node: NodeId, port: u16) {
        self.ports.insert((node, port));
        self.steps.push((group, Step::Port(node, port)));
    }

    /// What is taken of each device of `resource` on `node`, in thousandths.
    pub(crate) fn devices_taken(&self, node: NodeId, resource: ResourceId) -> [u16; 64] {
        self.devices.get(&(node, resource)).copied().unwrap_or([0; 64])
    }

    pub(crate) fn take_devices(
        &mut self,
        group: GroupIndex,
        node: NodeId,
        resource: ResourceId,
        mask: u64,
        milli: u16,
    ) {
        let taken = self.devices.entry((node, resource)).or_insert([0; 64]);
        in_mask(mask).for_each(|device| taken[device] += milli);
        self.steps.push((group, Step::Devices(node, resource, mask, milli)));
    }

    /// How many tasks of the group run on `node`.
    pub(crate) fn on_node(&self, cell: &Cell, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let more = self.on_node.get(&(job, group, node)).copied().unwrap_or(0);
        cell.standing_on(job, group, node).saturating_add(more)
    }

    pub(crate) fn add_on_node(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        *self.on_node.entry((job, group, node)).or_insert(0) += count;
        self.steps.push((group, Step::OnNode(job, node, count)));
    }

    /// How many tasks of the group that are on the move are placed on `node`.
    pub(crate) fn moved(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.moved.get(&(job, group, node)).copied().unwrap_or(0)
    }

    pub(crate) fn add_moved(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        *self.moved.entry((job, group, node)).or_insert(0) += count;
        self.steps.push((group, Step::Moved(job, node, count)));
    }

    /// The room that is held on `node`.
    pub(crate) fn held<'a>(&'a self, cell: &'a Cell, node: NodeId) -> impl Iterator<Item = &'a Held> + Clone {
        let holds = cell.nodes.flags(node) & NOMINATED != 0 && !self.bared.contains(&node);
        let of_cell = if holds { cell.nominations.on_node(node) } else { &[] };
        of_cell.iter().chain(self.held.get(&node).into_iter().flatten())
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

/// The devices named by `mask`.
pub(crate) fn in_mask(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |device| mask >> device & 1 == 1)
}
