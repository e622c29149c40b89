//! Devices are given whole or in shares: each one that is named exists and is free enough, or as many as are asked for
//! can be found beside each other.

use crate::rooms::overlay::in_mask;
use crate::rooms::room::{Asker, Room, What, Wish};
use crate::state::nodes::DeviceBank;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{ConflictReason, NodeId, ResourceId};

pub(super) fn room(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
    if asker.shape.devices.is_empty() {
        return Room::ALL;
    }
    match asker.wish {
        Wish::Run { devices, .. } | Wish::Return { devices } => named(asker, what, node, (devices, most)),
        Wish::Move | Wish::Spare { .. } => beside_each_other(asker, what, node, most),
    }
}

/// The bank of `resource` on `node`. One that only waits for the last runs on taken-away devices takes no new work.
fn bank<'a>(what: What<'a>, node: NodeId, resource: ResourceId) -> Option<&'a DeviceBank> {
    what.cell.nodes.get(node)?.bank(resource).filter(|bank| bank.present > 0)
}

/// How many leading tasks get the devices they name.
fn named(asker: &Asker<'_>, what: What<'_>, node: NodeId, (devices, most): (&[u64], u32)) -> Room {
    let width = asker.shape.devices.len();
    let mut room = Room { count: most, reason: None };
    for (at, &(resource, request)) in asker.shape.devices.iter().enumerate() {
        let bank = bank(what, node, resource);
        let mut taken = what.over.devices_taken(node, resource);
        for task in 0..room.count {
            let mask = devices[task as usize * width + at];
            match claim(bank, &mut taken, request, mask) {
                Claim::Held => continue,
                Claim::Taken => room = Room { count: task, reason: Some(ConflictReason::NodeFull(resource)) },
                Claim::Wrong => room = Room { count: task, reason: Some(ConflictReason::Malformed) },
            }
            break;
        }
    }
    room
}

enum Claim {
    Held,
    Taken,
    Wrong,
}

fn claim(bank: Option<&DeviceBank>, taken: &mut [u16; 64], request: i64, mask: u64) -> Claim {
    let Some(bank) = bank else {
        // A plain count: no fractions, no masks.
        return if request % DEVICE_MILLI == 0 && mask == 0 { Claim::Held } else { Claim::Wrong };
    };
    let (wanted, each) = parts(request);
    let in_range = bank.present >= 64 || mask >> bank.present == 0;
    if i64::from(mask.count_ones()) != wanted || !in_range {
        return Claim::Wrong;
    }
    let free = |device: usize, taken: &[u16; 64]| {
        i64::from(bank.free_milli.get(device).copied().unwrap_or(0)) - i64::from(taken[device])
    };
    if in_mask(mask).any(|device| free(device, taken) < each) {
        return Claim::Taken;
    }
    in_mask(mask).for_each(|device| taken[device] += each as u16);
    Claim::Held
}

/// On how many devices a request is met, and with how many thousandths of each.
fn parts(request: i64) -> (i64, i64) {
    if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) }
}

/// How many of `most` tasks find devices beside the room that is held there.
fn beside_each_other(asker: &Asker<'_>, what: What<'_>, node: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    // Tasks on the move are compared with their own group alone, as planners place them.
    let counts = |held: &&crate::rooms::nominations::Held| asker.wish != Wish::Move || asker.is_of(held);
    for &(resource, request) in &asker.shape.devices {
        let Some(bank) = bank(what, node, resource) else { continue };
        let held = what.bound(asker, node).filter(counts).flat_map(|held| {
            let devices = what.shape_of(held).map_or(&[][..], |shape| &shape.devices);
            let asked = devices.iter().find(|(column, _)| *column == resource);
            let count = if asked.is_some() { held.count as usize } else { 0 };
            std::iter::repeat_n(asked.map_or(0, |(_, request)| *request), count)
        });
        let taken = what.over.devices_taken(node, resource);
        let fits = |count: &u32| fit(bank, &taken, held.clone().chain(std::iter::repeat_n(request, *count as usize)));
        let count = (0..=room.count).rev().find(fits).unwrap_or(0);
        if count < room.count {
            room = Room { count, reason: Some(ConflictReason::NodeFull(resource)) };
        }
    }
    room
}

/// Whether so many requests, in thousandths of a device, find devices beside each other: whole ones first, then each
/// share on the device with the least sufficient rest.
fn fit(bank: &DeviceBank, taken: &[u16; 64], requests: impl Iterator<Item = i64>) -> bool {
    let free = bank.free_milli.iter().zip(taken).take(bank.present as usize);
    let mut free: Vec<i64> = free.map(|(free, taken)| i64::from(*free) - i64::from(*taken)).collect();
    let mut requests: Vec<i64> = requests.collect();
    requests.sort_unstable_by(|one, other| other.cmp(one));
    requests.into_iter().all(|request| {
        let (wanted, each) = parts(request);
        (0..wanted).all(|_| {
            let least = free.iter_mut().filter(|left| **left >= each).min();
            least.map(|left| *left -= each).is_some()
        })
    })
}
