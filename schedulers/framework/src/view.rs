//! What a planner is shown: its copy of the cell, less what its own scheduler has under way.

use crate::holds::Holds;
use ohm_cell::{Cell, Job};
use ohm_model::{GroupIndex, Index, JobGuard, JobId, NodeId, ResourceId, Role, RunRef, SessionId, ShapeId};
use ohm_stdx::RangeSet;

/// A borrowed, consistent picture of the cell. Cheap to make and to copy.
///
/// Amounts are net of holds: what transactions in flight will take is shown as taken. Columns read straight from
/// [`View::cell`] are gross; [`View::held_nodes`] names the nodes where the two differ.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    cell: &'a Cell,
    holds: &'a Holds,
    pass: Option<&'a Holds>,
    session: SessionId,
    start: NodeId,
    lends_spares: bool,
}

impl<'a> View<'a> {
    /// The picture that `session` has of `cell` with `holds` under way.
    pub fn new(cell: &'a Cell, holds: &'a Holds, session: SessionId) -> Self {
        View { cell, holds, pass: None, session, start: start_of(cell, session), lends_spares: false }
    }

    /// The same picture, with what this pass has planned so far taken too.
    pub fn over<'b>(&self, pass: &'b Holds) -> View<'b>
    where
        'a: 'b,
    {
        View { pass: Some(pass), ..*self }
    }

    /// The same picture, in which the spares of a job are room and quota for its own tasks.
    pub fn lending_spares(self, lends_spares: bool) -> Self {
        View { lends_spares, ..self }
    }

    /// The copy of the cell, holds not subtracted.
    pub fn cell(&self) -> &'a Cell {
        self.cell
    }

    /// The own session; 0 for an offline question.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The last entry the copy has applied.
    pub fn seen(&self) -> Index {
        self.cell.applied()
    }

    /// Stamped time, for back-offs and the ends of nominations.
    pub fn now_ms(&self) -> u64 {
        self.cell.now_ms()
    }

    /// Where this replica starts its searches: each replica in another part of the nodes, so that replicas seldom want
    /// the same room. A hint: the search goes on over all nodes from there.
    pub fn start(&self) -> NodeId {
        self.start
    }

    /// What is free of `resource` on `node`; may be below zero.
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.cell.nodes().free(node, resource) - self.layers().map(|holds| holds.amount(node, resource)).sum::<i64>()
    }

    /// What is free for group `group` of `job`: less what is kept for nominated jobs it may not override, for tasks of
    /// its own that are on the move, and as spares of its job.
    pub fn free_for(&self, job: &Job, group: GroupIndex, node: NodeId, resource: ResourceId) -> i64 {
        let mut free = self.free(node, resource) - self.cell.held_from(job, group, node, resource);
        if !self.lends_spares && job.groups.iter().any(|group| group.spares > 0) {
            free -= self.cell.spares_beside(job.id, group, node, resource);
        }
        match self.kept_for_own(job, group, node) {
            0 => free,
            kept => {
                let shape = self.cell.shape_of(job, usize::from(group.0));
                let request = shape.and_then(|shape| shape.requests.iter().find(|(column, _)| *column == resource));
                free - request.map_or(0, |(_, amount)| amount.saturating_mul(i64::from(kept)))
            }
        }
    }

    /// For how many tasks of the group that are on the move, and not on their way, there is room on `node`. A group
    /// that starts anew counts it as free: those tasks are among the ones that start.
    pub fn kept_for_moving(&self, job: &Job, group: GroupIndex, node: NodeId) -> u32 {
        let moves = |found: &ohm_cell::Group| found.started && !found.moving.is_empty();
        if !job.groups.get(usize::from(group.0)).is_some_and(moves) {
            return 0;
        }
        let under_way: u32 = self.layers().map(|holds| holds.on_node(job.id, group, node)).sum();
        self.cell.room_for_moving(job.id, group, node).saturating_sub(under_way)
    }

    /// For how many other tasks of the group room on `node` is kept: for those on the move, and as spares.
    pub fn kept_for_own(&self, job: &Job, group: GroupIndex, node: NodeId) -> u32 {
        let moving = self.kept_for_moving(job, group, node);
        let any = job.groups.get(usize::from(group.0)).is_some_and(|found| found.spares > 0);
        if self.lends_spares || !any {
            return moving;
        }
        let under_way: u32 = self.layers().map(|holds| holds.on_node(job.id, group, node)).sum();
        moving.saturating_add(self.cell.spares_on(job.id, group, node).saturating_sub(under_way))
    }

    /// Whether a host port is taken on `node`.
    pub fn port_taken(&self, node: NodeId, port: u16) -> bool {
        let record = self.cell.nodes().get(node);
        record.is_some_and(|record| record.ports.binary_search(&port).is_ok())
            || self.layers().any(|holds| holds.has_port(node, port))
    }

    /// Free thousandths of one device; nothing when the node does not track devices of `resource` singly, or has no
    /// such device.
    pub fn device_free(&self, node: NodeId, resource: ResourceId, device: u32) -> Option<i64> {
        let bank = self.cell.nodes().get(node)?.bank(resource)?;
        let free = *bank.free_milli.get(device as usize).filter(|_| device < bank.present)?;
        Some(i64::from(free) - self.layers().map(|holds| holds.device(node, resource, device)).sum::<i64>())
    }

    /// How many tasks of a group stand on `node` or are on their way there.
    pub fn standing_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let under_way: u32 = self.layers().map(|holds| holds.on_node(job, group, node)).sum();
        self.cell.standing_on(job, group, node) + under_way
    }

    /// Whether labels and taints of `node` let `shape` stand there.
    pub fn admits(&self, shape: ShapeId, node: NodeId) -> bool {
        self.cell.admits(shape, node)
    }

    /// The tasks of a group that wait to be placed and are not under way.
    pub fn pending(&self, job: &Job, group: GroupIndex) -> RangeSet {
        let Some(found) = job.groups.get(usize::from(group.0)) else { return RangeSet::default() };
        let mut pending = found.pending.clone();
        for (first, count) in self.layers().flat_map(|holds| holds.tasks(job.id, group)) {
            pending.remove(first, count);
        }
        pending
    }

    /// How many tasks of a group are under way.
    pub fn in_flight(&self, job: JobId, group: GroupIndex) -> u32 {
        self.layers().flat_map(|holds| holds.tasks(job, group)).map(|(_, count)| count).sum()
    }

    /// How much more of `resource` a queue may use; nothing is no limit. What is under way is charged to its own queue,
    /// as it is when it is judged.
    pub fn quota_available(&self, queue: &str, resource: ResourceId) -> Option<i64> {
        let held = self.layers().flat_map(|holds| holds.quota(resource));
        self.cell.quota().available_beside(queue, resource, held)
    }

    /// The same for tasks of `job`: where its spares are lent, what they are charged is not.
    pub fn quota_available_for(&self, job: &Job, resource: ResourceId) -> Option<i64> {
        let (queue, name) = (job.spec.queue.as_str(), self.cell.resources().name(resource));
        let lent = self.lends_spares && job.groups.iter().any(|group| group.spares > 0);
        let lent = lent.then(|| self.cell.spares_charged(job).get(name).copied().unwrap_or(0));
        let held = self.layers().flat_map(|holds| holds.quota(resource));
        self.cell.quota().available_beside(queue, resource, held.chain(lent.map(|amount| (queue, -amount))))
    }

    /// Whether a transaction under way stops this run: its room is spoken for.
    pub fn is_victim(&self, run: RunRef) -> bool {
        self.layers().any(|holds| holds.is_victim(run))
    }

    /// Nodes on which something is under way, ascending; those of the pass after the others.
    pub fn held_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.layers().flat_map(|holds| holds.nodes())
    }

    /// What a plan for `job` made on this picture must be judged against.
    pub fn guard(&self, job: &Job) -> JobGuard {
        JobGuard { job: job.id, version: job.version, reserved: !job.reserved.is_empty() }
    }

    fn layers(&self) -> impl Iterator<Item = &'a Holds> + use<'a> {
        std::iter::once(self.holds).chain(self.pass)
    }
}

/// The nodes cut into as many equal parts as there are scheduler sessions; the own part begins here.
fn start_of(cell: &Cell, session: SessionId) -> NodeId {
    let schedulers = cell.sessions().iter().filter(|(_, found)| matches!(found.role, Role::Scheduler(_)));
    let (mut before, mut all) = (0u64, 0u64);
    for (other, _) in schedulers {
        before += u64::from(other < session);
        all += 1;
    }
    let slots = cell.nodes().slots() as u64;
    NodeId((slots * before.min(all.saturating_sub(1)) / all.max(1)) as u32)
}
