//! Nodes as columns: what a scan reads lies side by side, what only one node's change reads lies apart.

use crate::state::conditions::StandingCondition;
use crate::state::drain::Drain;
use crate::state::flaps::Flaps;
use crate::state::release::Release;
use ohm_model::brought::{REQUEST_LABEL, releasing_taint, request_taint};
use ohm_model::condition::FLAPPING_TAINT;
use ohm_model::{
    ClassId, ConditionAction, HostPort, Incarnation, Index, NodeHealth, NodeId, NodeSpec, ResourceId, SessionId, Taint,
    TaintEffect,
};
use ohm_stdx::{Chunked, ChunkedMap};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// No run.
pub const NO_RUN: u32 = u32::MAX;

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
    pub ports: Vec<HostPort>,
    /// The entry that gave it its present address.
    pub addressed: Index,
    /// What its agent finds wrong with it, by kind.
    pub conditions: Vec<StandingCondition>,
    /// The number of the last set of conditions that its present registration told.
    pub conditions_number: u64,
    /// How often it came back of late.
    pub flaps: Flaps,
    /// Taints that people put on it, in their order. They stay when it registers anew.
    pub put_taints: Vec<Taint>,
    /// All taints that count: as registered, then those of people, of its conditions and of a hold-down.
    pub taints: Vec<Taint>,
    /// Since when it has each of them, in stamped time.
    pub tainted_ms: Vec<u64>,
    /// Up to when it was judged which conditions are tolerated no longer, in stamped time.
    pub judged_ms: u64,
    /// That it is being drained, and how.
    pub drain: Option<Drain>,
    /// Whether it is kept for the job that it was brought for.
    pub is_kept_for_request: bool,
    /// How far it is on its way back to who brought it.
    pub release: Release,
}

impl NodeRecord {
    /// Since which entry it goes back to who brought it, while that has not taken it back.
    pub fn releasing(&self) -> Option<Index> {
        match self.release {
            Release::Releasing { since } => Some(since),
            _ => None,
        }
    }

    /// The devices of `resource`, if it has any that are tracked singly.
    pub fn bank(&self, resource: ResourceId) -> Option<&DeviceBank> {
        self.devices.iter().find(|bank| bank.resource == resource)
    }

    /// The conditions that drive away what runs there and does not tolerate them, by kind.
    pub fn driving_conditions(&self) -> impl Iterator<Item = &StandingCondition> {
        self.conditions.iter().filter(|condition| condition.action == ConditionAction::Drain)
    }

    /// The taints that the node's own state is the cause of, ascending; the registered ones stand in its spec.
    pub fn caused_taints(&self) -> Vec<Taint> {
        let conditions = self.conditions.iter().filter_map(StandingCondition::taint);
        let flapping = || Taint { key: FLAPPING_TAINT.into(), value: String::new(), effect: TaintEffect::NoSchedule };
        let request = self.spec.labels.get(REQUEST_LABEL).filter(|_| self.is_kept_for_request);
        let releasing = self.release.is_on_its_way().then(releasing_taint);
        let brought = request.map(|request| request_taint(request)).into_iter().chain(releasing);
        let mut taints: Vec<Taint> = conditions.chain(self.flaps.is_held.then(flapping)).chain(brought).collect();
        taints.sort();
        taints
    }

    /// What [`NodeRecord::taints`] must be.
    pub(crate) fn all_taints(&self) -> Vec<Taint> {
        let mut taints = self.spec.taints.clone();
        taints.extend_from_slice(&self.put_taints);
        taints.extend(self.caused_taints());
        taints
    }

    /// Brings [`NodeRecord::taints`] up to what the rest says. What is new came at `now_ms`.
    pub(crate) fn retaint(&mut self, now_ms: u64) {
        let taints = self.all_taints();
        self.tainted_ms = taints.iter().map(|taint| self.tainted_since(taint).unwrap_or(now_ms)).collect();
        self.taints = taints;
    }

    /// Since when it has `taint`, in stamped time.
    pub fn tainted_since(&self, taint: &Taint) -> Option<u64> {
        let at = self.taints.iter().position(|known| known == taint)?;
        self.tainted_ms.get(at).copied()
    }

    /// Its taints that drive away at once what does not tolerate them, registered or put by people.
    pub(crate) fn driving_taints(&self) -> impl Iterator<Item = &Taint> {
        let own = self.spec.taints.iter().chain(&self.put_taints);
        own.filter(|taint| taint.effect == TaintEffect::NoExecute)
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

/// The runs on a node, which are linked to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RunList {
    /// The one that was placed last; none is [`NO_RUN`].
    first: u32,
    count: u32,
}

impl RunList {
    const NONE: RunList = RunList { first: NO_RUN, count: 0 };
}

/// All nodes of the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// Written apart, column by column, as is `capacity`.
    #[serde(skip)]
    free: Vec<Chunked<i64>>,
    #[serde(skip)]
    capacity: Vec<Chunked<i64>>,
    class: Chunked<ClassId>,
    flags: Chunked<u8>,
    version: Chunked<NodeVersion>,
    runs: Chunked<RunList>,
    /// Written apart, chunk by chunk.
    #[serde(skip)]
    records: Chunked<Option<Arc<NodeRecord>>>,
    /// Derived from the records.
    #[serde(skip)]
    by_name: ChunkedMap<NodeId>,
    free_slots: Vec<NodeId>,
    registrations: u32,
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

    /// The nodes that are there, by slot; what is asked of each is read from its columns.
    pub fn present(&self) -> impl Iterator<Item = NodeId> + '_ {
        let slots = self.flags.iter().zip(0..);
        slots.filter_map(|(flags, slot)| (flags & PRESENT != 0).then_some(NodeId(slot)))
    }

    /// The state flags of `node`.
    #[inline]
    pub fn flags(&self, node: NodeId) -> u8 {
        self.flags.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// Whether `node` may take new work.
    #[inline]
    pub fn is_schedulable(&self, node: NodeId) -> bool {
        self.flags(node) & STATE_MASK == SCHEDULABLE
    }

    /// The class of `node`.
    #[inline]
    pub fn class(&self, node: NodeId) -> ClassId {
        self.class.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// What is free of `resource` on `node`; below zero while a shrunk node is being emptied.
    #[inline]
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.free.get(usize::from(resource.0)).and_then(|column| column.get(node.0 as usize)).copied().unwrap_or(0)
    }

    /// The capacity of `resource` on `node`.
    pub fn capacity(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.capacity.get(usize::from(resource.0)).and_then(|column| column.get(node.0 as usize)).copied().unwrap_or(0)
    }

    /// When `node` changed last, and by whom.
    #[inline]
    pub fn version(&self, node: NodeId) -> NodeVersion {
        self.version.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// How many runs stand on `node`, stopping ones included.
    pub fn run_count(&self, node: NodeId) -> u32 {
        self.runs.get(node.0 as usize).map_or(0, |runs| runs.count)
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

    /// The number of the next registration.
    pub(crate) fn next_incarnation(&mut self) -> Incarnation {
        self.registrations += 1;
        Incarnation(self.registrations)
    }

    /// Puts a node into a free slot: ready, empty, and without any capacity yet.
    pub(crate) fn insert(&mut self, record: NodeRecord, class: ClassId) -> NodeId {
        let node = self.take_slot();
        let slot = node.0 as usize;
        self.by_name.insert(&record.spec.name, node);
        self.flags[slot] = PRESENT | READY;
        self.version[slot].registered = record.registered;
        self.class[slot] = class;
        self.records[slot] = Some(Arc::new(record));
        node
    }

    /// Takes a node out of its slot; nothing runs there any more.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let slot = node.0 as usize;
        self.free.iter_mut().chain(&mut self.capacity).for_each(|column| column[slot] = 0);
        self.flags[slot] = 0;
        if let Some(record) = self.records[slot].take() {
            self.by_name.remove(&record.spec.name);
        }
        self.free_slots.push(node);
    }

    /// The resources that have columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.capacity.len() as u16).map(ResourceId)
    }

    /// Sets the capacity of a resource that has a column, and moves what is free by the difference.
    pub(crate) fn set_capacity(&mut self, node: NodeId, resource: ResourceId, capacity: i64) {
        let (column, slot) = (usize::from(resource.0), node.0 as usize);
        let grown = capacity - self.capacity[column][slot];
        if grown != 0 {
            self.capacity[column][slot] = capacity;
            self.free[column][slot] += grown;
        }
    }

    pub(crate) fn set_class(&mut self, node: NodeId, class: ClassId) {
        self.class[node.0 as usize] = class;
    }

    /// The first run in the list of `node`; no run where there is no such slot.
    pub(super) fn first_run(&self, node: NodeId) -> u32 {
        self.runs.get(node.0 as usize).map_or(NO_RUN, |runs| runs.first)
    }

    /// One run more is on `node`: `first`, with which its list begins from now on.
    pub(super) fn add_run(&mut self, node: NodeId, first: u32) {
        let runs = &mut self.runs[node.0 as usize];
        *runs = RunList { first, count: runs.count + 1 };
    }

    /// One run less is on `node`. If it was the first one, the list begins with `first` from now on.
    pub(super) fn remove_run(&mut self, node: NodeId, first: Option<u32>) {
        let runs = &mut self.runs[node.0 as usize];
        *runs = RunList { first: first.unwrap_or(runs.first), count: runs.count - 1 };
    }

    /// All columns of amounts, those of what is free first.
    pub(super) fn amounts(&self) -> impl Iterator<Item = &Chunked<i64>> {
        self.free.iter().chain(&self.capacity)
    }

    pub(super) fn records(&self) -> &Chunked<Option<Arc<NodeRecord>>> {
        &self.records
    }

    /// With what snapshots hold apart; nothing where the columns are not equally long.
    pub(super) fn with_parts(
        self,
        (free, capacity): (Vec<Chunked<i64>>, Vec<Chunked<i64>>),
        records: Chunked<Option<Arc<NodeRecord>>>,
    ) -> Option<Self> {
        let mut nodes = Nodes { free, capacity, records, ..self };
        let slots = nodes.records.len();
        let columns = [nodes.class.len(), nodes.flags.len(), nodes.version.len(), nodes.runs.len()];
        let is_even = columns.into_iter().chain(nodes.amounts().map(Chunked::len)).all(|length| length == slots);
        is_even.then_some(())?;
        let names: Vec<_> = nodes.iter().map(|(node, record)| (node, Arc::clone(&record.spec))).collect();
        names.iter().for_each(|(node, spec)| _ = nodes.by_name.insert(&spec.name, *node));
        Some(nodes)
    }

    /// A free slot, with every column long enough for it.
    fn take_slot(&mut self) -> NodeId {
        if let Some(node) = self.free_slots.pop() {
            return node;
        }
        let node = NodeId(u32::try_from(self.slots()).expect("fewer than 2^32 nodes"));
        self.free.iter_mut().chain(&mut self.capacity).for_each(|column| column.push(0));
        self.class.push(ClassId::default());
        self.flags.push(0);
        self.version.push(NodeVersion::default());
        self.runs.push(RunList::NONE);
        self.records.push(None);
        node
    }
}
