//! How many tasks of a group find room on a node: one answer for the judge, returning runs, moves and spares.

use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::rooms::overlay::Overlay;
use crate::state::jobs::Job;
use crate::state::quota::QueueId;
use crate::state::shapes::Shape;
use ohm_model::{ClassId, ConflictReason, GroupIndex, NodeId, ShapeId};

/// What room is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish<'a> {
    /// To run waiting tasks of the group from `first` on. A planner names the class it planned for and the devices of
    /// each task.
    Run {
        /// The first task.
        first: u32,
        /// The class that the node must still have.
        class: ClassId,
        /// One mask per task and device resource.
        devices: &'a [u64],
    },
    /// To let a run that came back with its node go on, on its own devices: cordons and taints that only keep new work
    /// away don't count, nor does room that is held, because the run has its room already.
    Return {
        /// One mask per device resource.
        devices: &'a [u64],
    },
    /// To hold room for tasks on the move.
    Move,
    /// To hold spares; `beside_own` keeps them apart from the spares that the job has.
    Spare {
        /// Whether the spares of the own job bind, too.
        beside_own: bool,
    },
}

/// A group that asks for room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) job: &'a Job,
    pub(crate) group: GroupIndex,
    pub(crate) shape_id: ShapeId,
    pub(crate) shape: &'a Shape,
    /// What is charged for each task; nothing where nothing is.
    pub(crate) queue: Option<QueueId>,
    pub(crate) wish: Wish<'a>,
}

impl<'a> Asker<'a> {
    /// Group `group` of `job`, which has it, with a wish that charges no queue.
    pub(crate) fn of(cell: &'a Cell, job: &'a Job, group: GroupIndex, wish: Wish<'a>) -> Option<Self> {
        let shape = job.groups.get(usize::from(group.0))?.shape;
        Asker::with_shape(cell, job, (group, shape), wish)
    }

    /// The same with another shape than the group has by now.
    pub(crate) fn with_shape(
        cell: &'a Cell,
        job: &'a Job,
        (group, shape_id): (GroupIndex, ShapeId),
        wish: Wish<'a>,
    ) -> Option<Self> {
        let shape = cell.shapes.get(shape_id)?;
        Some(Asker { job, group, shape_id, shape, queue: None, wish })
    }

    pub(crate) fn is_of(&self, held: &Held) -> bool {
        (held.job, held.group) == (self.job.id, self.group.0)
    }

    /// Whether held room is kept from this wish.
    pub(crate) fn is_bound_by(&self, held: &Held) -> bool {
        let (job, priority) = (self.job.id, self.job.spec.priority);
        match self.wish {
            Wish::Return { .. } => false,
            Wish::Run { .. } => held.binds_tasks((job, self.group), priority),
            Wish::Move if self.is_of(held) => held.is_move(),
            Wish::Move => held.binds(job, priority),
            Wish::Spare { beside_own } => {
                held.binds(job, priority) || (beside_own && held.is_spare() && held.job == job)
            }
        }
    }
}

/// The cell as it would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct What<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) over: &'a Overlay,
}

impl<'a> What<'a> {
    /// The room on `node` that is kept from `asker`.
    pub(crate) fn bound<'b>(
        &self,
        asker: &'b Asker<'b>,
        node: NodeId,
    ) -> impl Iterator<Item = &'a Held> + Clone + use<'a, 'b> {
        self.over.held(self.cell, node).filter(|held| asker.is_bound_by(held))
    }

    /// The shape of the group that room is held for.
    pub(crate) fn shape_of(&self, held: &Held) -> Option<&'a Shape> {
        let job = self.cell.jobs.get(held.job)?;
        self.cell.shape_of(job, usize::from(held.group)).map(|shape| &**shape)
    }
}

/// How many tasks find room, and what stops the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) count: u32,
    pub(crate) reason: Option<ConflictReason>,
}

impl Room {
    /// Room for `count` tasks, as far as one rule knows, and its reason for no more.
    pub(crate) fn up_to(count: i64, reason: ConflictReason) -> Room {
        Room { count: count.clamp(0, i64::from(u32::MAX)) as u32, reason: Some(reason) }
    }

    /// No room.
    pub(crate) fn none(reason: ConflictReason) -> Room {
        Room { count: 0, reason: Some(reason) }
    }

    /// Room for everything, as far as one rule knows.
    pub(crate) const ALL: Room = Room { count: u32::MAX, reason: None };

    /// Whether there is room for all of `count`.
    pub(crate) fn for_all(self, count: u32) -> Result<(), ConflictReason> {
        match self.reason {
            Some(reason) if self.count < count => Err(reason),
            _ => Ok(()),
        }
    }
}
