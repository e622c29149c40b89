//! A node registers: the first time, again under its name, or back from being lost.

use crate::apply::Tx;
use crate::apply::steps::kept::{forget_kept_on, withdraw_kept};
use crate::apply::steps::names::check_names;
use crate::apply::steps::repairs::clear_unhealthy;
use crate::apply::steps::run_end::end_runs_on;
use crate::cell::Cell;
use crate::policy::conditions::{note_return, reclassify, settle_taints};
use crate::policy::evictions::{evict_excess, evict_repelled, evict_strayed};
use crate::policy::kept::reconcile;
use crate::policy::repair::settle_losses;
use crate::policy::tolerations::watch_tolerations;
use crate::state::brought::BroughtFor;
use crate::state::flaps::Flaps;
use crate::state::nodes::{DeviceBank, NodeRecord, READY};
use crate::state::release::Release;
use crate::state::repairs::Losses;
use ohm_model::condition::own_prefix;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::resources::{DEVICE_MILLI, device_count};
use ohm_model::{EventKind, Exit, Incarnation, NodeHealth, NodeId, NodeSpec, Outcome, Refusal, ResourceId, RunRef};
use std::sync::Arc;

pub(crate) fn register_node(
    tx: &mut Tx<'_>,
    spec: &NodeSpec,
    key: u64,
    instance: u64,
    boot: u64,
    alive: &[RunRef],
) -> Result<Outcome, Refusal> {
    check_node(tx, spec)?;
    let mut spec = spec.clone();
    spec.labels.entry(HOSTNAME_LABEL.to_string()).or_insert_with(|| spec.name.clone());
    if let Some(node) = tx.nodes.find(&spec.name) {
        let record = tx.nodes.get(node).expect("a named node has a record");
        record.check_boot(key, boot)?;
        // A lost node comes back by registering, even under the same agent process.
        let is_retry = record.key == key && record.instance == instance && *record.spec == spec;
        if is_retry && record.health != NodeHealth::Lost {
            return Ok(Outcome::Node { node, incarnation: record.incarnation });
        }
        let vanished = record.boot != boot || record.key != key;
        let outcome = register_again(tx, node, spec, (key, instance, boot), vanished);
        reconcile(tx, node, &alive.iter().copied().collect());
        return Ok(outcome);
    }
    let incarnation = tx.nodes.next_incarnation();
    let spec = Arc::new(spec);
    let record = NodeRecord {
        spec: Arc::clone(&spec),
        key,
        instance,
        boot,
        incarnation,
        registered: tx.index(),
        health: NodeHealth::Ready,
        devices: Vec::new(),
        ports: Vec::new(),
        addressed: tx.index(),
        conditions: Vec::new(),
        conditions_number: 0,
        flaps: Flaps::default(),
        put_taints: Vec::new(),
        taints: spec.taints.clone(),
        tainted_ms: vec![tx.now_ms; spec.taints.len()],
        judged_ms: 0,
        drain: None,
        is_kept_for_request: false,
        release: Release::InUse,
    };
    let class = tx.classes.join(&spec.labels, &spec.taints);
    let node = tx.nodes.insert(record, class);
    set_capacity(tx, node, &spec);
    tx.topologies.join(node, &spec.labels);
    tx.cell.brought.add_node(node, &spec.labels);
    finish_registration(tx, node, incarnation);
    Ok(Outcome::Node { node, incarnation })
}

/// The agent of a known node started again, perhaps with other labels or another capacity.
fn register_again(
    tx: &mut Tx<'_>,
    node: NodeId,
    spec: NodeSpec,
    (key, instance, boot): (u64, u64, u64),
    vanished: bool,
) -> Outcome {
    if vanished {
        let mut losses = Losses::default();
        forget_kept_on(tx, node);
        end_runs_on(tx, node, Exit::Vanished, &mut losses);
        settle_losses(tx, losses);
    }
    clear_unhealthy(tx, node);
    // What lives on there is judged anew when everything else of the node is known.
    withdraw_kept(tx, node);
    let incarnation = tx.nodes.next_incarnation();
    let spec = Arc::new(spec);
    let index = tx.index();
    let record = tx.record_mut(node);
    let former = Arc::clone(&record.spec);
    let relabelled = record.spec.labels != spec.labels || record.spec.taints != spec.taints;
    let returned = record.health == NodeHealth::Lost;
    (record.key, record.instance, record.boot) = (key, instance, boot);
    (record.incarnation, record.health) = (incarnation, NodeHealth::Ready);
    record.conditions_number = 0;
    let is_brought = BroughtFor::of(&spec.labels).is_some();
    record.is_kept_for_request &= is_brought;
    if vanished || !is_brought {
        record.release = Release::InUse;
    }
    if record.spec.address != spec.address {
        record.addressed = index;
    }
    record.spec = Arc::clone(&spec);
    tx.mark_node(node, READY, true);
    set_capacity(tx, node, &spec);
    if returned {
        note_return(tx, node);
    }
    if relabelled {
        tx.cell.brought.remove_node(node, &former.labels);
        tx.cell.brought.add_node(node, &spec.labels);
        let former = reclassify(tx, node);
        tx.classes.leave(former);
        tx.topologies.join(node, &spec.labels);
        evict_repelled(tx, node);
        evict_strayed(tx, node);
        watch_tolerations(tx, node);
    }
    settle_taints(tx, node);
    evict_excess(tx, node);
    finish_registration(tx, node, incarnation);
    Outcome::Node { node, incarnation }
}

fn finish_registration(tx: &mut Tx<'_>, node: NodeId, incarnation: Incarnation) {
    tx.touch_node(node);
    tx.free_node(node);
    let name = tx.nodes.name(node).to_string();
    tx.tell(EventKind::NodeRegistered { node, name, incarnation });
}

/// Sets capacities, and moves what is free by the difference.
fn set_capacity(tx: &mut Tx<'_>, node: NodeId, spec: &NodeSpec) {
    for name in spec.capacity.keys() {
        if let Some(resource) = tx.resources.intern(name) {
            tx.nodes.ensure_column(resource);
        }
    }
    for resource in tx.nodes.columns() {
        let capacity = spec.capacity.get(tx.resources.name(resource)).copied().unwrap_or(0);
        tx.nodes.set_capacity(node, resource, capacity);
    }
    let names = &tx.resources;
    let counts: Vec<(ResourceId, u32)> = spec
        .capacity
        .iter()
        .filter_map(|(name, &capacity)| Some((names.find(name)?, device_count(name, capacity))))
        .collect();
    let record = tx.record_mut(node);
    set_devices(record, &counts);
}

/// Makes the device banks match `counts`; devices that runs may still hold stay behind the present ones.
fn set_devices(record: &mut NodeRecord, counts: &[(ResourceId, u32)]) {
    for bank in &mut record.devices {
        bank.present = counts.iter().find(|(resource, _)| *resource == bank.resource).map_or(0, |(_, count)| *count);
    }
    for &(resource, present) in counts.iter().filter(|(_, count)| *count > 0) {
        if record.bank(resource).is_none() {
            record.devices.push(DeviceBank { resource, present, free_milli: Vec::new() });
        }
    }
    for bank in &mut record.devices {
        let whole = |milli: &u16| i64::from(*milli) == DEVICE_MILLI;
        while bank.free_milli.len() > bank.present as usize && bank.free_milli.last().is_some_and(whole) {
            bank.free_milli.pop();
        }
        let length = bank.free_milli.len().max(bank.present as usize);
        bank.free_milli.resize(length, DEVICE_MILLI as u16);
    }
    record.devices.retain(|bank| !bank.free_milli.is_empty());
}

fn check_node(cell: &Cell, spec: &NodeSpec) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: String| Err(Refusal::Invalid { field: field.into(), problem });
    check_names(spec)?;
    if let Some((taint, prefix)) = spec.taints.iter().find_map(|taint| Some((taint, own_prefix(&taint.key)?))) {
        let problem = format!("{taint}: the cell sets taints with {prefix} by itself; choose another key");
        return invalid("spec.taints", problem);
    }
    if let Some((name, amount)) = spec.capacity.iter().find(|(_, amount)| **amount < 0 || **amount > 1 << 60) {
        return invalid("status.capacity", format!("{name} is {amount}; 0 to 2^60 units are possible"));
    }
    if !cell.resources.has_room_for(spec.capacity.keys()) {
        return invalid("status.capacity", "the cell has no column left for a new resource name".into());
    }
    Ok(())
}

impl NodeRecord {
    /// Whether the machine with this key, in this boot, may register under the name of this node.
    pub(crate) fn check_boot(&self, key: u64, boot: u64) -> Result<(), Refusal> {
        let is_lost = self.health == NodeHealth::Lost;
        let named = || ("node".to_string(), self.spec.name.clone());
        if self.key != key && is_lost {
            return Ok(());
        }
        if self.key != key {
            let (kind, name) = named();
            let hint = "another machine runs under this name; give this one another name, or remove the old node";
            return Err(Refusal::NameTaken { kind, name, hint: hint.into() });
        }
        if boot < self.boot {
            // It was on its way when the machine booted again: what runs there now belongs to the later boot.
            let problem = "the machine has registered after a later boot than this one; if its folder is an older one \
                           put back, remove the file `node-key` there and the node from the cell";
            return Err(Refusal::Invalid { field: "boot".into(), problem: problem.into() });
        }
        if boot != self.boot && !is_lost {
            // Who says that the machine has booted may be a copy of it, while tasks run on the original.
            let (kind, name) = named();
            let hint = "it is taken once it is lost; if this machine or folder is a copy of another one, remove the \
                        file `node-key` there and give the node another name";
            let state = "not lost since its machine booted before".into();
            return Err(Refusal::WrongState { kind, name, state, hint: hint.into() });
        }
        Ok(())
    }
}
