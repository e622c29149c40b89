//! What queues are charged for the rows of a transaction.

use super::scratch::{Charge, Scratch};
use crate::cell::Cell;
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use crate::state::shapes::Shape;
use ohm_model::{GroupIndex, ShapeId};

impl Scratch {
    /// How many tasks of a shape a queue may still be charged for.
    #[inline]
    pub(super) fn left_for(&mut self, cell: &Cell, of: (QueueId, GroupIndex, ShapeId), shape: &Shape) -> u32 {
        if self.charge.of != Some(of) {
            self.settle(cell);
            let left = WhatIf { cell, over: &self.over }.quota_tasks(of.0, &shape.charges, u32::MAX, &self.ceded);
            self.charge = Charge { of: Some(of), left, tasks: 0 };
        }
        self.charge.left
    }

    /// The cell is another one than before.
    pub(super) fn forget_ceded(&mut self) {
        self.ceded.clear();
        self.ceded_before.clear();
    }

    /// From here on rows are those of `job`, which leaves something to those that come before it in `queue`, if it is
    /// charged to one.
    #[inline]
    pub(super) fn cede(&mut self, cell: &Cell, job: &Job, queue: Option<QueueId>) {
        let swaps = queue.is_some() && self.ceded.queue() != queue && self.ceded_before.queue() == queue;
        if swaps {
            std::mem::swap(&mut self.ceded, &mut self.ceded_before);
        } else if queue.is_some() && self.ceded.queue().is_some_and(|known| Some(known) != queue) {
            self.ceded_before = std::mem::take(&mut self.ceded);
        }
        if queue.is_some_and(|queue| cell.quota.at(queue).limits_anything()) {
            self.settle(cell);
        }
        if self.ceded.find((cell, &self.over.queues), job, queue) || swaps {
            self.ask_quota_again();
        }
    }

    /// So many of those tasks are accepted.
    pub(super) fn charge(&mut self, tasks: u32) {
        self.charge.left = self.charge.left.saturating_sub(tasks);
        self.charge.tasks += tasks;
    }

    /// Charges what is not charged yet.
    pub(super) fn settle(&mut self, cell: &Cell) {
        let tasks = std::mem::take(&mut self.charge.tasks);
        if tasks > 0
            && let Some((queue, group, id)) = self.charge.of
            && let Some(shape) = cell.shapes.get(id)
        {
            self.over.charge_shape(&cell.quota, group, queue, (id, shape, tasks as i32));
        }
    }

    /// The tree is changed otherwise: it is to be asked again.
    pub(super) fn ask_quota_again(&mut self) {
        self.charge = Charge::default();
    }
}
