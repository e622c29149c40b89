//! The order of the parts of queues whose jobs come by what their subqueues have used (`usageBasedOrder`). The keys are
//! those by which the log judges, with what is under way here counted, too.

use crate::planner::Planner;
use crate::scheduler::SchedulerCore;
use ohm_cell::{Cell, QuotaNode, subqueues, usage_key};
use ohm_model::{Index, QueueingStrategy};
use std::sync::Arc;

/// The queues of `cell` that have such an order.
pub(crate) fn ordered_queues(cell: &Cell) -> impl Iterator<Item = &str> {
    subqueues(cell).ordered_queues()
}

/// Gives the parts of the backlog's lines the keys that they have by now. Where another part of a StrictFIFO queue
/// comes first than when that was looked at last, its jobs are looked at again.
pub(crate) fn key_parts<P: Planner>(core: &mut SchedulerCore<P>) {
    let cell = core.follower.cell();
    for queue in ordered_queues(cell) {
        let parts = core.backlog.lines().parts(queue);
        if parts.len() < 2 {
            continue;
        }
        let (line, held): (Arc<str>, _) = (queue.into(), core.holds.of_parts(queue));
        for part in &parts {
            core.backlog.set_key(&line, part, usage_key(cell, queue, part, &held).0);
        }
        let order = core.backlog.lines().parts(queue);
        let is_strict = |queue: &QuotaNode| queue.spec.queueing_strategy == QueueingStrategy::StrictFifo;
        if cell.quota().get(queue).is_some_and(is_strict) && core.part_order.get(&line) != Some(&order) {
            core.changes.quota.insert(cell.quota().root(queue).into());
            core.part_order.insert(line, order);
        }
    }
}

/// As [`key_parts`], once for each state of the cell.
pub(crate) fn follow_usage<P: Planner>(core: &mut SchedulerCore<P>) {
    let applied: Index = core.follower.cell().applied();
    if core.keyed_at != Some(applied) {
        core.keyed_at = Some(applied);
        key_parts(core);
    }
}
