//! What one task has on its node: amounts, devices and ports.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::state::nodes::SHRUNK;
use crate::state::runs::Run;
use crate::state::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{HostPort, NodeId, ResourceId};

/// Takes on `node` what one task of `shape` has there, with these devices.
pub(crate) fn take_room(tx: &mut Tx<'_>, node: NodeId, shape: &Shape, masks: &[u64]) {
    for &(resource, request) in &shape.requests {
        tx.nodes.give(node, resource, -request);
    }
    take_devices(tx, node, &shape.devices, masks, -1);
    take_ports(tx, node, &shape.ports);
}

/// Gives back what one task of `shape` has on `node`, with these devices.
pub(crate) fn give_room(tx: &mut Tx<'_>, node: NodeId, shape: &Shape, masks: &[u64]) {
    for &(resource, request) in &shape.requests {
        tx.nodes.give(node, resource, request);
    }
    take_devices(tx, node, &shape.devices, masks, 1);
    if !shape.ports.is_empty() {
        tx.record_mut(node).ports.retain(|port| !shape.ports.contains(port));
    }
    tx.free_node(node);
    settle_shrunk(tx, node);
}

pub(crate) fn take_ports(tx: &mut Tx<'_>, node: NodeId, ports: &[HostPort]) {
    if !ports.is_empty() {
        let record = tx.record_mut(node);
        record.ports.extend(ports);
        record.ports.sort_unstable();
    }
}

/// Adds `sign` times what one task takes of each device in `masks`.
pub(crate) fn take_devices(tx: &mut Tx<'_>, node: NodeId, devices: &[(ResourceId, i64)], masks: &[u64], sign: i64) {
    if masks.is_empty() {
        return;
    }
    let record = tx.record_mut(node);
    for (&(resource, request), mask) in devices.iter().zip(masks) {
        // What is only counted has no devices.
        let Some(bank) = record.devices.iter_mut().find(|bank| bank.resource == resource) else { continue };
        let each = request.min(DEVICE_MILLI) * sign;
        for (device, free) in bank.free_milli.iter_mut().enumerate() {
            if device < 64 && mask >> device & 1 == 1 {
                *free = (i64::from(*free) + each).clamp(0, DEVICE_MILLI) as u16;
            }
        }
    }
}

/// Clears the shrunk mark once everything on the node fits again.
fn settle_shrunk(tx: &mut Tx<'_>, node: NodeId) {
    if tx.nodes.flags(node) & SHRUNK == 0 {
        return;
    }
    let fits = (0..tx.resources.len() as u16).all(|column| tx.nodes.free(node, ResourceId(column)) >= 0);
    if fits && runs_on_lost_devices(tx, node).is_empty() {
        tx.mark_node(node, SHRUNK, false);
    }
}

pub(crate) fn runs_on_lost_devices(cell: &Cell, node: NodeId) -> Vec<u32> {
    let Some(record) = cell.nodes.get(node) else { return Vec::new() };
    let holds_lost = |run: &Run| {
        let (Some(shape), Some(masks)) = (cell.shapes.get(run.shape), &run.devices) else { return false };
        shape.devices.iter().zip(masks.iter()).any(|((resource, _), mask)| {
            let present = record.bank(*resource).map_or(0, |bank| bank.present);
            present < 64 && mask >> present != 0
        })
    };
    cell.runs.on_node(&cell.nodes, node).filter(|(_, run)| holds_lost(run)).map(|(slot, _)| slot).collect()
}
