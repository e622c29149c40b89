//! Devices for work that stands already.

use crate::world::World;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{JobId, NodeId};
use std::collections::BTreeMap;

/// Devices given out within one job, node by node.
#[derive(Default)]
pub(crate) struct Devices {
    free: BTreeMap<(NodeId, ohm_model::ResourceId), Vec<i64>>,
}

impl Devices {
    /// Masks for `count` tasks of a group: for each task one per device resource. Which devices they really hold is in
    /// no document; as few devices as possible are broken.
    pub(crate) fn take(&mut self, world: &World, job: JobId, group: usize, node: NodeId, count: u32) -> Vec<u64> {
        let shape = world.job(job).and_then(|found| world.cell.shape_of(found, group));
        let Some(shape) = shape.filter(|shape| !shape.devices.is_empty()) else { return Vec::new() };
        let mut masks = Vec::with_capacity(count as usize * shape.devices.len());
        for _ in 0..count {
            for &(resource, request) in &shape.devices {
                let free = self.free.entry((node, resource)).or_insert_with(|| {
                    let bank = world.cell.nodes().get(node).and_then(|record| record.bank(resource));
                    let free = bank.map(|bank| &bank.free_milli[..bank.present as usize]);
                    free.unwrap_or(&[]).iter().map(|milli| i64::from(*milli)).collect()
                });
                masks.push(take_devices(free, request));
            }
        }
        masks
    }
}

/// Takes one task's devices; too few are noticed at commit.
fn take_devices(free: &mut [i64], request: i64) -> u64 {
    let (number, each) = if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) };
    let mut mask = 0;
    for _ in 0..number {
        let fits = free.iter().enumerate().filter(|(at, rest)| mask >> at & 1 == 0 && **rest >= each);
        let Some((at, _)) = fits.min_by_key(|(at, rest)| (**rest, *at)) else { break };
        free[at] -= each;
        mask |= 1u64 << at;
    }
    mask
}
