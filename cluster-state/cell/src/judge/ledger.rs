//! What a transaction under judgement has taken so far, with an undo per job.

use ohm_model::{GroupIndex, JobId, NodeId, ResourceId};
use std::collections::BTreeMap;

/// Sums over the accepted rows of one transaction. Node sums are dense and stamped, so that beginning anew costs nothing.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    stamp: u32,
    width: usize,
    /// Per node slot: the stamp under which `sums` holds its row, and the row.
    rows: Vec<(u32, u32)>,
    sums: Vec<i64>,
    row_count: u32,
    ports: BTreeMap<(NodeId, u16), ()>,
    devices: BTreeMap<(NodeId, ResourceId, u32), u16>,
    per_node: BTreeMap<(JobId, GroupIndex, NodeId), u32>,
    quota: BTreeMap<(String, ResourceId), i64>,
    undo: Vec<Undo>,
}

#[derive(Debug)]
enum Undo {
    Sum(usize, i64),
    Port(NodeId, u16),
    Device(NodeId, ResourceId, u32, u16),
    PerNode(JobId, GroupIndex, NodeId, u32),
    Quota(String, ResourceId, i64),
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
        self.quota.clear();
        self.undo.clear();
    }

    /// From here on, `roll_back` undoes.
    pub(super) fn mark(&mut self) {
        self.undo.clear();
    }

    pub(super) fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Sum(at, amount) => self.sums[at] -= amount,
                Undo::Port(node, port) => drop(self.ports.remove(&(node, port))),
                Undo::Device(node, resource, device, milli) => {
                    subtract(&mut self.devices, (node, resource, device), milli)
                }
                Undo::PerNode(job, group, node, count) => {
                    if let Some(sum) = self.per_node.get_mut(&(job, group, node)) {
                        *sum -= count;
                    }
                }
                Undo::Quota(queue, resource, amount) => {
                    if let Some(sum) = self.quota.get_mut(&(queue, resource)) {
                        *sum -= amount;
                    }
                }
            }
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

    pub(super) fn take(&mut self, node: NodeId, resource: ResourceId, amount: i64) {
        let entry = &mut self.rows[node.0 as usize];
        if entry.0 != self.stamp {
            *entry = (self.stamp, self.row_count);
            self.row_count += 1;
            self.sums.resize(self.row_count as usize * self.width, 0);
        }
        let at = entry.1 as usize * self.width + usize::from(resource.0);
        self.sums[at] += amount;
        self.undo.push(Undo::Sum(at, amount));
    }

    pub(super) fn has_port(&self, node: NodeId, port: u16) -> bool {
        self.ports.contains_key(&(node, port))
    }

    pub(super) fn take_port(&mut self, node: NodeId, port: u16) {
        self.ports.insert((node, port), ());
        self.undo.push(Undo::Port(node, port));
    }

    pub(super) fn device_taken(&self, node: NodeId, resource: ResourceId, device: u32) -> u16 {
        self.devices.get(&(node, resource, device)).copied().unwrap_or(0)
    }

    pub(super) fn take_device(&mut self, node: NodeId, resource: ResourceId, device: u32, milli: u16) {
        *self.devices.entry((node, resource, device)).or_insert(0) += milli;
        self.undo.push(Undo::Device(node, resource, device, milli));
    }

    pub(super) fn on_node(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.per_node.get(&(job, group, node)).copied().unwrap_or(0)
    }

    pub(super) fn add_on_node(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        *self.per_node.entry((job, group, node)).or_insert(0) += count;
        self.undo.push(Undo::PerNode(job, group, node, count));
    }

    /// Every queue of a tree draws on one pot, so what the transaction takes is kept per root.
    pub(super) fn quota_taken(&self, root: &str, resource: ResourceId) -> i64 {
        if self.quota.is_empty() {
            return 0;
        }
        self.quota.get(&(root.to_string(), resource)).copied().unwrap_or(0)
    }

    pub(super) fn take_quota(&mut self, root: &str, resource: ResourceId, amount: i64) {
        *self.quota.entry((root.to_string(), resource)).or_insert(0) += amount;
        self.undo.push(Undo::Quota(root.to_string(), resource, amount));
    }
}

fn subtract<K: Ord>(map: &mut BTreeMap<K, u16>, key: K, amount: u16) {
    if let Some(sum) = map.get_mut(&key) {
        *sum -= amount;
    }
}
