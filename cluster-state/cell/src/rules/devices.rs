//! Devices are given whole or in shares: each one that is named exists and is free enough, or as many as are asked for
//! can be found beside each other.

use crate::rooms::overlay::in_mask;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::rules::miss::Miss;
use crate::state::nodes::DeviceBank;
use crate::state::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{ConflictReason, NodeId, ResourceId};

#[inline]
pub(super) fn room(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    if asker.shape.devices.is_empty() {
        return Room::ALL;
    }
    match asker.wish {
        Wish::Run { devices, .. } | Wish::Return { devices } => named(asker, what, node, (devices, most)),
        Wish::Plan { .. } => unnamed(asker, what, node, most),
        Wish::Move | Wish::Spare { .. } | Wish::Repair => beside_each_other(asker, what, node, most),
    }
}

/// The bank of `resource` on `node`. One that only waits for the last runs on taken-away devices takes no new work.
fn bank<'a>(what: WhatIf<'a>, node: NodeId, resource: ResourceId) -> Option<&'a DeviceBank> {
    what.cell.nodes.get(node)?.bank(resource).filter(|bank| bank.present > 0)
}

/// How many tasks of `shape` find devices on `node`, whichever they are; and the resource that stops the next one.
pub fn device_room(what: WhatIf<'_>, shape: &Shape, node: NodeId) -> (u32, Option<ResourceId>) {
    let mut least = (u32::MAX, None);
    for &(resource, request) in &shape.devices {
        let (wanted, each) = parts(request);
        let room = match bank(what, node, resource) {
            None if request % DEVICE_MILLI == 0 => i64::MAX,
            None => 0,
            Some(bank) => {
                let taken = what.over.devices_taken(node, resource);
                let fits = free_of(bank, &taken).map(|free| if wanted == 1 { free.max(0) / each } else { free / each });
                fits.sum::<i64>() / wanted
            }
        };
        let room = room.clamp(0, i64::from(u32::MAX)) as u32;
        if room < least.0 {
            least = (room, Some(resource));
        }
    }
    least
}

/// What is free of each device, in thousandths.
fn free_of<'a>(bank: &'a DeviceBank, taken: &'a [i16; 64]) -> impl Iterator<Item = i64> + 'a {
    let free = bank.free_milli.iter().zip(taken).take(bank.present as usize);
    free.map(|(free, taken)| i64::from(*free) - i64::from(*taken))
}

/// How many tasks find devices beside the other tasks of their group that room is kept for.
fn unnamed(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    let (room, stops) = device_room(what, asker.shape, node);
    match (room.saturating_sub(asker.kept(what, node)), stops) {
        (count, Some(resource)) if count < most => Room { count, reason: Some(ConflictReason::NodeFull(resource)) },
        _ => Room { count: most, reason: None },
    }
}

/// How many leading tasks get the devices they name.
fn named(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, (devices, most): (&[u64], u32)) -> Room {
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

fn claim(bank: Option<&DeviceBank>, taken: &mut [i16; 64], request: i64, mask: u64) -> Claim {
    let Some(bank) = bank else {
        // A plain count: no fractions, no masks.
        return if request % DEVICE_MILLI == 0 && mask == 0 { Claim::Held } else { Claim::Wrong };
    };
    let (wanted, each) = parts(request);
    let in_range = bank.present >= 64 || mask >> bank.present == 0;
    if i64::from(mask.count_ones()) != wanted || !in_range {
        return Claim::Wrong;
    }
    let free = |device: usize, taken: &[i16; 64]| {
        i64::from(bank.free_milli.get(device).copied().unwrap_or(0)) - i64::from(taken[device])
    };
    if in_mask(mask).any(|device| free(device, taken) < each) {
        return Claim::Taken;
    }
    in_mask(mask).for_each(|device| taken[device] += each as i16);
    Claim::Held
}

/// On how many devices a request is met, and with how many thousandths of each.
fn parts(request: i64) -> (i64, i64) {
    if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) }
}

/// How many of `most` tasks find devices beside the room that is held there.
fn beside_each_other(asker: &Asker<'_>, what: WhatIf<'_>, node: NodeId, most: u32) -> Room {
    let mut room = Room { count: most, reason: None };
    // Tasks on the move are compared with their own group alone, as planners place them.
    let counts = |held: &&crate::rooms::nominations::Held| asker.wish != Wish::Move || asker.is_of(held);
    for &(resource, request) in &asker.shape.devices {
        let Some(bank) = bank(what, node, resource) else { continue };
        let held = asker.bound(what, node).filter(counts).flat_map(|held| {
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
fn fit(bank: &DeviceBank, taken: &[i16; 64], requests: impl Iterator<Item = i64>) -> bool {
    let mut free: Vec<i64> = free_of(bank, taken).collect();
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

pub(super) fn miss(_: &Asker<'_>, _: WhatIf<'_>, _: NodeId, reason: ConflictReason) -> Miss {
    match reason {
        ConflictReason::NodeFull(resource) => Miss::Devices(resource),
        _ => Miss::Held,
    }
}
