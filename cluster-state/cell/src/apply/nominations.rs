//! Room kept on nodes: for preemptors, for tasks on the move, and as spares.

use super::Applied;
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::Job;
use crate::state::nodes::NOMINATED;
use ohm_model::{GroupIndex, JobId, NodeId, Nomination, Purpose, ResourceId};

impl Cell {
    /// Keeps room for a preemptor, in place of what is kept for its group on the node.
    pub(super) fn nominate(&mut self, nomination: &Nomination, applied: &mut Applied) {
        let Some(job) = self.jobs.get(nomination.job) else { return };
        let (job, group, priority) = (nomination.job, nomination.group.0, job.spec.priority);
        let (node, count, purpose, since) = (nomination.node, nomination.count, nomination.purpose, self.applied);
        self.sweep_nominations(node, |former| !(former.is_preemptor() && (former.job, former.group) == (job, group)));
        self.hold(node, Held { job, group, count, priority, purpose, since }, applied);
        if let Purpose::Preemptor { expires_ms } = purpose {
            self.arm_nomination(node, expires_ms);
        }
    }

    /// Keeps room on `node`, and says so.
    pub(super) fn hold(&mut self, node: NodeId, held: Held, applied: &mut Applied) {
        self.nominations.add(node, held);
        self.nodes.set_flag(node, NOMINATED, true);
        self.touch_node(node, applied);
    }

    pub(super) fn use_nomination(&mut self, job: JobId, group: GroupIndex, node: NodeId, count: u32) {
        self.sweep_nominations(node, |held| {
            if held.is_preemptor() && (held.job, held.group) == (job, group.0) {
                held.count = held.count.saturating_sub(count);
            }
            held.count > 0
        });
    }

    /// Keeps of the room on `node` what passes, and clears its flag with the last one. Returns whether any ended.
    pub(super) fn sweep_nominations(&mut self, node: NodeId, keep: impl FnMut(&mut Held) -> bool) -> bool {
        let held = |cell: &Cell| cell.nominations.on_node(node).iter().map(|held| u64::from(held.count)).sum::<u64>();
        let before = held(self);
        let ended = self.nominations.retain(node, keep) > 0;
        if held(self) < before {
            self.free_node(node);
        }
        if ended && self.nominations.on_node(node).is_empty() {
            self.nodes.set_flag(node, NOMINATED, false);
        }
        ended
    }

    /// How much of `resource` on `node` is kept from group `group` of `job` by nominations it may not override.
    pub fn held_from(&self, job: &Job, group: GroupIndex, node: NodeId, resource: ResourceId) -> i64 {
        let binds = |held: &&Held| (held.job, held.group) != (job.id, group.0) && held.binds(job.id, job.spec.priority);
        let amounts = self.nominations.on_node(node).iter().filter(binds).map(|held| self.held_amount(held, resource));
        amounts.fold(0, i64::saturating_add)
    }

    pub(crate) fn held_amount(&self, held: &Held, resource: ResourceId) -> i64 {
        let shape = self.jobs.get(held.job).and_then(|job| self.shape_of(job, usize::from(held.group)));
        let request = shape.and_then(|shape| shape.requests.iter().find(|(column, _)| *column == resource));
        request.map_or(0, |(_, amount)| amount.saturating_mul(i64::from(held.count)))
    }
}
