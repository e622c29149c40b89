//! What planners, scans and other crates ask that several parts of the state answer together.

use crate::cell::Cell;
use crate::rooms::overlay::Overlay;
use crate::rooms::room::{Asker, Room, Wish};
use crate::rooms::what_if::WhatIf;
use crate::state::flavors::Charges;
use crate::state::jobs::Job;
use crate::state::namespaces::Namespaces;
use crate::state::nodes::{DRAINING, NodeRecord};
use crate::state::repairs::UnhealthyCause;
use crate::state::requests::{live_shapes, summed};
use crate::state::runs::{NO_RUN, Run};
use crate::state::tolerance::driving_condition;
use ohm_model::{Class, ClassKind, GroupIndex, Index, JobId, NodeId, Nomination, Role, RunRef, SessionId, ShapeId};
use ohm_stdx::RangeSet;
use ohm_stdx::bug::{self, Bug};
use std::sync::Arc;

/// Whether [`Cell::leave_cause`] may find anything on `node`: what is asked before the runs there are looked at.
pub(crate) fn may_be_left(cell: &Cell, node: NodeId) -> bool {
    let drives = |record: &Arc<NodeRecord>| record.driving_conditions().next().is_some();
    cell.nodes.flags(node) & DRAINING != 0 || cell.nodes.get(node).is_some_and(drives)
}

/// Why `job` has to leave `node`: the cause of the first group that has a run there which is not to stop.
pub(crate) fn leave_cause_of(cell: &Cell, job: &Job, node: NodeId) -> Option<UnhealthyCause> {
    if !may_be_left(cell, node) {
        return None;
    }
    let on_node = cell.runs.on_node(&cell.nodes, node).map(|(_, run)| run);
    let staying = on_node.filter(|run| run.run.task.job == job.id && run.stop.is_none());
    let mut shapes: Vec<(GroupIndex, ShapeId)> = staying.map(|run| (run.run.task.group, run.shape)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes.into_iter().find_map(|(_, shape)| cell.leave_cause(shape, node))
}

/// How many of `most` spares of the group find room on `node`, in the cell with `over`.
pub(crate) fn room_for_spares(
    cell: &Cell,
    (job, group): (&Job, GroupIndex),
    node: NodeId,
    most: u32,
    over: &Overlay,
) -> u32 {
    let asker = Asker::of(cell, job, group, Wish::Spare { beside_own: true });
    asker.map_or(0, |asker| Room::beside(&asker, WhatIf { cell, over }, node, most).count)
}

/// What people call `session`; for counting conflicts by their cause.
pub(crate) fn session_name(cell: &Cell, session: SessionId) -> String {
    cell.sessions.get(session).map_or_else(|| session.to_string(), |session| session.name.clone())
}

/// The slot of `run`, while it is live.
pub(crate) fn live_slot(cell: &Cell, run: RunRef) -> Option<u32> {
    let job = cell.jobs.get(run.task.job)?;
    let task = job.groups.get(usize::from(run.task.group.0))?.tasks.get(run.task.task.0 as usize)?;
    let meant = task.incarnation == run.incarnation || bug::is_planted(Bug::IgnoreIncarnation);
    (meant && cell.runs.get(task.run).is_some()).then_some(task.run)
}

/// The live run, if its task still is at this attempt.
pub fn live_run(cell: &Cell, run: RunRef) -> Option<&Run> {
    cell.runs.get(live_slot(cell, run)?)
}

/// The live runs of `job`.
pub fn live_runs<'a>(cell: &'a Cell, job: &'a Job) -> impl Iterator<Item = &'a Run> {
    let tasks = job.groups.iter().filter(|group| group.live > 0).flat_map(|group| group.tasks.iter());
    tasks.filter_map(|task| cell.runs.get(task.run))
}

/// How many of these tasks of the group, which are on the move, have their room on `node`.
pub(crate) fn rooms_of(
    cell: &Cell,
    (job, group): (JobId, GroupIndex),
    node: NodeId,
    (first, count): (u32, u32),
) -> u32 {
    let on_node = cell.nominations.on_node(node).iter();
    on_node.filter(|held| held.moves(job, group.0)).map(|held| held.tasks.overlap(first, count)).sum()
}

impl Cell {
    /// How many tasks of group `group` of `job` stand on `node`: live runs, and those that came back and live on.
    pub fn live_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let same = |run: &Run| run.run.task.job == job && run.run.task.group == group;
        let back = self.kept.back_on(node).filter(|run| (run.task.job, run.task.group) == (job, group));
        (self.runs.on_node(&self.nodes, node).filter(|(_, run)| same(run)).count() + back.count()) as u32
    }

    /// How many runs are on `node`: live ones, and those that live on there while it is lost or came back with it.
    pub fn runs_on(&self, node: NodeId) -> u32 {
        self.nodes.run_count(node) + self.kept.on_node(node).count() as u32
    }

    /// Why tasks of `shape` have to leave `node`, if they have to. Whatever drives tasks away from a
    /// node that still answers is found here, and `settle_leaving` is called when it may have changed.
    pub fn leave_cause(&self, shape: ShapeId, node: NodeId) -> Option<UnhealthyCause> {
        if self.nodes.flags(node) & DRAINING != 0 {
            return Some(UnhealthyCause::Draining);
        }
        let record = self.nodes.get(node)?;
        let first = record.driving_conditions().next()?;
        if bug::is_planted(Bug::MoveTolerated) {
            return Some(UnhealthyCause::Condition(first.kind));
        }
        driving_condition(record, self.shapes.get(shape)?).map(UnhealthyCause::Condition)
    }

    /// The runs of `job` that have to leave their nodes and are not told to yet, by group and task.
    pub fn runs_to_leave<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Run> + 'a {
        let leaves_any = job.repairs.unhealthy.iter().any(|entry| entry.cause != UnhealthyCause::Lost);
        let groups = job.groups.iter().filter(move |group| leaves_any && group.live > 0);
        // Room elsewhere is that of what is placed now: a run of another revision is replaced by its rollout instead.
        let runs = groups.flat_map(move |group| {
            let live = group.tasks.iter().filter(|task| task.run != NO_RUN);
            live.filter_map(|task| self.runs.get(task.run)).filter(|run| run.revision == group.revision)
        });
        runs.filter(|run| run.stop.is_none() && self.leave_cause(run.shape, run.node).is_some())
    }

    /// How many tasks of a group of `job` may be on the move at the same time for one of them to leave `node`. Nothing
    /// limits a gang, which idles as long as one of its tasks is missing, nor an array, whose tasks don't need each
    /// other.
    pub fn move_limit(&self, job: &Job, node: NodeId) -> u32 {
        match job.kind {
            ClassKind::Service => self.nodes.get(node).and_then(|record| record.drain).map_or(1, |drain| drain.at_once),
            ClassKind::Batch | ClassKind::Tas => u32::MAX,
        }
    }

    /// For how many tasks of the group that are on the move there is room held on `node`.
    pub fn room_for_moving(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let on_node = self.nominations.on_node(node).iter();
        on_node.filter(|held| held.moves(job, group.0)).map(|held| held.count).sum()
    }

    /// Where room is held for tasks of the group that are on the move, and for which.
    pub fn rooms_for_moving(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (NodeId, &RangeSet)> {
        let rooms = self.nominations.of_job(job).filter(move |(_, held)| held.moves(job, group.0));
        rooms.map(|(node, held)| (node, &held.tasks))
    }

    /// Where spares of the group are held, and for how many tasks.
    pub fn spares_of(&self, job: JobId, group: GroupIndex) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        let spares = self.nominations.of_job(job).filter(move |(_, held)| held.spares(job, group.0));
        spares.map(|(node, held)| (node, held.count))
    }

    /// For how many tasks of the group there is room held as spares on `node`.
    pub fn spares_on(&self, job: JobId, group: GroupIndex, node: NodeId) -> u32 {
        let on_node = self.nominations.on_node(node).iter();
        on_node.filter(|held| held.spares(job, group.0)).map(|held| held.count).sum()
    }

    /// The sessions that schedule jobs of `class`, for sharing out its shards; of replicas that started anew, the last.
    pub fn replicas(&self, class: Class) -> impl Iterator<Item = (SessionId, Index)> {
        let of_class = move |role: Role| role == Role::Scheduler(class);
        self.sessions
            .iter()
            .filter(move |(id, session)| of_class(session.role) && !self.sessions.is_superseded(*id))
            .map(|(id, session)| (id, session.renewed))
    }

    /// Whether there is room for this spare of `job` beside what runs on its node and what is held there.
    pub fn takes_spare(&self, job: &Job, row: &Nomination) -> bool {
        room_for_spares(self, (job, row.group), row.node, row.count, &Overlay::default()) == row.count
    }

    /// What the spares of `job` are charged to its queue.
    pub fn spares_charged(&self, job: &Job) -> Charges {
        summed(self, job.groups.iter().map(|group| (group.shape, i64::from(group.spares))))
    }

    /// What `job` as a whole asks for beyond what its queue is charged for it: nothing once it is reserved. Below zero
    /// where live runs hold more: tasks beyond the count that still stop, and runs of former revisions.
    pub fn missing_request(&self, job: &Job) -> Charges {
        if !job.reserved.is_empty() {
            return Charges::new();
        }
        let asked = job.groups.iter().zip(&job.spec.groups).map(|(group, spec)| (group.shape, i64::from(spec.count)));
        let live = job.groups.iter().flat_map(|group| live_shapes(self, group)).map(|(shape, count)| (shape, -count));
        summed(self, asked.chain(live))
    }
}

/// The namespaces of a cell.
pub fn namespaces(cell: &Cell) -> &Namespaces {
    &cell.namespaces
}
