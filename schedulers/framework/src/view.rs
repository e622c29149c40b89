//! What a planner is shown: its copy of the cell with an overlay of what its own scheduler has under way.

use ohm_cell::{Cell, Job, Overlay, QuotaLeft, WhatIf};
use ohm_model::{GroupIndex, HostPort, Index, JobGuard, JobId, NodeId, ResourceId, Role, SessionId, ShapeId};
use ohm_stdx::RangeSet;
use std::ops::Range;

/// A borrowed, consistent picture of the cell. Cheap to make and to copy.
///
/// Amounts are net of the overlay: what transactions in flight will take, and what the pass has planned, is shown as
/// taken. Columns read straight from [`View::cell`] are gross.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    what: WhatIf<'a>,
    session: SessionId,
    part: Part,
}

impl<'a> View<'a> {
    /// The picture that `session` has of `cell` with `over` laid over it.
    pub fn new(cell: &'a Cell, over: &'a Overlay, session: SessionId) -> Self {
        View { what: WhatIf { cell, over }, session, part: part_of(cell, session) }
    }

    /// The copy of the cell, without the overlay.
    pub fn cell(&self) -> &'a Cell {
        self.what.cell
    }

    /// The cell as it would be, as the rules see it.
    pub fn what(&self) -> WhatIf<'a> {
        self.what
    }

    /// The own session; 0 for an offline question.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The last entry the copy has applied.
    pub fn seen(&self) -> Index {
        self.what.cell.applied()
    }

    /// Stamped time, for back-offs and the ends of nominations.
    pub fn now_ms(&self) -> u64 {
        self.what.cell.now_ms()
    }

    /// The part of the nodes where this replica starts its searches: each replica has another one, so that replicas
    /// seldom want the same room. A hint: the search goes on over all nodes from there.
    pub fn part(&self) -> Range<u32> {
        self.part.first..self.part.end
    }

    /// What is free of `resource` on `node`; may be below zero.
    pub fn free(&self, node: NodeId, resource: ResourceId) -> i64 {
        self.what.free(node, resource)
    }

    /// Whether a host port is taken on `node`.
    pub fn port_taken(&self, node: NodeId, port: HostPort) -> bool {
        self.what.port_taken(node, port)
    }

    /// Free thousandths of one device; nothing when the node does not track devices of `resource` singly, or has no
    /// such device.
    pub fn device_free(&self, node: NodeId, resource: ResourceId, device: u32) -> Option<i64> {
        self.what.device_free(node, resource, device)
    }

    /// How many tasks of a group are on `node` or on their way there.
    pub fn live_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        self.what.on_node(job, group, node)
    }

    /// Whether labels and taints of `node` admit `shape`.
    pub fn admits(&self, shape: ShapeId, node: NodeId) -> bool {
        self.what.cell.admits(shape, node)
    }

    /// The tasks of a group that wait to be placed and are not under way.
    pub fn pending(&self, job: &Job, group: GroupIndex) -> RangeSet {
        self.what.pending(job, group)
    }

    /// How many tasks of a group are under way.
    pub fn in_flight(&self, job: JobId, group: GroupIndex) -> u32 {
        self.what.placed(job, group)
    }

    /// What the quota of its queue leaves to `job`; nothing when it has no queue. What is under way is charged to its
    /// own queue, as it is when it is judged.
    pub fn quota_of(&self, job: &Job) -> Option<QuotaLeft<'a>> {
        self.what.quota_of(job)
    }

    /// What a plan for `job` made on this picture must be judged against.
    pub fn guard(&self, job: &Job) -> JobGuard {
        JobGuard { job: job.id, version: job.version, reserved: !job.reserved.is_empty() }
    }
}

/// The picture together with its overlay, on which a planner lays what it plans: with savepoints, and without copies.
#[derive(Debug)]
pub struct Board<'a> {
    cell: &'a Cell,
    over: &'a mut Overlay,
    session: SessionId,
    part: Part,
    as_if: Option<&'a Job>,
}

impl<'a> Board<'a> {
    /// As [`View::new`].
    pub fn new(cell: &'a Cell, over: &'a mut Overlay, session: SessionId) -> Self {
        Board { cell, over, session, part: part_of(cell, session), as_if: None }
    }

    /// The same board for a while.
    pub fn lend(&mut self) -> Board<'_> {
        Board { cell: self.cell, over: self.over, session: self.session, part: self.part, as_if: self.as_if }
    }

    /// The same board, on which `job` is another one than in the cell.
    pub fn with_job<'b>(&'b mut self, job: &'b Job) -> Board<'b> {
        Board { as_if: Some(job), ..self.lend() }
    }

    /// The picture.
    pub fn view(&self) -> View<'_> {
        let what = WhatIf { cell: self.cell, over: self.over };
        View { what, session: self.session, part: self.part }
    }

    /// The copy of the cell, without the overlay.
    pub fn cell(&self) -> &'a Cell {
        self.cell
    }

    /// The job, as it would be.
    pub fn job(&self, id: JobId) -> Option<&'a Job> {
        let as_if = self.as_if.filter(|job| job.id == id);
        as_if.or_else(|| self.cell.jobs().get(id).map(AsRef::as_ref))
    }

    /// What is laid over the cell.
    pub fn over(&mut self) -> &mut Overlay {
        self.over
    }
}

/// A part of the nodes.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u32,
    end: u32,
}

/// The nodes cut into as many equal parts as there are scheduler sessions; this is the own one.
fn part_of(cell: &Cell, session: SessionId) -> Part {
    let schedulers = cell.sessions().iter().filter(|(_, found)| matches!(found.role, Role::Scheduler(_)));
    let (mut before, mut all) = (0u64, 0u64);
    for (other, _) in schedulers {
        before += u64::from(other < session);
        all += 1;
    }
    let slots = cell.nodes().slots() as u64;
    let before = before.min(all.saturating_sub(1));
    Part { first: (slots * before / all.max(1)) as u32, end: (slots * (before + 1) / all.max(1)) as u32 }
}
