//! The planner's own columns: what a scan reads, side by side, with everything under way already subtracted.
//!
//! Each resource stands twice: the exact amounts, and the same amounts scaled to the largest node of the cell, so that
//! resources of different units can be added up. Scaling rounds down and never turns an order around: what fits exactly
//! fits scaled, so the scaled column is a safe first look and the exact one has the last word.

use ohm_cell::NOMINATED;
use ohm_framework::View;
use ohm_model::resources::{DEVICE_MILLI, is_extended};
use ohm_model::{ClassId, NodeId, ResourceId};
use std::collections::{BTreeSet, VecDeque};

/// Nodes per block: the unit in which scans are remembered.
pub const BLOCK: usize = 64;
/// The scaled amount of the largest node in a column.
pub const WHOLE: i32 = 1 << 20;
/// The kind of a node that takes no new work, or that must be asked one by one.
pub(crate) const CLOSED: u32 = 0;
/// Runs of equal kind remembered per block; a block with more is read node by node.
const RUNS: usize = 4;
/// Changes remembered for those who follow; whoever is further behind compares block by block.
const TRAIL: usize = 4096;

/// One column: exact amounts and their scaled images, block by block.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    exact: Vec<i64>,
    scaled: Vec<[i32; BLOCK]>,
    largest: i64,
}

impl Column {
    fn new(blocks: usize, largest: i64) -> Self {
        Column { exact: vec![0; blocks * BLOCK], scaled: vec![[0; BLOCK]; blocks], largest: largest.max(1) }
    }

    fn grow(&mut self, blocks: usize) {
        self.exact.resize(blocks * BLOCK, 0);
        self.scaled.resize(blocks, [0; BLOCK]);
    }

    /// The scaled image of `amount`: 2^20ths of the largest node, rounded down; -1 for less than nothing.
    pub(crate) fn scale(&self, amount: i64) -> i32 {
        if amount < 0 {
            return -1;
        }
        // Both sides lose the same low bits, so the product below stays within 64 bits and the order within ties.
        let shift = (64 - self.largest.leading_zeros()).saturating_sub(40);
        let (amount, largest) = (amount.min(self.largest.saturating_mul(2)) >> shift, self.largest >> shift);
        (amount * i64::from(WHOLE) / largest) as i32
    }

    fn set(&mut self, slot: usize, amount: i64) {
        self.exact[slot] = amount;
        self.scaled[slot / BLOCK][slot % BLOCK] = self.scale(amount);
    }

    /// Makes room for a larger node; true when every scaled amount moved.
    fn widen(&mut self, capacity: i64) -> bool {
        if capacity <= self.largest {
            return false;
        }
        self.largest = capacity;
        for slot in 0..self.exact.len() {
            self.scaled[slot / BLOCK][slot % BLOCK] = self.scale(self.exact[slot]);
        }
        true
    }

    pub(crate) fn exact(&self, slot: usize) -> i64 {
        self.exact.get(slot).copied().unwrap_or(0)
    }

    pub(crate) fn block(&self, block: usize) -> &[i32; BLOCK] {
        &self.scaled[block]
    }
}

/// What is free of one device resource, seen in the three ways a request can ask.
#[derive(Clone, Debug)]
pub(crate) struct DeviceColumns {
    /// Thousandths on devices that are wholly free.
    pub(crate) whole: Column,
    /// The largest free share of any one device.
    pub(crate) share: Column,
    /// The largest free share of any device that is broken up already.
    pub(crate) broken: Column,
}

/// The kinds of one block as runs: pools of equal nodes stand side by side in most cells, and filling a run is much
/// cheaper than looking every node's kind up.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    /// How many runs there are; 0 when there are too many.
    count: u8,
    /// One past the last node of each run.
    ends: [u8; RUNS],
    kinds: [u32; RUNS],
}

impl Runs {
    fn of(kinds: &[u32; BLOCK]) -> Self {
        let mut runs = Runs::default();
        let mut start = 0;
        while start < BLOCK {
            let (kind, count) = (kinds[start], usize::from(runs.count));
            if count == RUNS {
                return Runs::default();
            }
            let length = kinds[start..].iter().take_while(|other| **other == kind).count();
            start += length;
            (runs.ends[count], runs.kinds[count]) = (start as u8, kind);
            runs.count += 1;
        }
        runs
    }
}

/// Columns over all node slots.
#[derive(Clone, Debug, Default)]
pub struct NodeTable {
    slots: usize,
    free: Vec<Column>,
    devices: Vec<Option<DeviceColumns>>,
    /// The resources that have such columns.
    device_resources: Vec<ResourceId>,
    kind: Vec<[u32; BLOCK]>,
    runs: Vec<Runs>,
    changed: Vec<u64>,
    /// When each node changed last.
    nodes_changed: Vec<[u64; BLOCK]>,
    clock: u64,
    /// The block of each of the last ticks of `clock`, newest last.
    trail: VecDeque<u32>,
    epoch: u64,
    singled: BTreeSet<NodeId>,
}

impl NodeTable {
    /// One past the highest slot.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.kind.len()
    }

    /// Moves with every change of any node.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Moves when scaled amounts of unchanged nodes move: remembered scans are void.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When each block changed last.
    pub(crate) fn changed(&self) -> &[u64] {
        &self.changed
    }

    /// When each node of `block` changed last.
    pub(crate) fn nodes_changed(&self, block: usize) -> &[u64; BLOCK] {
        &self.nodes_changed[block]
    }

    /// What scans have found is void, though no node has changed.
    pub(crate) fn void_scans(&mut self) {
        self.epoch += 1;
    }

    /// Nodes with room kept for nominated jobs. What is free there depends on who asks, so scans leave them out and
    /// whoever asks looks at them one by one.
    pub fn singled(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.singled.iter().copied()
    }

    /// Whether `node` is left out of scans although it takes work.
    pub(crate) fn is_singled(&self, node: NodeId) -> bool {
        !self.singled.is_empty() && self.singled.contains(&node)
    }

    /// What is free of `resource` on `node`, holds subtracted.
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.free.get(usize::from(resource.0)).map_or(0, |column| column.exact(node.0 as usize))
    }

    pub(crate) fn column(&self, resource: ResourceId) -> Option<&Column> {
        self.free.get(usize::from(resource.0))
    }

    pub(crate) fn device_columns(&self, resource: ResourceId) -> Option<&DeviceColumns> {
        self.devices.get(usize::from(resource.0))?.as_ref()
    }

    /// What is free of each resource of devices.
    pub(crate) fn all_devices(&self) -> impl Iterator<Item = &Column> {
        self.device_resources.iter().filter_map(|resource| self.column(*resource))
    }

    pub(crate) fn kinds(&self, block: usize) -> &[u32; BLOCK] {
        &self.kind[block]
    }

    /// The kinds of `block` as runs of (one past the last node, kind); nothing when there are too many.
    pub(crate) fn runs(&self, block: usize) -> impl ExactSizeIterator<Item = (usize, u32)> + '_ {
        let runs = &self.runs[block];
        (0..usize::from(runs.count)).map(|run| (usize::from(runs.ends[run]), runs.kinds[run]))
    }

    /// The blocks that changed after `clock`, with repetitions; nothing when that is too long ago.
    pub(crate) fn changed_since(&self, clock: u64) -> Option<impl Iterator<Item = usize> + '_> {
        let behind = usize::try_from(self.clock.checked_sub(clock)?).ok()?;
        let first = self.trail.len().checked_sub(behind)?;
        Some(self.trail.range(first..).map(|block| *block as usize))
    }

    pub(crate) fn kind(&self, node: NodeId) -> u32 {
        let slot = node.0 as usize;
        self.kind.get(slot / BLOCK).map_or(CLOSED, |kinds| kinds[slot % BLOCK])
    }

    /// Reads everything anew.
    pub fn rebuild(&mut self, view: &View<'_>) {
        let (clock, epoch) = (self.clock, self.epoch);
        *self = NodeTable { clock: clock + 1, epoch: epoch + 1, ..NodeTable::default() };
        self.fit_columns(view);
        self.fit_slots(view.cell().nodes().slots());
        for (node, _) in view.cell().nodes().iter() {
            self.widen(view, node);
        }
        for (node, _) in view.cell().nodes().iter() {
            self.read(view, node);
        }
        (0..self.blocks()).for_each(|block| self.settle_block(block, true));
    }

    /// Reads one node anew: after it changed, or after something was held or given back on it.
    pub fn refresh(&mut self, view: &View<'_>, node: NodeId) {
        let slot = node.0 as usize;
        self.fit_columns(view);
        self.fit_slots(slot + 1);
        if self.widen(view, node) {
            self.epoch += 1;
        }
        let rekinded = self.read(view, node);
        self.settle_block(slot / BLOCK, rekinded);
        self.nodes_changed[slot / BLOCK][slot % BLOCK] = self.clock;
    }

    /// One column per resource name the cell knows; a new name is at nothing on every node read before.
    pub(crate) fn fit_columns(&mut self, view: &View<'_>) {
        let names = view.cell().resources();
        for resource in self.free.len()..names.len() {
            let blocks = self.blocks();
            self.free.push(Column::new(blocks, 1));
            let tracked = is_extended(names.name(ResourceId(resource as u16)));
            self.device_resources.extend(tracked.then_some(ResourceId(resource as u16)));
            self.devices.push(tracked.then(|| DeviceColumns {
                whole: Column::new(blocks, 1),
                share: Column::new(blocks, DEVICE_MILLI),
                broken: Column::new(blocks, DEVICE_MILLI),
            }));
        }
    }

    fn fit_slots(&mut self, slots: usize) {
        if slots <= self.slots {
            return;
        }
        self.slots = slots;
        let blocks = slots.div_ceil(BLOCK);
        self.free.iter_mut().for_each(|column| column.grow(blocks));
        for devices in self.devices.iter_mut().flatten() {
            devices.whole.grow(blocks);
            devices.share.grow(blocks);
            devices.broken.grow(blocks);
        }
        self.kind.resize(blocks, [CLOSED; BLOCK]);
        self.runs.resize(blocks, Runs::of(&[CLOSED; BLOCK]));
        self.changed.resize(blocks, 0);
        self.nodes_changed.resize(blocks, [0; BLOCK]);
    }

    fn widen(&mut self, view: &View<'_>, node: NodeId) -> bool {
        let mut moved = false;
        for (resource, column) in self.free.iter_mut().enumerate() {
            let capacity = view.cell().nodes().capacity(node, ResourceId(resource as u16));
            moved |= column.widen(capacity);
            if let Some(Some(devices)) = self.devices.get_mut(resource) {
                moved |= devices.whole.widen(capacity);
            }
        }
        moved
    }

    /// Reads one node's row; true when its kind moved.
    fn read(&mut self, view: &View<'_>, node: NodeId) -> bool {
        let (slot, nodes) = (node.0 as usize, view.cell().nodes());
        for (resource, column) in self.free.iter_mut().enumerate() {
            let resource = ResourceId(resource as u16);
            let free = view.free(node, resource);
            column.set(slot, free);
            if let Some(Some(devices)) = self.devices.get_mut(usize::from(resource.0)) {
                devices.read(view, node, resource, free);
            }
        }
        let (open, flags) = (nodes.is_schedulable(node), nodes.flags(node));
        let singled = open && flags & NOMINATED != 0;
        if singled {
            self.singled.insert(node);
        } else {
            self.singled.remove(&node);
        }
        let kind = if open && !singled { kind_of(view, node) } else { CLOSED };
        std::mem::replace(&mut self.kind[slot / BLOCK][slot % BLOCK], kind) != kind
    }

    fn settle_block(&mut self, block: usize, rekinded: bool) {
        self.clock += 1;
        self.changed[block] = self.clock;
        if self.trail.len() == TRAIL {
            self.trail.pop_front();
        }
        self.trail.push_back(block as u32);
        if rekinded {
            self.runs[block] = Runs::of(&self.kind[block]);
        }
    }
}

impl DeviceColumns {
    fn read(&mut self, view: &View<'_>, node: NodeId, resource: ResourceId, free: i64) {
        let slot = node.0 as usize;
        let bank = view.cell().nodes().get(node).and_then(|record| record.bank(resource));
        let (mut whole, mut share, mut broken) = (0, 0, 0);
        match bank {
            // A plain count knows no single devices: it can be asked for whole ones only.
            None => whole = free,
            Some(bank) => {
                let shares = (0..bank.present).filter_map(|device| view.device_free(node, resource, device));
                for left in shares {
                    share = share.max(left);
                    if left >= DEVICE_MILLI {
                        whole += DEVICE_MILLI;
                    } else {
                        broken = broken.max(left);
                    }
                }
            }
        }
        self.whole.set(slot, whole.min(free));
        self.share.set(slot, share.min(free));
        self.broken.set(slot, broken.min(free));
    }
}

/// The kind of an open node: its class, and whether it has devices worth keeping for those who ask for them.
pub(crate) fn kind_of(view: &View<'_>, node: NodeId) -> u32 {
    let nodes = view.cell().nodes();
    let has_devices = nodes.get(node).is_some_and(|record| !record.devices.is_empty());
    1 + nodes.class(node).0 * 2 + u32::from(has_devices)
}

/// The class in a kind, and whether its nodes have devices; nothing for `CLOSED`.
pub(crate) fn class_of(kind: u32) -> Option<(ClassId, bool)> {
    let kind = kind.checked_sub(1)?;
    Some((ClassId(kind / 2), kind % 2 == 1))
}
