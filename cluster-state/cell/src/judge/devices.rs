//! Judging the devices a row names: each one exists, is free enough, and there are as many as the request asks for.

use super::Judge;
use super::ledger::in_mask;
use crate::nodes::DeviceBank;
use crate::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{ConflictReason, Placement};

impl Judge<'_> {
    /// How many leading tasks of the row get the devices they name.
    pub(super) fn device_limit(
        &self,
        shape: &Shape,
        placement: &Placement,
        count: u32,
    ) -> (u32, Option<ConflictReason>) {
        let width = shape.devices.len();
        if placement.devices.len() != placement.count as usize * width {
            return (0, Some(ConflictReason::Malformed));
        }
        let mut limit = (count, None);
        for (at, &(resource, request)) in shape.devices.iter().enumerate() {
            let bank = self.cell.nodes.get(placement.node).and_then(|record| record.bank(resource));
            // A bank that only waits for the last runs on taken-away devices is no bank for new work.
            let bank = bank.filter(|bank| bank.present > 0);
            let mut taken = self.scratch.ledger.devices_taken(placement.node, resource);
            for task in 0..limit.0 {
                let mask = placement.devices[task as usize * width + at];
                let claim = claim(bank, &mut taken, request, mask);
                match claim {
                    Claim::Held => {}
                    Claim::Taken => limit = (task, Some(ConflictReason::NodeFull(resource))),
                    Claim::Wrong => limit = (task, Some(ConflictReason::Malformed)),
                }
                if claim != Claim::Held {
                    break;
                }
            }
        }
        limit
    }
}

#[derive(PartialEq, Eq)]
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
    let (wanted, each) = if request < DEVICE_MILLI { (1, request) } else { (request / DEVICE_MILLI, DEVICE_MILLI) };
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
