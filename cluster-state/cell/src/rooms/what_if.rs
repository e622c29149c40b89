//! The cell as it would be with an overlay: what rules and planners read.

use crate::cell::Cell;
use crate::planted::quota::show_left;
use crate::rooms::ceded::Ceded;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::rooms::stops::{keep_back, stop_policy_of};
use crate::state::jobs::Job;
use crate::state::nodes::NOMINATED;
use crate::state::quota::{AT_ONCE, QueueId};
use crate::state::shapes::Shape;
use ohm_model::{FlavorResource, GroupIndex, HostPort, JobId, NodeId, ResourceId, Victim};
use ohm_stdx::RangeSet;

/// The cell as it would be.
#[derive(Clone, Copy, Debug)]
pub struct WhatIf<'a> {
    /// The cell as it is.
    pub cell: &'a Cell,
    /// What is taken and given back besides.
    pub over: &'a Overlay,
}

impl<'a> WhatIf<'a> {
    /// What is free of `resource` on `node`; may be below zero.
    #[inline]
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.cell.nodes.free(node, resource).saturating_sub(self.over.taken(node, resource))
    }

    /// Whether a task has a port of `node` that meets `port`.
    pub fn port_taken(&self, node: NodeId, port: HostPort) -> bool {
        let Some(record) = self.cell.nodes.get(node) else { return true };
        let over = || self.over.ports_met(node, port);
        let is_given_back = |taken| over().any(|(other, by)| other == taken && by < 0);
        port.met_in(&record.ports).any(|taken| !is_given_back(taken)) || over().any(|(_, by)| by > 0)
    }

    /// Free thousandths of one device; nothing when the node does not track devices of `resource` singly, or has no
    /// such device.
    pub fn device_free(&self, node: NodeId, resource: ResourceId, device: u32) -> Option<i64> {
        let bank = self.cell.nodes.get(node)?.bank(resource)?;
        let free = *bank.free_milli.get(device as usize).filter(|_| device < bank.present)?;
        Some(i64::from(free) - i64::from(*self.over.devices_taken(node, resource).get(device as usize)?))
    }

    /// Who is told to stop for others besides.
    pub fn told_besides(&self) -> impl Iterator<Item = &'a Victim> + use<'a> {
        self.over.preempting.iter().flat_map(|under_way| &under_way.victims)
    }

    /// How many tasks of the group are on `node` or on their way there.
    pub fn on_node(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.cell.live_on(job, group, node).saturating_add_signed(self.over.added_on_node(job, group, node))
    }

    /// The tasks of a group that wait to be placed, without those that a held queue keeps back.
    pub fn pending(&self, job: &Job, group: GroupIndex) -> RangeSet {
        let Some(found) = job.groups.get(usize::from(group.0)) else { return RangeSet::default() };
        let mut pending = found.pending.clone();
        self.over.placed(job.id, group).iter().for_each(|(first, count, _)| pending.remove(*first, *count));
        let known = self.cell.jobs.get(job.id).filter(|known| stop_policy_of(self.cell, known).is_some());
        if let Some(known) = known.filter(|known| known.reserved.is_empty()) {
            keep_back(known, found, &mut pending);
        }
        pending
    }

    /// How many tasks of a group are placed besides.
    pub fn placed(&self, job: JobId, group: GroupIndex) -> u32 {
        self.over.placed(job, group).iter().map(|(_, count, _)| count).sum()
    }

    /// The room that is held on `node`.
    #[inline]
    pub(crate) fn held(&self, node: NodeId) -> impl Iterator<Item = &'a Held> + Clone + use<'a> {
        let (besides, counts) = self.over.held_besides(node);
        let holds = counts && self.cell.nodes.flags(node) & NOMINATED != 0;
        let of_cell = if holds { self.cell.nominations.on_node(node) } else { &[] };
        of_cell.iter().chain(besides)
    }

    /// The shape of the group that room is held for.
    pub(crate) fn shape_of(&self, held: &Held) -> Option<&'a Shape> {
        let job = self.cell.jobs.get(held.job)?;
        self.cell.shape_of(job, usize::from(held.group)).map(|shape| &**shape)
    }

    /// For how many tasks of the group that are on the move, and not placed yet, room on `node` is kept from its other
    /// tasks. A group that starts anew keeps none: those tasks are among the ones that start.
    #[inline]
    pub fn kept_for_moving(&self, job: &Job, group: GroupIndex, node: NodeId) -> u32 {
        let Some(state) = job.groups.get(usize::from(group.0)).filter(|state| state.started) else { return 0 };
        if self.cell.nodes.flags(node) & NOMINATED == 0 {
            return 0;
        }
        let used = if state.moving.is_empty() { 0 } else { self.over.moved(job.id, group, node) };
        self.cell.room_for_moving(job.id, group, node).saturating_sub(used)
    }

    /// How many spares of the group are kept from its own tasks on `node`: none where they are lent, and each task that
    /// is on its way there takes one.
    pub(crate) fn kept_spares(&self, job: &Job, group: GroupIndex, node: NodeId) -> u32 {
        let any = job.groups.get(usize::from(group.0)).is_some_and(|state| state.spares > 0);
        if !any || self.over.lent.contains(&job.id) {
            return 0;
        }
        let under_way = self.over.added_on_node(job.id, group, node).max(0) as u32;
        self.cell.spares_on(job.id, group, node).saturating_sub(under_way)
    }

    /// How many of `most` tasks, each of which is charged so much, `queue` may still be charged for, beside what is
    /// `ceded`.
    pub(crate) fn quota_tasks(
        &self,
        queue: QueueId,
        charges: &[(FlavorResource, i64)],
        most: u32,
        ceded: &Ceded,
    ) -> u32 {
        let mut tasks = i64::from(most);
        for charges in charges.chunks(AT_ONCE) {
            for (&(_, request), left) in charges.iter().zip(self.quota_left(queue, charges, ceded)) {
                if left < request.saturating_mul(tasks) {
                    tasks = (left / request).max(0);
                }
            }
        }
        tasks as u32
    }

    /// How much more of each column, at most [`AT_ONCE`] of them, may be charged to `queue`, beside what is `ceded`;
    /// where nothing limits it, what sums can still hold.
    #[inline]
    pub(crate) fn quota_left(&self, queue: QueueId, asked: &[(FlavorResource, i64)], ceded: &Ceded) -> [i64; AT_ONCE] {
        let mut left = self.cell.quota.left_over(queue, asked, &self.over.queues).map(show_left);
        asked.iter().zip(&mut left).for_each(|((column, _), left)| *left -= ceded.of(*column));
        left
    }

    /// What the quota of `job` leaves to it; nothing when its queue has none.
    pub fn quota_of(&self, job: &Job) -> Option<QuotaLeft<'a>> {
        let queue = self.cell.quota.find(&job.spec.queue)?;
        let mut ceded = Ceded::default();
        ceded.find((self.cell, &self.over.queues), job, Some(queue));
        Some(QuotaLeft { what: *self, queue, ceded })
    }
}

/// What is left of its queue's quota to one job.
#[derive(Clone, Debug)]
pub struct QuotaLeft<'a> {
    what: WhatIf<'a>,
    queue: QueueId,
    ceded: Ceded,
}

impl QuotaLeft<'_> {
    /// How much more of a flavor and resource the job may use, borrowing included; nothing is no limit.
    pub fn available(&self, column: FlavorResource) -> Option<i64> {
        let WhatIf { cell, over } = self.what;
        let left = cell.quota.available_over(self.queue, column, &over.queues)?;
        Some(show_left(left) - self.ceded(column))
    }

    /// How much of it the queue could ever use.
    pub fn potential(&self, column: FlavorResource) -> i64 {
        let quota = &self.what.cell.quota;
        quota.potential(&quota.at(self.queue).spec.name, column).unwrap_or(0)
    }

    /// From how far up `amount` more of it is lent; see Kueue's borrowing level.
    pub fn borrowing_level(&self, column: FlavorResource, amount: i64) -> u32 {
        self.what.cell.quota.borrowing_level(self.queue, column, amount, &self.what.over.queues)
    }

    /// How much of it is left to jobs that come before it and are planned by other schedulers.
    pub fn ceded(&self, column: FlavorResource) -> i64 {
        self.ceded.of(column)
    }
}
