//! Who asks: one group of one job, on one picture of the cell. The exact rules, node by node, as the cell judges them.

use crate::devices::DeviceRoom;
use crate::filters::FILTERS;
use ohm_cell::{Job, Shape, TaskState, Topology};
use ohm_framework::{Miss, View};
use ohm_model::{GroupIndex, GroupSpec, NodeId, ShapeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A topology domain that nodes must be in.
#[derive(Clone, Copy, Debug)]
pub struct Fence<'a> {
    /// The topology.
    pub topology: &'a Topology,
    /// The level, from the top.
    pub level: usize,
    /// The domain, as [`Topology::key_of`] names it; nothing when any domain will do.
    pub key: Option<u32>,
}

impl Fence<'_> {
    /// Whether `node` is inside.
    pub fn holds(&self, node: NodeId) -> bool {
        let key = self.topology.key_of(node, self.level);
        key.is_some() && (self.key.is_none() || self.key == key)
    }
}

/// One group of one job that asks for nodes.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The picture.
    pub view: View<'a>,
    /// The job.
    pub job: &'a Job,
    /// The group.
    pub group: GroupIndex,
    /// The group as asked for.
    pub spec: &'a GroupSpec,
    /// Its shape's number.
    pub shape_id: ShapeId,
    /// Its shape.
    pub shape: &'a Arc<Shape>,
    /// The topology it must stay in.
    pub fence: Option<Fence<'a>>,
}

impl<'a> Subject<'a> {
    /// Group `group` of `job` on `view`; nothing when the job has no such group.
    pub fn new(view: View<'a>, job: &'a Job, group: GroupIndex) -> Option<Self> {
        let spec = job.spec.groups.get(usize::from(group.0))?;
        let shape_id = job.groups.get(usize::from(group.0))?.shape;
        let shape = view.cell().shapes().get(shape_id)?;
        Some(Subject { view, job, group, spec, shape_id, shape, fence: None })
    }

    /// The first filter that keeps the group away from `node`.
    pub fn first_miss(&self, node: NodeId) -> Option<Miss> {
        FILTERS.iter().find_map(|filter| (filter.check)(self, node))
    }

    /// Whether every filter but the one for resources lets the node through.
    pub(crate) fn passes_all_but_resources(&self, node: NodeId) -> bool {
        let mut others = FILTERS.iter().filter(|filter| !filter.asks_amounts);
        others.all(|filter| (filter.check)(self, node).is_none())
    }

    /// How many tasks of the group fit on `node` now: what [`ohm_cell::Cell::judge`] would take, at least.
    pub fn room(&self, node: NodeId) -> u32 {
        if self.first_miss(node).is_some() {
            return 0;
        }
        let mut room = i64::from(u32::MAX);
        for &(resource, request) in &self.shape.requests {
            room = room.min(self.view.free_for(self.job, self.group, node, resource) / request.max(1));
        }
        let mut room = room.clamp(0, i64::from(u32::MAX)) as u32;
        let kept = self.view.kept_for_own(self.job, self.group, node);
        if room > 1 - kept.min(1) && !self.shape.devices.is_empty() {
            room = room.min(DeviceRoom::new(&self.view, self.shape, node).room().0.saturating_sub(kept));
        }
        if !self.shape.ports.is_empty() {
            room = room.min(1 - kept.min(1));
        }
        self.limited(node, room)
    }

    /// `room`, but no more than the limit per node leaves beside those that stand there, that move there and
    /// that are spares there.
    pub(crate) fn limited(&self, node: NodeId, room: u32) -> u32 {
        match self.shape.max_per_node {
            0 => room,
            _ if room == 0 => 0,
            _ => self.limited_beside(node, room, self.view.kept_for_own(self.job, self.group, node)),
        }
    }

    /// `room`, but no more than the limit per node leaves beside those that stand there and `kept` others.
    pub(crate) fn limited_beside(&self, node: NodeId, room: u32, kept: u32) -> u32 {
        match self.shape.max_per_node {
            0 => room,
            limit => room.min(limit.saturating_sub(self.standing_on(node).saturating_add(kept))),
        }
    }

    /// Where tasks of the group stand or are on their way to, and how many.
    pub(crate) fn standing(&self) -> BTreeMap<NodeId, u32> {
        let mut standing: BTreeMap<NodeId, u32> = self.under_way().collect();
        if let Some(group) = self.job.groups.get(usize::from(self.group.0)).filter(|group| group.live > 0) {
            for task in group.tasks.iter().filter(|task| task.state == TaskState::Live) {
                *standing.entry(task.node).or_insert(0) += 1;
            }
        }
        standing
    }

    /// Nodes to which tasks of the group are on their way, and how many.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let any = self.view.in_flight(self.job.id, self.group) > 0;
        let mut nodes: Vec<NodeId> = if any { self.view.held_nodes().collect() } else { Vec::new() };
        nodes.sort_unstable();
        nodes.dedup();
        let held = move |node: NodeId| {
            let here = self.standing_on(node) - self.view.cell().standing_on(self.job.id, self.group, node);
            (node, here)
        };
        nodes.into_iter().map(held).filter(|(_, tasks)| *tasks > 0)
    }

    /// How many tasks of the group stand on `node` or are on their way there.
    pub fn standing_on(&self, node: NodeId) -> u32 {
        self.view.standing_on(self.job.id, self.group, node)
    }

    /// Whether `node` is in the domain that the group stands in, if it stands in one.
    pub fn is_in_domain(&self, node: NodeId) -> bool {
        let at = usize::from(self.group.0);
        let (Some((name, level)), Some(domain)) = (self.job.binding_level(at), self.job.shared_domain(at)) else {
            return true;
        };
        let topology = self.view.cell().topologies().get(name);
        topology.is_some_and(|topology| topology.key_of(node, topology.level(level).unwrap_or(0)) == Some(domain))
    }

    /// How many tasks fit on `node` in the room that is reserved for those of the group that are on the move.
    pub fn room_reserved(&self, node: NodeId) -> u32 {
        // Those two count the room as taken.
        let filters = FILTERS.iter().filter(|filter| !["nominations", "limitPerNode"].contains(&filter.name));
        if filters.into_iter().any(|filter| (filter.check)(self, node).is_some()) {
            return 0;
        }
        let mut room = i64::from(u32::MAX);
        for &(resource, request) in &self.shape.requests {
            let held = self.view.cell().held_from(self.job, self.group, node, resource);
            room = room.min((self.view.free(node, resource) - held) / request.max(1));
        }
        let mut room = room.clamp(0, i64::from(u32::MAX)) as u32;
        if room > 1 && !self.shape.devices.is_empty() {
            room = room.min(DeviceRoom::new(&self.view, self.shape, node).room().0);
        }
        if !self.shape.ports.is_empty() {
            room = room.min(1);
        }
        self.limited_beside(node, room, 0)
    }
}
