//! Which devices a task gets. A share of a device goes to the device with the least sufficient rest, so that whole
//! devices stay whole; whole ones are taken from the lowest number up.

use ohm_cell::Shape;
use ohm_framework::View;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{NodeId, ResourceId};

/// The free shares of the devices a shape asks for on one node, while tasks are given theirs.
#[derive(Clone, Debug)]
pub struct DeviceRoom<'a> {
    shape: &'a Shape,
    /// Per device resource of the shape: free thousandths by device; nothing where the node keeps a plain count.
    banks: Vec<Option<Vec<i64>>>,
}

impl<'a> DeviceRoom<'a> {
    /// What `node` has for `shape` now.
    pub fn new(view: &View<'_>, shape: &'a Shape, node: NodeId) -> Self {
        let record = view.cell().nodes().get(node);
        let bank = |resource: ResourceId| {
            let present = record.and_then(|record| record.bank(resource))?.present;
            Some((0..present).map(|device| view.device_free(node, resource, device).unwrap_or(0)).collect())
        };
        DeviceRoom { shape, banks: shape.devices.iter().map(|(resource, _)| bank(*resource)).collect() }
    }

    /// How many tasks of `shape` find devices on `node` beside one of `other`.
    pub fn beside(view: &View<'_>, shape: &'a Shape, other: &Shape, node: NodeId) -> u32 {
        let (mut masks, mut room) = (Vec::new(), DeviceRoom::new(view, shape, node));
        if !DeviceRoom::new(view, other, node).take(&mut masks) {
            return 0;
        }
        for (&(resource, request), mask) in other.devices.iter().zip(masks) {
            let at = shape.devices.iter().position(|(own, _)| *own == resource);
            let Some(Some(free)) = at.and_then(|at| room.banks.get_mut(at)) else { continue };
            let taken = free.iter_mut().enumerate().filter(|(device, _)| mask >> device & 1 == 1);
            taken.for_each(|(_, left)| *left -= request.min(DEVICE_MILLI));
        }
        let banks = shape.devices.iter().zip(&room.banks);
        let counts = banks.filter_map(|((_, request), bank)| Some(room_in(bank.as_deref()?, *request)));
        counts.min().unwrap_or(u32::MAX)
    }

    /// Takes devices for one more task and appends one mask per device resource; false, with nothing appended, when
    /// there are none left.
    pub fn take(&mut self, masks: &mut Vec<u64>) -> bool {
        let before = masks.len();
        for (&(_, request), bank) in self.shape.devices.iter().zip(&mut self.banks) {
            let mask = match bank {
                None => (request % DEVICE_MILLI == 0).then_some(0),
                Some(free) => take_from(free, request),
            };
            match mask {
                Some(mask) => masks.push(mask),
                None => {
                    masks.truncate(before);
                    return false;
                }
            }
        }
        true
    }
}

pub(crate) fn room_in(free: &[i64], request: i64) -> u32 {
    let room: i64 = if request < DEVICE_MILLI {
        free.iter().map(|left| left.max(&0) / request.max(1)).sum()
    } else {
        free.iter().filter(|left| **left >= DEVICE_MILLI).count() as i64 / (request / DEVICE_MILLI)
    };
    room.clamp(0, i64::from(u32::MAX)) as u32
}

pub(crate) fn take_from(free: &mut [i64], request: i64) -> Option<u64> {
    if request < DEVICE_MILLI {
        let sufficient = free.iter().enumerate().filter(|(_, left)| **left >= request);
        let (device, _) = sufficient.min_by_key(|(device, left)| (**left, *device))?;
        free[device] -= request;
        return Some(1 << device);
    }
    let wanted = (request / DEVICE_MILLI) as usize;
    let whole: Vec<usize> = (0..free.len()).filter(|device| free[*device] >= DEVICE_MILLI).take(wanted).collect();
    if whole.len() < wanted {
        return None;
    }
    let mut mask = 0;
    for device in whole {
        free[device] -= DEVICE_MILLI;
        mask |= 1 << device;
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_goes_to_the_least_sufficient_rest() {
        let mut free = [1000, 300, 600, 1000];
        assert_eq!(take_from(&mut free, 400), Some(0b0100));
        assert_eq!(take_from(&mut free, 200), Some(0b0100));
        assert_eq!(take_from(&mut free, 200), Some(0b0010));
        assert_eq!(take_from(&mut free, 200), Some(0b0001));
        assert_eq!(free, [800, 100, 0, 1000]);
        assert_eq!(room_in(&free, 400), 4);
    }

    #[test]
    fn whole_devices_are_taken_whole() {
        let mut free = [1000, 999, 1000, 1000];
        assert_eq!(room_in(&free, 2000), 1);
        assert_eq!(take_from(&mut free, 2000), Some(0b0101));
        assert_eq!(take_from(&mut free, 2000), None);
        assert_eq!(free, [0, 999, 0, 1000]);
    }
}
