//! How many tasks of a group find room on a node: one answer for the judge, planners, returning runs, moves and spares.

use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::rooms::what_if::WhatIf;
use crate::state::jobs::Job;
use crate::state::repairs::OpenRepair;
use crate::state::shapes::Shape;
use crate::state::task_counts::counts::Neighbourhood;
use crate::state::topologies::Fence;
use ohm_model::{ClassId, ConflictReason, GroupIndex, NodeId, ShapeId};
use ohm_stdx::bug::{self, Bug};
use std::cmp::Reverse;

/// A plan that is to end in time is committed within this, or it is made anew.
const COMMITS_WITHIN_MS: u64 = 250;

/// What room is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
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
    /// To be planned, on any devices and whatever the class of the node is: what a planner asks before it names them.
    /// Spares of the own job bind unless they are lent.
    Plan {
        /// Whether the tasks are on the move, so that the room that is kept for those of their group is theirs.
        moving: bool,
        /// The domain that the planner keeps to.
        within: Option<Fence<'a>>,
    },
    /// To hold room for tasks on the move.
    Move,
    /// To hold spares; `beside_own` keeps them apart from the spares that the job has.
    Spare {
        /// Whether the spares of the own job bind, too.
        beside_own: bool,
    },
    /// To keep room for tasks that were lost: beside what is held for others and does not yield to it, and what is held
    /// for others of its job. Spares of the group are for such tasks.
    Repair,
}

/// A group that asks for room.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The job.
    pub job: &'a Job,
    /// The group.
    pub group: GroupIndex,
    /// The number of its shape.
    pub shape_id: ShapeId,
    /// Its shape.
    pub shape: &'a Shape,
    /// How many tasks its queue may still be charged for; nothing where nothing is charged.
    pub(crate) quota: Option<u32>,
    /// What for.
    pub wish: Wish<'a>,
    /// Whether the tasks around the group are no concern, because whoever asks counts them: [`Surroundings`].
    ///
    /// [`Surroundings`]: crate::Surroundings
    pub alone: bool,
}

impl<'a> Asker<'a> {
    /// Group `group` of `job` with a wish that charges no queue; nothing when the job has no such group.
    pub fn of(cell: &'a Cell, job: &'a Job, group: GroupIndex, wish: Wish<'a>) -> Option<Self> {
        let shape = job.groups.get(usize::from(group.0))?.shape;
        Asker::with_shape(cell, job, (group, shape), wish)
    }

    /// The same of a group whose shape is at hand.
    pub fn made_of(job: &'a Job, group: GroupIndex, (shape_id, shape): (ShapeId, &'a Shape), wish: Wish<'a>) -> Self {
        Asker { job, group, shape_id, shape, quota: None, wish, alone: false }
    }

    /// The same with another shape than the group has by now.
    pub(crate) fn with_shape(
        cell: &'a Cell,
        job: &'a Job,
        (group, shape_id): (GroupIndex, ShapeId),
        wish: Wish<'a>,
    ) -> Option<Self> {
        let shape = cell.shapes.get(shape_id)?;
        Some(Asker { job, group, shape_id, shape, quota: None, wish, alone: false })
    }

    /// The tasks around the group, as far as they can keep it away from nodes.
    pub(crate) fn neighbourhood<'b>(&self, what: WhatIf<'b>) -> Option<Neighbourhood<'b>> {
        // Room for tasks on the move, spares and repairs is asked for beside those that it is for; where they begin,
        // the rules are asked.
        let begins = matches!(self.wish, Wish::Run { .. } | Wish::Plan { .. });
        what.cell.task_counts.of(self.shape_id, self.job.id, self.group).filter(|_| begins && !self.alone)
    }

    pub(crate) fn is_of(&self, held: &Held) -> bool {
        (held.job, held.group) == (self.job.id, self.group.0)
    }

    /// The room on `node` that is kept from this wish. What is kept of the own group from tasks to be planned is a
    /// count of tasks: [`Asker::kept`].
    pub(crate) fn bound<'b>(
        &'b self,
        what: WhatIf<'b>,
        node: NodeId,
    ) -> impl Iterator<Item = &'b Held> + Clone + use<'a, 'b> {
        what.held(node).filter(move |held| self.is_bound_by(what, held))
    }

    fn is_bound_by(&self, what: WhatIf<'_>, held: &Held) -> bool {
        let (job, priority) = (self.job.id, self.job.spec.priority);
        match self.wish {
            Wish::Return { .. } => false,
            _ if held.is_head() && (self.goes_before_heads() || self.ends_before(what, held)) => false,
            Wish::Repair if held.job == job => !held.spares(job, self.group.0),
            Wish::Repair => held.binds(job, priority),
            Wish::Run { .. } | Wish::Plan { .. } if held.is_earmark() => held.job != job && !self.goes_before(held),
            Wish::Run { .. } => held.binds_tasks((job, self.group), priority),
            Wish::Plan { .. } if held.is_spare() && held.job == job => {
                !self.is_of(held) && !what.over.lent.contains(&job)
            }
            Wish::Plan { .. } => held.binds_tasks((job, self.group), priority),
            Wish::Move if self.is_of(held) => held.is_move(),
            Wish::Move => held.binds(job, priority),
            Wish::Spare { beside_own } => {
                held.binds(job, priority) || (beside_own && held.is_spare() && held.job == job)
            }
        }
    }

    /// Whether the tasks are to be repaired before those that `held` is for: it is no room that is owed, then. A group
    /// of which other tasks wait, too, is new work: nobody says which of them will be placed.
    fn goes_before(&self, held: &Held) -> bool {
        if bug::is_planted(Bug::TakeOwedRoom) {
            return true;
        }
        let turn = |open: &OpenRepair| (Reverse(self.job.spec.priority), open.since, self.job.id);
        self.job.is_only_repaired(self.group)
            && self.job.repairs.open.as_ref().is_some_and(|open| turn(open) < held.turn())
    }

    /// Whether the tasks are to be repaired or moved: heads of lines come after these.
    fn goes_before_heads(&self) -> bool {
        if bug::is_planted(Bug::TakeHeadRoom) {
            return true;
        }
        let moves = |first: u32| {
            let group = self.job.groups.get(usize::from(self.group.0));
            group.is_some_and(|group| group.moving.contains(first, 1))
        };
        match self.wish {
            Wish::Repair | Wish::Move | Wish::Plan { moving: true, .. } => true,
            Wish::Run { first, .. } => moves(first) || self.job.is_only_repaired(self.group),
            Wish::Plan { .. } => self.job.is_only_repaired(self.group),
            Wish::Return { .. } | Wish::Spare { .. } => false,
        }
    }

    /// Whether waiting tasks are gone for sure before `held` is needed. A plan takes time until it is committed, and
    /// what begins only once others have ended may end at any time.
    fn ends_before(&self, what: WhatIf<'_>, held: &Held) -> bool {
        let commits_within_ms = match self.wish {
            Wish::Run { .. } => 0,
            Wish::Plan { moving: false, .. } if !what.over.later => COMMITS_WITHIN_MS,
            _ => return false,
        };
        let Some(ends_ms) = self.job.ends_by_ms(what.cell.now_ms) else { return false };
        held.starts_after(ends_ms.saturating_add(commits_within_ms)) || bug::is_planted(Bug::OutstayHead)
    }

    /// For how many other tasks of the own group room on `node` is kept: for those on the move, and as spares.
    pub(crate) fn kept(&self, what: WhatIf<'_>, node: NodeId) -> u32 {
        match self.wish {
            Wish::Run { .. } => what.kept_for_moving(self.job, self.group, node),
            Wish::Plan { moving: false, .. } => {
                let moving = what.kept_for_moving(self.job, self.group, node);
                moving.saturating_add(what.kept_spares(self.job, self.group, node))
            }
            Wish::Plan { moving: true, .. } | Wish::Return { .. } => 0,
            Wish::Move | Wish::Spare { .. } | Wish::Repair => 0,
        }
    }
}

/// How many tasks find room, and what stops the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many.
    pub count: u32,
    /// Why not more, as a verdict says it.
    pub reason: Option<ConflictReason>,
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
