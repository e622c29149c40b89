//! Nodes as columns: what a scan reads lies side by side, what only one node's change reads lies apart.

use crate::state::conditions::StandingCondition;
use crate::state::drain::Drain;
use crate::state::flaps::Flaps;
use crate::state::runs::NO_RUN;
use ohm_model::{ClassId, Incarnation, Index, NodeHealth, NodeId, NodeSpec, ResourceId, SessionId, Taint};
use ohm_stdx::{Chunked, ChunkedMap};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The slot holds a node.
pub const PRESENT: u8 = 1;
/// Health says ready.
pub const READY: u8 = 2;
/// New work is kept away by a person.
pub const CORDONED: u8 = 4;
/// Room on it is kept for nominated jobs.
pub const NOMINATED: u8 = 8;
/// Its capacity fell below what runs hold; the excess is being evicted.
pub const SHRUNK: u8 = 16;
/// It is being drained: what stands on it leaves.
pub const DRAINING: u8 = 32;

/// A node may take new work when exactly these of its state flags are set.
pub const SCHEDULABLE: u8 = PRESENT | READY;
/// The flags that decide about new work. A shrunk node gets none until everything on it fits again.
pub const STATE_MASK: u8 = PRESENT | READY | CORDONED | SHRUNK | DRAINING;

/// The devices of one extended resource on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBank {
    /// Which resource.
    pub resource: ResourceId,
    /// How many devices there are now; `free_milli` may be longer while runs still hold devices that were taken away.
    pub present: u32,
    /// Free thousandths by device.
    pub free_milli: Vec<u16>,
}

/// What only matters when this one node changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// As registered, with the host name label filled in.
    pub spec: Arc<NodeSpec>,
    /// Who the node is; see `RegisterNode`.
    pub key: u64,
    /// Which agent process registered it last.
    pub instance: u64,
    /// Which boot of the machine, counted by itself. What an earlier one still had to say is late.
    pub boot: u64,
    /// Counts registrations over the whole cell, so that it never repeats.
    pub incarnation: Incarnation,
    /// The entry that put it into this slot.
    pub registered: Index,
    /// The health duty's last conclusion.
    pub health: NodeHealth,
    /// Devices tracked singly, by resource.
    pub devices: Vec<DeviceBank>,
    /// Taken host ports, ascending.
    pub ports: Vec<u16>,
    /// The entry that gave it its present address.
    pub addressed: Index,
    /// What its agent finds wrong with it, by kind.
    pub conditions: Vec<StandingCondition>,
    /// The number of the last set of conditions that its present registration told.
    pub conditions_number: u64,
    /// How often it came back of late.
    pub flaps: Flaps,
    /// All taints that count: as registered, then those of its conditions and of a hold-down.
    pub taints: Vec<Taint>,
    /// That it is being drained, and how.
    pub drain: Option<Drain>,
}

impl NodeRecord {
    /// The devices of `resource`, if it has any that are tracked singly.
    pub fn bank(&self, resource: ResourceId) -> Option<&DeviceBank> {
        self.devices.iter().find(|bank| bank.resource == resource)
    }
}

/// When a node changed last, and when it last changed by anybody but that writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// The last change.
    pub changed: Index,
    /// Whose commit it was; session 0 when it was no commit.
    pub by: SessionId,
    /// The last change by anybody else.
    pub by_others: Index,
    /// The entry that put the node into this slot; beside the rest because judging a row reads both.
    pub registered: Index,
}

impl NodeVersion {
    /// The last change that was not a commit of `session`.
    pub fn foreign_to(&self, session: SessionId) -> Index {
        if self.by == session && session.0 != 0 { self.by_others } else { self.changed }
    }

    fn touch(&mut self, index: Index, by: SessionId) {
        if self.by != by || by.0 == 0 {
            self.by_others = self.changed;
            self.by = by;
        }
        self.changed = index;
    }
}

/// All nodes of the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// Written apart, column by column, as is `capacity`.
    #[serde(skip)]
    pub(crate) free: Vec<Chunked<i64>>,
    #[serde(skip)]
    pub(crate) capacity: Vec<Chunked<i64>>,
    pub(crate) class: Chunked<ClassId>,
    pub(crate) flags: Chunked<u8>,
    pub(crate) version: Chunked<NodeVersion>,
    pub(crate) first_run: Chunked<u32>,
    pub(crate) run_count: Chunked<u32>,
    /// Written apart, chunk by chunk.
    #[serde(skip)]
    pub(crate) records: Chunked<Option<Arc<NodeRecord>>>,
    /// Derived from the records.
    #[serde(skip)]
    pub(crate) by_name: ChunkedMap<NodeId>,
    pub(crate) free_slots: Vec<NodeId>,
    pub(crate) registrations: u32,
}

impl Nodes {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// One past the highest slot; the length of every column.
    pub fn slots(&self) -> usize {
        self.flags.len()
    }

    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The record of `node`, if the slot holds one.
    pub fn get(&self, node: NodeId) -> Option<&Arc<NodeRecord>> {
        self.records.get(node.0 as usize)?.as_ref()
    }

    /// The name of `node`; `?` for an empty slot.
    pub fn name(&self, node: NodeId) -> &str {
        self.get(node).map_or("?", |record| &record.spec.name)
    }

    /// All nodes by slot.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Arc<NodeRecord>)> {
        let slots = self.records.iter().enumerate();
        slots.filter_map(|(slot, record)| Some((NodeId(slot as u32), record.as_ref()?)))
    }

    /// The state flags of `node`.
    pub fn flags(&self, node: NodeId) -> u8 {
        self.flags.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// Whether `node` may take new work.
    pub fn is_schedulable(&self, node: NodeId) -> bool {
        self.flags(node) & STATE_MASK == SCHEDULABLE
    }

    /// The class of `node`.
    pub fn class(&self, node: NodeId) -> ClassId {
        self.class.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// What is free of `resource` on `node`; below zero while a shrunk node is being emptied.
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.free.get(usize::from(resource.0)).and_then(|column| column.get(node.0 as usize)).copied().unwrap_or(0)
    }

    /// The capacity of `resource` on `node`.
    pub fn capacity(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.capacity.get(usize::from(resource.0)).and_then(|column| column.get(node.0 as usize)).copied().unwrap_or(0)
    }

    /// The column of free amounts of `resource`, if any node has it.
    pub fn free_column(&self, resource: ResourceId) -> Option<&Chunked<i64>> {
        self.free.get(usize::from(resource.0))
    }

    /// When `node` changed last, and by whom.
    pub fn version(&self, node: NodeId) -> NodeVersion {
        self.version.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// How many runs stand on `node`, stopping ones included.
    pub fn run_count(&self, node: NodeId) -> u32 {
        self.run_count.get(node.0 as usize).copied().unwrap_or(0)
    }

    pub(crate) fn record_mut(&mut self, node: NodeId) -> Option<&mut NodeRecord> {
        self.records.get_mut(node.0 as usize)?.as_mut().map(Arc::make_mut)
    }

    pub(crate) fn touch(&mut self, node: NodeId, index: Index, by: SessionId) {
        if let Some(version) = self.version.get_mut(node.0 as usize) {
            version.touch(index, by);
        }
    }

    pub(crate) fn set_flag(&mut self, node: NodeId, flag: u8, on: bool) {
        if let Some(flags) = self.flags.get_mut(node.0 as usize) {
            *flags = if on { *flags | flag } else { *flags & !flag };
        }
    }

    /// Adds `amount` to what is free of `resource` on `node`; negative takes.
    pub(crate) fn give(&mut self, node: NodeId, resource: ResourceId, amount: i64) {
        if self.free.len() <= usize::from(resource.0) {
            self.ensure_column(resource);
        }
        if let Some(free) = self.free[usize::from(resource.0)].get_mut(node.0 as usize) {
            *free += amount;
        }
    }

    pub(crate) fn ensure_column(&mut self, resource: ResourceId) {
        let slots = self.slots();
        while self.free.len() <= usize::from(resource.0) {
            let mut column = Chunked::default();
            column.resize(slots, 0);
            self.free.push(column.clone());
            self.capacity.push(column);
        }
    }

    /// A free slot, with every column long enough for it.
    pub(crate) fn take_slot(&mut self) -> NodeId {
        if let Some(node) = self.free_slots.pop() {
            return node;
        }
        let node = NodeId(u32::try_from(self.slots()).expect("fewer than 2^32 nodes"));
        self.free.iter_mut().chain(&mut self.capacity).for_each(|column| column.push(0));
        self.class.push(ClassId::default());
        self.flags.push(0);
        self.version.push(NodeVersion::default());
        self.first_run.push(NO_RUN);
        self.run_count.push(0);
        self.records.push(None);
        node
    }
}
