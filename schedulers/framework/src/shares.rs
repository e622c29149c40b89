//! The order of the parts of queues whose jobs come by what their subqueues have used (`usageBasedOrder`). The keys are
//! those by which the log judges, with what is under way here counted, too.

use crate::planner::Planner;
use crate::scheduler::SchedulerCore;
use ohm_cell::{Cell, QuotaNode, usage_key};
use ohm_model::{Index, QueueingStrategy};
use std::sync::Arc;

/// The queues of `cell` that have such an order.
pub(crate) fn ordered_queues(cell: &Cell) -> impl Iterator<Item = &str> {
    cell.subqueues().ordered_queues()
}

impl<P: Planner> SchedulerCore<P> {
    /// Gives the parts of the backlog's lines the keys that they have by now. Where another part of a StrictFIFO queue
    /// comes first than when that was looked at last, its jobs are looked at again.
    pub(crate) fn key_parts(&mut self) {
        let cell = self.follower.cell();
        for queue in ordered_queues(cell) {
            let parts = self.backlog.parts(queue);
            if parts.len() < 2 {
                continue;
            }
            let (line, held): (Arc<str>, _) = (queue.into(), self.holds.of_parts(queue));
            for part in &parts {
                self.backlog.set_key(&line, part, usage_key(cell, queue, part, &held).0);
            }
            let order = self.backlog.parts(queue);
            let is_strict = |queue: &QuotaNode| queue.spec.queueing_strategy == QueueingStrategy::StrictFifo;
            if cell.quota().get(queue).is_some_and(is_strict) && self.part_order.get(&line) != Some(&order) {
                self.changes.quota.insert(cell.quota().root(queue).into());
                self.part_order.insert(line, order);
            }
        }
    }

    /// As [`SchedulerCore::key_parts`], once for each state of the cell.
    pub(crate) fn follow_usage(&mut self) {
        let applied: Index = self.follower.cell().applied();
        if self.keyed_at != Some(applied) {
            self.keyed_at = Some(applied);
            self.key_parts();
        }
    }
}
