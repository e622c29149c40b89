//! P1 and the node's side of P2: what is on a node fits there, and its record says what is there.

use crate::cell::Cell;
use crate::check::claims::check_earmarks_on;
use crate::check::spares::check_spares_on;
use crate::policy::brought::{is_idle, is_kept_for_request};
use crate::state::classes::NodeClass;
use crate::state::nodes::{DRAINING, NOMINATED, NodeRecord, PRESENT, READY, SHRUNK};
use crate::state::release::Release;
use crate::state::runs::Run;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{HostPort, NodeHealth, NodeId, ResourceId, ShapeId};
use std::collections::BTreeMap;
/// What has room on a node, by its shape and devices: a live run, or one that came back and lives on.
type Standing<'a> = (ShapeId, &'a [u64]);

pub(crate) fn check_listed(cell: &Cell, listed: usize, broken: &mut Vec<String>) {
    if listed != cell.runs.len() {
        broken.push(format!("P2: {} runs are live, {listed} are on nodes", cell.runs.len()));
    }
}

/// P1: what runs hold and what is free add up to the capacity, and nothing is below zero but on a shrunk node.
/// Returns how many runs are there.
pub(crate) fn sweep_node(cell: &Cell, node: NodeId, record: &NodeRecord, broken: &mut Vec<String>) -> usize {
    let name = &record.spec.name;
    let runs: Vec<(u32, &Run)> = cell.runs.on_node(&cell.nodes, node).collect();
    if runs.len() != cell.nodes.run_count(node) as usize || runs.iter().any(|(_, run)| run.node != node) {
        broken.push(format!("P2: the run list of node {name} does not match its count"));
    }
    let shrunk = cell.nodes.flags(node) & SHRUNK != 0;
    let back = cell.kept.back_on(node).filter_map(|run| cell.kept.get(run).map(|kept| (kept.shape, kept.masks())));
    let standing = runs.iter().map(|(_, run)| (run.shape, run.devices.as_deref().unwrap_or(&[])));
    let standing: Vec<Standing<'_>> = standing.chain(back).collect();
    let held = held_by(cell, &standing);
    for column in (0..cell.resources.len() as u16).map(ResourceId) {
        let capacity = record.spec.capacity.get(cell.resources.name(column)).copied().unwrap_or(0);
        let used = held.get(&column).copied().unwrap_or(0);
        let free = cell.nodes.free(node, column);
        if capacity - used != free || capacity != cell.nodes.capacity(node, column) {
            let resource = cell.resources.name(column);
            broken.push(format!("P1: node {name} {resource}: capacity {capacity}, used {used}, free {free}"));
        }
        if free < 0 && !shrunk {
            let resource = cell.resources.name(column);
            broken.push(format!("P1: node {name} is over its capacity in {resource} by {}", -free));
        }
    }
    check_node_details(cell, node, record, &standing, broken);
    if record.health == NodeHealth::Lost && !standing.is_empty() {
        broken.push(format!("P2: lost node {name} still holds runs"));
    }
    runs.len()
}

fn held_by(cell: &Cell, standing: &[Standing<'_>]) -> BTreeMap<ResourceId, i64> {
    let mut held = BTreeMap::new();
    for (shape, _) in standing {
        for &(resource, request) in cell.shapes.get(*shape).iter().flat_map(|shape| &shape.requests) {
            *held.entry(resource).or_insert(0) += request;
        }
    }
    held
}

fn check_node_details(
    cell: &Cell,
    node: NodeId,
    record: &NodeRecord,
    standing: &[Standing<'_>],
    broken: &mut Vec<String>,
) {
    let name = &record.spec.name;
    let mut ports: Vec<HostPort> = Vec::new();
    let mut devices: BTreeMap<(ResourceId, u32), i64> = BTreeMap::new();
    for (shape, masks) in standing {
        let Some(shape) = cell.shapes.get(*shape) else { continue };
        ports.extend(&shape.ports);
        for (&(resource, request), mask) in shape.devices.iter().zip(*masks) {
            let taken = (0..64).filter(|device| mask >> device & 1 == 1);
            taken.for_each(|device| *devices.entry((resource, device)).or_insert(0) += request.min(DEVICE_MILLI));
        }
    }
    ports.sort_unstable();
    let meet = ports.iter().any(|port| port.met_in(&ports).count() > 1);
    if ports != record.ports || meet {
        broken.push(format!("P1: node {name}: ports {:?} are marked, {ports:?} are held", record.ports));
    }
    for bank in &record.devices {
        for (device, free) in bank.free_milli.iter().enumerate() {
            let used = devices.remove(&(bank.resource, device as u32)).unwrap_or(0);
            if used + i64::from(*free) != DEVICE_MILLI {
                broken.push(format!("P1: node {name} device {device}: {used} held, {free} free of {DEVICE_MILLI}"));
            }
        }
    }
    let unknown = devices.keys().filter(|(resource, _)| record.bank(*resource).is_some()).count();
    if unknown > 0 {
        broken.push(format!("P1: node {name}: {unknown} held devices do not exist"));
    }
    let flags = cell.nodes.flags(node);
    if flags & PRESENT == 0 || (flags & READY != 0) != (record.health == NodeHealth::Ready) {
        broken.push(format!("node {name}: flags {flags:#b} do not match its health {:?}", record.health));
    }
    if (flags & DRAINING != 0) != record.drain.is_some() {
        broken.push(format!("node {name}: the mark of a drain without one, or the reverse"));
    }
    if (flags & NOMINATED != 0) == cell.nominations.on_node(node).is_empty() {
        broken.push(format!("node {name}: nomination flag without nomination, or the reverse"));
    }
    check_spares_on(cell, node, broken);
    check_earmarks_on(cell, node, broken);
    let is_classed =
        cell.classes.get(cell.nodes.class(node)) == Some(&NodeClass::of(&record.spec.labels, &record.taints));
    let is_dated = record.tainted_ms.len() == record.taints.len();
    if record.is_kept_for_request != is_kept_for_request(cell, &record.spec.labels) {
        broken.push(format!("P8: node {name} is kept for who asked for it, or not, against its request"));
    }
    let is_idle = is_idle(cell, node, record);
    if (record.release == Release::InUse && is_idle) || (matches!(record.release, Release::Idle { .. }) && !is_idle) {
        broken.push(format!("node {name}: its release is {:?}, and it is idle: {is_idle}", record.release));
    }
    if record.taints != record.all_taints() || !is_dated || !is_classed {
        broken.push(format!("node {name}: its taints and class do not match its conditions"));
    }
}
