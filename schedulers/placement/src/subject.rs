//! Who asks: one group of one job, on one picture of the cell. The exact rules, node by node, as the cell judges them.

use ohm_cell::{Asker, Fence, Job, Preferences, Room, Shape, Surroundings, TaskState, Wish};
use ohm_framework::{Miss, View};
use ohm_model::{GroupIndex, GroupSpec, NodeId, ShapeId};
use std::collections::BTreeMap;
use std::sync::Arc;

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

    /// The group as the rules see it, with tasks that are on the move or not.
    fn asker(&self, moving: bool) -> Asker<'_> {
        let wish = Wish::Plan { moving, within: self.fence };
        Asker::made_of(self.job, self.group, (self.shape_id, self.shape), wish)
    }

    /// The first rule that keeps the group away from `node`.
    pub fn first_miss(&self, node: NodeId) -> Option<Miss> {
        Room::miss(&self.asker(false), self.view.what(), node)
    }

    /// Whether amounts are all that may keep the group away from `node`.
    pub(crate) fn is_near(&self, node: NodeId) -> bool {
        Room::is_near(&self.asker(false), self.view.what(), node)
    }

    /// How many tasks of the group fit on `node` now: what [`ohm_cell::Cell::judge`] would take, at least.
    pub fn room(&self, node: NodeId) -> u32 {
        Room::of(&self.asker(false), self.view.what(), node, u32::MAX).count
    }

    /// What the tasks around the group make of nodes; nothing where all are alike.
    pub(crate) fn preferences(&self) -> Option<Preferences<'a>> {
        let wish = Wish::Plan { moving: false, within: self.fence };
        let asker = Asker::made_of(self.job, self.group, (self.shape_id, self.shape), wish);
        asker.preferences(self.view.what())
    }

    /// The tasks around the group; nothing where they keep it away from no node.
    pub(crate) fn surroundings(&self) -> Option<Surroundings<'a>> {
        let wish = Wish::Plan { moving: false, within: self.fence };
        let asker = Asker::made_of(self.job, self.group, (self.shape_id, self.shape), wish);
        asker.surroundings(self.view.what())
    }

    /// As [`Subject::room`], whatever tasks stand around the group.
    pub(crate) fn room_alone(&self, node: NodeId) -> u32 {
        let mut asker = self.asker(false);
        asker.alone = true;
        Room::of(&asker, self.view.what(), node, u32::MAX).count
    }

    /// How many tasks fit on `node` in the room that is reserved for those of the group that are on the move.
    pub fn room_reserved(&self, node: NodeId) -> u32 {
        Room::of(&self.asker(true), self.view.what(), node, u32::MAX).count
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
        self.view.what().over.added_nodes(self.job.id, self.group)
    }

    /// How many tasks of the group stand on `node` or are on their way there.
    pub fn live_on(&self, node: NodeId) -> u32 {
        self.view.live_on(self.job.id, self.group, node)
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
}
