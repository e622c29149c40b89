//! What a transaction under judgement has taken so far, with an undo per job.

use super::draft::QuotaDraft;
use ohm_model::{GroupIndex, JobId, NodeId, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Sums over the accepted rows of one transaction. Node sums are dense and stamped, so that beginning anew costs
/// nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    stamp: u32,
    width: usize,
    /// Per node slot: the stamp under which `sums` holds its row, and the row.
    rows: Vec<(u32, u32)>,
    sums: Vec<i64>,
    row_count: u32,
    ports: BTreeSet<(NodeId, u16)>,
    devices: BTreeMap<(NodeId, ResourceId), [u16; 64]>,
    per_node: BTreeMap<(JobId, GroupIndex, NodeId), u32>,
    /// Tasks on the move, by where they are placed.
    moved: BTreeMap<(JobId, GroupIndex, NodeId), u32>,
    /// The quota tree with what the accepted rows take of it.
    pub(super) quota: QuotaDraft,
    /// By the group that took.
    undo: Vec<(GroupIndex, Undo)>,
}

#[derive(Clone, Copy, Debug)]
enum Undo {
    Sum(usize, i64),
    Port(NodeId, u16),
    Devices(NodeId, ResourceId, u64, u16),
    PerNode(JobId, NodeId, u32),
    Moved(JobId, NodeId, u32),
    Quota(u32, ResourceId, i64),
}

impl Ledger {
    pub(super) fn begin(&mut self, nodes: usize, resources: usize) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 || self.rows.len() < nodes || self.width != resources {
            self.rows.clear();
            self.rows.resize(nodes, (0, 0));
            (self.stamp, self.width) = (1, resources);
        }
        self.sums.clear();
        self.row_count = 0;
        self.ports.clear();
        self.devices.clear();
        self.per_node.clear();
        self.moved.clear();
        self.quota.clear();
        self.undo.clear();
    }

    /// From here on, `roll_back` undoes.
    pub(super) fn mark(&mut self) {
        self.undo.clear();
    }

    /// Gives back what `group` took since the mark, or all groups.
    pub(super) fn roll_back(&mut self, group: Option<GroupIndex>) {
        let undo = std::mem::take(&mut self.undo);
        for &(of, step) in undo.iter().rev() {
            if group.is_none_or(|group| group == of) {
                self.revert(of, step);
            }
        }
        self.undo = undo;
        match group {
            Some(group) => self.undo.retain(|(of, _)| *of != group),
            None => self.undo.clear(),
        }
    }

    fn revert(&mut self, group: GroupIndex, step: Undo) {
        match step {
            Undo::Sum(at, amount) => self.sums[at] -= amount,
            Undo::Port(node, port) => drop(self.ports.remove(&(node, port))),
            Undo::Devices(node, resource, mask, milli) => {
                if let Some(taken) = self.devices.get_mut(&(node, resource)) {
                    in_mask(mask).for_each(|device| taken[device] -= milli);
                }
            }
            Undo::PerNode(job, node, count) => {
                if let Some(sum) = self.per_node.get_mut(&(job, group, node)) {
                    *sum -= count;
                }
            }
            Undo::Moved(job, node, count) => {
                if let Some(sum) = self.moved.get_mut(&(job, group, node)) {
                    *sum -= count;
                }
            }
            Undo::Quota(queue, resource, amount) => self.quota.charge(queue, resource, -amount),
        }
    }

    pub(super) fn taken(&self, node: NodeId, resource: ResourceId) -> i64 {
        match self.rows.get(node.0 as usize) {
            Some(&(stamp, row)) if stamp == self.stamp => {
                self.sums[row as usize * self.width + usize::from(resource.0)]
            }
            _ => 0,
        }
    }

    pub(super) fn take(&mut self, group: GroupIndex, node: NodeId, resource: ResourceId, amount: i64) {
        let entry = &mut self.rows[node.0 as usize];
        if entry.0 != self.stamp {
            *entry = (self.stamp, self.row_count);
            self.row_count += 1;
            self.sums.resize(self.row_count as usize * self.width, 0);
        }
        let at = entry.1 as usize * self.width + usize::from(resource.0);
        self.sums[at] += amount;
        self.undo.push((group, Undo::Sum(at, amount)));
    }

    pub(super) fn has_port(&self, node: NodeId, port: u16) -> bool {
        self.ports.contains(&(node, port))
    }

    pub(super) fn take_port(&mut self, group: GroupIndex, node: NodeId, port: u16) {
        self.ports.insert((node, port));
        self.undo.push((group, Undo::Port(node, port)));
    }

    /// What is taken of each device of `resource` on `node`, in thousandths.
    pub(super) fn devices_taken(&self, node: NodeId, resource: ResourceId) -> [u16; 64] {
        self.devices.get(&(node, resource)).copied().unwrap_or([0; 64])
    }

    pub(super) fn take_devices(
        &mut self,
        group: GroupIndex,
        node: NodeId,
        resource: ResourceId,
        mask: u64,
        milli: u16,
    ) {
        let taken = self.devices.entry((node, resource)).or_insert([0; 64]);
        in_mask(mask).for_each(|device| taken[device] += milli);
        self.undo.push((group, Undo::Devices(node, resource, mask, milli)));
    }

    pub(super) fn on_node(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.per_node.get(&(job, group, node)).copied().unwrap_or(0)
    }

    pub(super) fn add_on_node(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        *self.per_node.entry((job, group, node)).or_insert(0) += count;
        self.undo.push((group, Undo::PerNode(job, node, count)));
    }

    /// How many tasks of the group that are on the move are placed on `node`.
    pub(super) fn moved(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.moved.get(&(job, group, node)).copied().unwrap_or(0)
    }

    pub(super) fn add_moved(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        *self.moved.entry((job, group, node)).or_insert(0) += count;
        self.undo.push((group, Undo::Moved(job, node, count)));
    }

    pub(super) fn take_quota(&mut self, group: GroupIndex, queue: u32, resource: ResourceId, amount: i64) {
        self.quota.charge(queue, resource, amount);
        self.undo.push((group, Undo::Quota(queue, resource, amount)));
    }
}

/// The devices named by `mask`.
pub(super) fn in_mask(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |device| mask >> device & 1 == 1)
}
