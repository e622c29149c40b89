//! FragmentationGradient: what of the node's free devices the cell's typical requests could use before the task and
//! can't use after it. A device less for all of them is the whole weight.
//!
//! A request can use the devices of a node that are free enough for it while one task of it fits. So a task that takes
//! the last processors of a node with free devices costs these devices, a share that breaks a device up costs what asks
//! for whole ones, and what nobody can use any more is taken for nothing. (Fragmentation gradient descent: Weng et al.,
//! ATC 2023.) Three quarters of a device are counted so; the last one counts only as far as processors, memory and
//! other amounts last, so that these count before they run out: that leaves 1.3 % fewer devices of their trace idle.
//!
//! Ports and limits per node and job are left out of the picture: it is a forecast.

use super::costs::{Lost, NodeQuestion};
use crate::devices::{room_in, take_from};
use crate::typical::TypicalRequest;
use ohm_cell::Shape;
use ohm_model::ResourceId;
use ohm_model::resources::DEVICE_MILLI;

/// What devices are counted in.
const QUARTERS: i64 = 4;

/// What is free on a node.
#[derive(Clone)]
struct Free {
    /// By resource.
    amounts: Vec<i64>,
    /// Free thousandths by device, of resources whose devices are tracked singly.
    banks: Vec<(ResourceId, Vec<i64>)>,
}

pub(super) fn lost(question: &NodeQuestion<'_>) -> Lost {
    let typical = question.typical;
    let Some(before) = Free::on(question).filter(|_| !typical.requests.is_empty()) else { return Lost::NOTHING };
    let mut after = before.clone();
    if !after.take(question.shape) {
        // Another rule says so.
        return Lost::NOTHING;
    }
    let cell = question.view.cell();
    // Numbers of shapes that nobody has any more are given again.
    let is_known =
        |request: &TypicalRequest| cell.shapes().get(request.number).is_some_and(|known| *known == request.shape);
    let admitted = typical.requests.iter().filter(|request| is_known(request));
    let admitted = admitted.filter(|request| cell.admits(request.number, question.node));
    let usable = |request: &TypicalRequest| {
        let before = before.usable(&request.shape);
        if before == 0 { 0 } else { (before - after.usable(&request.shape)).max(0) as u64 * request.parts }
    };
    Lost { parts: admitted.map(usable).sum(), of: typical.parts() * (QUARTERS * DEVICE_MILLI) as u64 }
}

impl Free {
    /// What is free now; nothing where no device is.
    fn on(question: &NodeQuestion<'_>) -> Option<Free> {
        let (view, node) = (question.view, question.node);
        let record = view.cell().nodes().get(node)?;
        let bank = |resource: ResourceId, present: u32| {
            let free = |device| view.device_free(node, resource, device).unwrap_or(0).max(0);
            (resource, (0..present).map(free).collect::<Vec<i64>>())
        };
        let banks: Vec<_> = record.devices.iter().map(|found| bank(found.resource, found.present)).collect();
        if banks.iter().all(|(_, free)| free.iter().all(|left| *left == 0)) {
            return None;
        }
        let resources = 0..view.cell().resources().len() as u16;
        Some(Free { amounts: resources.map(|resource| view.free(node, ResourceId(resource))).collect(), banks })
    }

    /// Takes one task, as it is given devices; false when it does not fit.
    fn take(&mut self, shape: &Shape) -> bool {
        for &(resource, request) in &shape.requests {
            let Some(free) = self.amounts.get_mut(usize::from(resource.0)) else { return false };
            *free -= request;
            if *free < 0 {
                return false;
            }
        }
        shape.devices.iter().all(|(resource, request)| match self.bank(*resource) {
            Some(bank) => take_from(bank, *request).is_some(),
            None => true,
        })
    }

    fn bank(&mut self, resource: ResourceId) -> Option<&mut Vec<i64>> {
        self.banks.iter_mut().find(|(known, _)| *known == resource).map(|(_, free)| free)
    }

    /// How much of the devices tasks of `shape` can use, in quarters of thousandths.
    fn usable(&self, shape: &Shape) -> i64 {
        let (mut enough, mut of_one) = (0, 0);
        for &(resource, request) in &shape.devices {
            let Some((_, free)) = self.banks.iter().find(|(known, _)| *known == resource) else { continue };
            if room_in(free, request) == 0 {
                return 0;
            }
            enough += free.iter().filter(|left| **left >= request.min(DEVICE_MILLI)).sum::<i64>();
            of_one += request;
        }
        let mut lasting = enough;
        for &(resource, request) in &shape.requests {
            let free = self.amounts.get(usize::from(resource.0)).copied().unwrap_or(0);
            if free < request {
                return 0;
            }
            lasting = lasting.min(free.saturating_mul(of_one) / request.max(1));
        }
        (QUARTERS - 1) * enough + lasting
    }
}
