//! What is laid over a cell: rows of a plan, rooms, reservations, lent spares, runs that leave.

use crate::cell::Cell;
use crate::rooms::overlay::{Overlay, ShapesAndQuota, UnderWay, count};
use crate::rooms::reads::{live_slot, rooms_of};
use crate::state::jobs::{Job, TaskState};
use crate::state::requests::charged;
use crate::state::runs::{NO_RUN, Run};
use crate::state::shapes::Shape;
use ohm_model::resources::DEVICE_MILLI;
use ohm_model::{FlavorResource, GroupIndex, JobId, NodeId, Nomination, Placement, RunRef, ShapeId, Transaction};
use ohm_stdx::bug::{self, Bug};

impl<'a> From<&'a Cell> for ShapesAndQuota<'a> {
    fn from(cell: &'a Cell) -> Self {
        ShapesAndQuota { shapes: &cell.shapes, quota: &cell.quota }
    }
}

impl Overlay {
    /// Takes what `count` tasks of `row` take on their node.
    #[inline]
    pub(crate) fn take_row(
        &mut self,
        cell: &Cell,
        job: &Job,
        (id, shape): (ShapeId, &Shape),
        row: &Placement,
        count: u32,
    ) {
        let (group, node) = (row.group, row.node);
        take_room(self, (group, node), (id, shape), count as i32);
        count_tasks(self, cell, (id, job.id, group), node, (count as i32, false));
        if !job.groups[usize::from(group.0)].moving.is_empty() {
            let moved = rooms_of(cell, (job.id, group), node, (row.first.0, count));
            if moved > 0 {
                self.add_moved(job.id, group, node, moved);
            }
        }
        let width = shape.devices.len();
        for (at, &mask) in row.devices.iter().take(count as usize * width).enumerate() {
            let (resource, request) = shape.devices[at % width];
            if mask != 0 {
                self.take_devices(group, node, resource, (mask, request.min(DEVICE_MILLI) as i16));
            }
        }
    }

    /// Takes what a row of a plan for `job` takes on its node; its tasks wait no more. A row of a group that the job
    /// lacks takes nothing.
    pub fn place(&mut self, cell: &Cell, job: &Job, row: &Placement) {
        let Some(shape) = cell.shape_of(job, usize::from(row.group.0)) else { return };
        self.take_row(cell, job, (job.groups[usize::from(row.group.0)].shape, shape), row, row.count);
        self.add_on_node(job.id, row.group, row.node, row.count as i32);
        self.add_placed(job.id, row.group, (row.first.0, row.count, row.node));
    }

    /// Charges the queue of `job` with `count` tasks of a group, unless the job has its quota reserved.
    pub fn charge_tasks(&mut self, cell: &Cell, job: &Job, group: GroupIndex, count: u32) {
        let Some(shape) = cell.shape_of(job, usize::from(group.0)) else { return };
        if job.reserved.is_empty() {
            charge_tasks(self, cell, (job, group), (job.groups[usize::from(group.0)].shape, shape), count as i32);
        }
    }

    /// Takes the room that tasks on the move will have reserved, or that spares will.
    pub fn take_nominated(&mut self, cell: &Cell, job: &Job, room: &Nomination) {
        let Some(shape) = cell.shape_of(job, usize::from(room.group.0)) else { return };
        let id = job.groups[usize::from(room.group.0)].shape;
        take_room(self, (room.group, room.node), (id, shape), room.count as i32);
        self.add_on_node(job.id, room.group, room.node, room.count as i32);
    }

    /// Charges queues with these amounts and nothing else.
    pub fn recharge<'a>(&mut self, cell: &Cell, charges: impl Iterator<Item = (&'a str, FlavorResource, i64)>) {
        self.queues.begin();
        for (queue, column, amount) in charges {
            if let Some(queue) = cell.quota.find(queue) {
                cell.quota.charge_over(queue, column, amount, &mut self.queues);
            }
        }
    }

    /// Makes the spares of `job` room and quota for its own tasks.
    pub fn lend_spares(&mut self, cell: &Cell, job: &Job) {
        if job.groups.iter().all(|group| group.spares == 0) {
            return;
        }
        self.lend_spares_of(job.id);
        let charged = cell.spares_charged(job);
        charge_all(self, cell, job, charged.into_iter().map(|(column, amount)| (column, -amount)));
    }

    /// Ends what [`Overlay::lend_spares`] began. What was planned in between stays.
    pub fn recall_spares(&mut self, cell: &Cell, job: &Job) {
        if self.forget_lent(job.id) {
            let charged = cell.spares_charged(job);
            charge_all(self, cell, job, charged.into_iter());
        }
    }

    /// Gives back the room of a run, and no quota: as if it had ended, for whoever waits for room.
    pub fn end_run(&mut self, cell: &Cell, run: &Run) {
        free_room(self, cell, run);
    }

    /// Gives back what these runs of `job` have, room and quota. Returns the job as if they were lost: their tasks, and
    /// no others, wait to be placed again. A planner that finds places for them has found where they may move to.
    pub fn leave(&mut self, cell: &Cell, job: &Job, runs: &[RunRef]) -> Job {
        let mut left = job.clone();
        // What leaves is no repair: room that is owed to one is not for it.
        left.repairs.open = None;
        for group in &mut left.groups {
            (group.pending, group.lost, group.replaced) = Default::default();
        }
        let own = runs.iter().filter(|run| run.task.job == job.id);
        for run in own.filter_map(|run| cell.runs.get(live_slot(cell, *run)?)) {
            free_run(self, cell, job, run);
            let group = &mut left.groups[usize::from(run.run.task.group.0)];
            let task = &mut group.tasks[run.run.task.task.0 as usize];
            (task.run, task.state) = (NO_RUN, TaskState::Pending);
            group.live -= 1;
            group.running -= u32::from(run.started_ms != 0);
            group.unready -= u32::from(run.is_unready());
            group.pending.insert(run.run.task.task.0, 1);
            group.lost.insert(run.run.task.task.0, 1);
        }
        free_domains(&mut left);
        left
    }
}

/// Takes the room of a run again that [`Overlay::end_run`] gave back.
pub fn resume_run(over: &mut Overlay, cell: &Cell, run: &Run) {
    change_room(over, cell, run, 1);
}

/// The victims of `transaction` are told to stop for what `job` lacks, until [`drop_preemption`].
pub fn lay_preemption(over: &mut Overlay, job: JobId, transaction: &Transaction) {
    let rooms = transaction.nominate.iter().map(|room| (room.group, room.count)).collect();
    over.preempting.push(UnderWay { job, victims: transaction.preempt.clone(), rooms });
}

/// They are not.
pub fn drop_preemption(over: &mut Overlay, job: JobId) {
    over.preempting.retain(|under_way| under_way.job != job);
}

/// Charges the queue of `job` with what it asks for as a whole, as once that is reserved.
pub fn reserve_quota(over: &mut Overlay, cell: &Cell, job: &Job) {
    let missing = cell.missing_request(job).into_iter().filter(|(_, amount)| *amount > 0);
    charge_all(over, cell, job, missing);
}

/// Gives back what `job` is charged, and no room.
pub fn free_quota(over: &mut Overlay, cell: &Cell, job: &Job) {
    charge_all(over, cell, job, charged(cell, job).into_iter().map(|(column, amount)| (column, -amount)));
}

/// Takes amounts and ports of so many tasks on a node; below zero gives back. No two tasks have one port there.
#[inline]
fn take_room(over: &mut Overlay, (group, node): (GroupIndex, NodeId), (id, shape): (ShapeId, &Shape), tasks: i32) {
    over.take(group, node, (id, shape), tasks);
    let by = if tasks < 0 { -1 } else { 1 };
    shape.ports.iter().for_each(|&port| over.take_port(group, node, port, by));
}

/// Counts so many more tasks of a group on a node, for the rules about other tasks.
#[inline]
fn count_tasks(
    over: &mut Overlay,
    cell: &Cell,
    of: (ShapeId, JobId, GroupIndex),
    node: NodeId,
    (by, stops): (i32, bool),
) {
    if !cell.task_counts.is_empty() {
        cell.task_counts.moved_by(of, node, stops).for_each(|counted| count(over, of.2, counted, by));
    }
}

/// Charges the queue of `job` with so many tasks of a shape.
fn charge_tasks(
    over: &mut Overlay,
    cell: &Cell,
    (job, group): (&Job, GroupIndex),
    (id, shape): (ShapeId, &Shape),
    tasks: i32,
) {
    if let Some(queue) = cell.quota.find(&job.spec.queue) {
        over.charge_shape(&cell.quota, group, queue, (id, shape, tasks));
    }
}

/// Charges the queue of `job` with these amounts.
fn charge_all(over: &mut Overlay, cell: &Cell, job: &Job, amounts: impl Iterator<Item = (FlavorResource, i64)>) {
    if let Some(queue) = cell.quota.find(&job.spec.queue) {
        over.charge(&cell.quota, GroupIndex(0), queue, amounts);
    }
}

fn free_run(over: &mut Overlay, cell: &Cell, job: &Job, run: &Run) {
    free_room(over, cell, run);
    if let Some(shape) = cell.shapes.get(run.shape).filter(|_| job.reserved.is_empty()) {
        charge_tasks(over, cell, (job, run.run.task.group), (run.shape, shape), -1);
    }
}

fn free_room(over: &mut Overlay, cell: &Cell, run: &Run) {
    change_room(over, cell, run, -1);
}

/// Takes the room of a run; with -1 gives it back.
fn change_room(over: &mut Overlay, cell: &Cell, run: &Run, by: i32) {
    let Some(shape) = cell.shapes.get(run.shape) else { return };
    let (group, node) = (run.run.task.group, run.node);
    take_room(over, (group, node), (run.shape, shape), by);
    count_tasks(over, cell, (run.shape, run.run.task.job, group), node, (by, run.stop.is_some()));
    for (&(resource, request), &mask) in shape.devices.iter().zip(run.devices.as_deref().unwrap_or(&[])) {
        if mask != 0 {
            over.take_devices(group, node, resource, (mask, request.min(DEVICE_MILLI) as i16 * by as i16));
        }
    }
    over.add_on_node(run.run.task.job, group, node, by);
}

/// A group of which nothing stays, nor of those placed with it, may go to another domain.
fn free_domains(job: &mut Job) {
    let stays = |job: &Job, at: usize| {
        let mut partners = job.partners(at).map(|other| &job.groups[other]);
        partners.any(|group| group.live > group.stopping || !group.moving.is_empty())
    };
    let free: Vec<bool> = (0..job.groups.len()).map(|at| !stays(job, at)).collect();
    for (group, free) in job.groups.iter_mut().zip(free) {
        if free || bug::is_planted(Bug::MoveAstray) {
            (group.domain, group.widened) = (None, false);
        }
    }
}
