//! What one task has on its node: amounts, devices and ports.

use crate::cell::Cell;
use crate::state::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{NodeId, ResourceId};
use ohm_stdx::canary::{self, Canary};

impl Cell {
    /// Takes on `node` what one task of `shape` has there, with these devices.
    pub(super) fn take_room(&mut self, node: NodeId, shape: &Shape, masks: &[u64]) {
        for &(resource, request) in &shape.requests {
            self.nodes.give(node, resource, -request);
        }
        self.take_devices(node, &shape.devices, masks, -1);
        self.take_ports(node, &shape.ports);
    }

    /// Gives back what one task of `shape` has on `node`, with these devices.
    pub(super) fn give_room(&mut self, node: NodeId, shape: &Shape, masks: &[u64]) {
        let planted = canary::sings(Canary::KeepEndedRoom);
        for &(resource, request) in shape.requests.iter().filter(|_| !planted) {
            self.nodes.give(node, resource, request);
        }
        self.take_devices(node, &shape.devices, masks, 1);
        if !shape.ports.is_empty()
            && let Some(record) = self.nodes.record_mut(node)
        {
            record.ports.retain(|port| !shape.ports.contains(port));
        }
        self.free_node(node);
        self.settle_shrunk(node);
    }

    pub(super) fn take_ports(&mut self, node: NodeId, ports: &[u16]) {
        if !ports.is_empty()
            && let Some(record) = self.nodes.record_mut(node)
        {
            record.ports.extend(ports);
            record.ports.sort_unstable();
        }
    }

    /// Adds `sign` times what one task takes of each device in `masks`.
    pub(super) fn take_devices(&mut self, node: NodeId, devices: &[(ResourceId, i64)], masks: &[u64], sign: i64) {
        if masks.is_empty() {
            return;
        }
        let Some(record) = self.nodes.record_mut(node) else { return };
        for (&(resource, request), mask) in devices.iter().zip(masks) {
            let Some(bank) = record.devices.iter_mut().find(|bank| bank.resource == resource) else { continue };
            let each = request.min(DEVICE_MILLI) * sign;
            for (device, free) in bank.free_milli.iter_mut().enumerate() {
                if device < 64 && mask >> device & 1 == 1 {
                    *free = (i64::from(*free) + each).clamp(0, DEVICE_MILLI) as u16;
                }
            }
        }
    }
}
