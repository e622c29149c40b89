//! Moves: tasks that leave their nodes once room is reserved for them elsewhere.
//!
//! Each task on the move has room for one, somewhere its group may stand; the rooms of a group are alike, so they are
//! counted and not told apart. A task loses its room with the node that it is on, and is an ordinary loss from then on.

use super::{Applied, Timer};
use crate::cell::Cell;
use crate::rooms::nominations::Held;
use crate::state::jobs::TaskState;
use ohm_model::{EventKind, Incarnation, JobId, NodeId, Placement, TaskRef, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// A task that has ended is placed where its room is within a moment. What is not used for so long is given back,
/// unless others of its job still stop: a gang that moves as a whole starts again when the last of it has ended.
pub(super) const ROOM_MS: u64 = 60_000;

/// What the moves of one job come to.
#[derive(Default)]
struct Told {
    tasks: u32,
    from: BTreeSet<NodeId>,
    to: BTreeSet<NodeId>,
}

impl Cell {
    /// Does what a transaction that moves tasks was granted: all of it.
    pub(super) fn perform_move(&mut self, transaction: &Transaction, applied: &mut Applied) {
        let mut rooms: BTreeMap<(JobId, u16), u32> = BTreeMap::new();
        for row in &transaction.nominate {
            *rooms.entry((row.job, row.group.0)).or_insert(0) += row.count;
        }
        let mut told: BTreeMap<JobId, Told> = BTreeMap::new();
        let mut leaving: BTreeMap<(JobId, u16), u32> = BTreeMap::new();
        for (run, cause) in &transaction.evict {
            let Some(slot) = self.live_slot(*run) else { continue };
            let Some(found) = self.runs.get(slot).filter(|found| found.stop.is_none()) else { continue };
            let (key, node) = ((run.task.job, run.task.group.0), found.node);
            let taken = leaving.entry(key).or_insert(0);
            if *taken < rooms.get(&key).copied().unwrap_or(0)
                && let Some(job) = self.jobs.get_mut(key.0)
            {
                *taken += 1;
                job.groups[usize::from(key.1)].moving.insert(run.task.task.0, 1);
            }
            self.stop_run(slot, *cause, applied);
            let told = told.entry(run.task.job).or_default();
            told.tasks += 1;
            told.from.insert(node);
        }
        for row in &transaction.nominate {
            // What ended meanwhile needs no room.
            let left = leaving.get_mut(&(row.job, row.group.0));
            let Some((left, count)) = left.map(|left| (row.count.min(*left), left)) else { continue };
            *count -= left;
            if left > 0 {
                self.move_onto_spares(row, left, applied);
                let held = Held::for_moving(row.job, row.group, left, self.applied);
                self.hold(row.node, held, applied);
                told.entry(row.job).or_default().to.insert(row.node);
            }
        }
        for (job, told) in told {
            let name = self.jobs.get(job).map_or_else(String::new, |job| job.spec.name.clone());
            let names = |nodes: BTreeSet<NodeId>| nodes.iter().map(|node| self.nodes.name(*node).to_string()).collect();
            let (from, to) = (names(told.from), names(told.to));
            self.tell(applied, EventKind::MoveReserved { job, name, tasks: told.tasks, from, to });
            applied.jobs.push(job);
        }
    }

    /// Tasks of the row that were on the move stand again: on `node` if there is room held for them.
    pub(super) fn settle_moved(&mut self, placement: &Placement, count: u32, applied: &mut Applied) {
        let Some(job) = self.jobs.get(placement.job) else { return };
        let (group, first) = (placement.group.0, placement.first.0);
        let moved = job.groups[usize::from(group)].moving.overlap(first, count);
        if moved == 0 {
            return;
        }
        if let Some(job) = self.jobs.get_mut(placement.job) {
            job.groups[usize::from(group)].moving.remove(first, count);
        }
        self.give_rooms(placement.job, group, moved, Some(placement.node), applied);
    }

    /// Gives back room for `count` tasks of the group: first on `at`, then on the nodes that come last.
    fn give_rooms(&mut self, job: JobId, group: u16, count: u32, at: Option<NodeId>, applied: &mut Applied) {
        let mut nodes: Vec<NodeId> =
            self.rooms_for_moving(job, ohm_model::GroupIndex(group)).map(|(node, _)| node).collect();
        nodes.reverse();
        nodes.sort_by_key(|node| Some(*node) != at);
        let mut left = count;
        for node in nodes {
            if left == 0 {
                return;
            }
            self.sweep_nominations(node, |held| {
                let taken = if held.moves(job, group) { held.count.min(left) } else { 0 };
                (held.count, left) = (held.count - taken, left - taken);
                held.count > 0
            });
            // Whoever placed something there has touched it.
            if Some(node) != at {
                self.touch_node(node, applied);
            }
        }
    }

    /// The node is lost or removed, and all room held there with it. Spares are given back like any others.
    pub(super) fn lose_rooms(&mut self, node: NodeId, applied: &mut Applied) {
        let held = self.nominations.on_node(node).iter().filter(|held| held.is_move());
        let lost = held.map(|held| (held.job, held.group, held.count)).collect();
        self.sweep_nominations(node, |held| held.is_spare());
        self.settle_lost_rooms(lost, applied);
    }

    /// The node has to be left itself: the rooms held there are lost to all groups that would have to leave again.
    pub(super) fn lose_rooms_to_leave(&mut self, node: NodeId, applied: &mut Applied) {
        let leaves = |held: &&Held| {
            let shape = self.jobs.get(held.job).map(|job| job.groups[usize::from(held.group)].shape);
            held.is_move() && shape.is_some_and(|shape| self.leave_cause(shape, node).is_some())
        };
        let held = self.nominations.on_node(node).iter().filter(leaves);
        let lost: Vec<(JobId, u16, u32)> = held.map(|held| (held.job, held.group, held.count)).collect();
        if !lost.is_empty() {
            let is_lost = |held: &Held| lost.iter().any(|(job, group, _)| held.moves(*job, *group));
            self.sweep_nominations(node, |held| !is_lost(held));
            self.settle_lost_rooms(lost, applied);
        }
    }

    fn settle_lost_rooms(&mut self, lost: Vec<(JobId, u16, u32)>, applied: &mut Applied) {
        for (id, group, count) in lost {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let moving = &mut job.groups[usize::from(group)].moving;
            for _ in 0..count {
                let Some(last) = moving.iter().last().map(|(first, count)| first + count - 1) else { break };
                moving.remove(last, 1);
            }
            self.arm_give_up(id);
            applied.jobs.push(id);
        }
    }

    /// Nothing of `job` is on the move any more, and its rooms are free.
    pub(super) fn drop_moves(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.groups.iter().any(|group| !group.moving.is_empty())
            && let Some(job) = self.jobs.get_mut(id)
        {
            job.groups.iter_mut().for_each(|group| group.moving = Default::default());
        }
    }

    /// Rooms of tasks or groups that are gone, or will never run, are given back.
    pub(super) fn settle_rooms(&mut self, id: JobId, applied: &mut Applied) {
        let mut held: BTreeMap<u16, u32> = BTreeMap::new();
        for (_, room) in self.nominations.of_job(id).filter(|(_, held)| held.is_move()) {
            *held.entry(room.group).or_insert(0) += room.count;
        }
        for (group, count) in held {
            let job = self.jobs.get(id);
            let group_now = job.and_then(|job| job.groups.get(usize::from(group)));
            let moving = group_now.map_or(0, |group| group.moving.len());
            self.give_rooms(id, group, count.saturating_sub(moving), None, applied);
        }
    }

    /// A task on the move has ended: from now on its room is kept for a while.
    pub(super) fn arm_room(&mut self, task: TaskRef, incarnation: Incarnation) {
        self.arm(self.now_ms.saturating_add(ROOM_MS), Timer::Room(task, incarnation));
    }

    /// The room of a task that is still not placed again is given back, unless others of its job still stop.
    pub(super) fn end_room(&mut self, task: TaskRef, incarnation: Incarnation, applied: &mut Applied) {
        let Some(job) = self.jobs.get(task.job) else { return };
        let (at, index) = (usize::from(task.group.0), task.task.0);
        let Some(group) = job.groups.get(at).filter(|group| group.moving.contains(index, 1)) else { return };
        let found = &group.tasks[index as usize];
        if found.state == TaskState::Live || found.incarnation != incarnation {
            return;
        }
        let stops = |group: &crate::state::jobs::Group| {
            let moving = group.moving.iter().flat_map(|(first, count)| first..first + count);
            moving.into_iter().any(|task| group.tasks[task as usize].state == TaskState::Live)
        };
        if job.groups.iter().any(stops) {
            return self.arm_room(task, incarnation);
        }
        if let Some(job) = self.jobs.get_mut(task.job) {
            job.groups[at].moving.remove(index, 1);
        }
        self.give_rooms(task.job, task.group.0, 1, None, applied);
        self.arm_give_up(task.job);
        applied.jobs.push(task.job);
    }
}
