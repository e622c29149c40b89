//! Moves: tasks that leave their nodes once room is reserved for them elsewhere.
//!
//! Each task on the move has room for one, somewhere its group may run; the rooms of a group are alike, so they are
//! counted and not told apart. A task loses its room with the node that it is on, and is an ordinary loss from then on.

use crate::apply::Tx;
use crate::apply::steps::holds::{arm_room, sweep_nominations};
use crate::apply::steps::repairs::arm_give_up;
use crate::rooms::nominations::Held;
use crate::state::jobs::TaskState;
use ohm_model::{Incarnation, JobId, NodeId, Placement, TaskRef};
use std::collections::BTreeMap;

/// Tasks of the row that were on the move are placed again: on `node` if there is room held for them.
pub(crate) fn settle_moved(tx: &mut Tx<'_>, placement: &Placement, count: u32) {
    let job = tx.job(placement.job);
    let (group, first) = (placement.group.0, placement.first.0);
    let moved = job.groups[usize::from(group)].moving.overlap(first, count);
    if moved == 0 {
        return;
    }
    let job = tx.job_mut(placement.job);
    job.groups[usize::from(group)].moving.remove(first, count);
    give_rooms(tx, placement.job, group, moved, Some(placement.node));
}

/// Gives back room for `count` tasks of the group: first on `at`, then on the nodes that come last.
fn give_rooms(tx: &mut Tx<'_>, job: JobId, group: u16, count: u32, at: Option<NodeId>) {
    let mut nodes: Vec<NodeId> = tx.rooms_for_moving(job, ohm_model::GroupIndex(group)).map(|(node, _)| node).collect();
    nodes.reverse();
    nodes.sort_by_key(|node| Some(*node) != at);
    let mut left = count;
    for node in nodes {
        if left == 0 {
            return;
        }
        sweep_nominations(tx, node, |held| {
            let taken = if held.moves(job, group) { held.count.min(left) } else { 0 };
            (held.count, left) = (held.count - taken, left - taken);
            held.count > 0
        });
        // Whoever placed something there has touched it.
        if Some(node) != at {
            tx.touch_node(node);
        }
    }
}

/// The node is lost or removed, and all room held there with it. Spares are given back like any others.
pub(crate) fn lose_rooms(tx: &mut Tx<'_>, node: NodeId) {
    let held = tx.nominations.on_node(node).iter().filter(|held| held.is_move());
    let lost = held.map(|held| (held.job, held.group, held.count)).collect();
    sweep_nominations(tx, node, |held| held.is_spare());
    settle_lost_rooms(tx, lost);
}

/// The node has to be left itself: the rooms held there are lost to all groups that would have to leave again.
pub(crate) fn lose_rooms_to_leave(tx: &mut Tx<'_>, node: NodeId) {
    let leaves = |held: &&Held| {
        let shape = tx.jobs.get(held.job).map(|job| job.groups[usize::from(held.group)].shape);
        held.is_move() && shape.is_some_and(|shape| tx.leave_cause(shape, node).is_some())
    };
    let held = tx.nominations.on_node(node).iter().filter(leaves);
    let lost: Vec<(JobId, u16, u32)> = held.map(|held| (held.job, held.group, held.count)).collect();
    if !lost.is_empty() {
        let is_lost = |held: &Held| lost.iter().any(|(job, group, _)| held.moves(*job, *group));
        sweep_nominations(tx, node, |held| !is_lost(held));
        settle_lost_rooms(tx, lost);
    }
}

fn settle_lost_rooms(tx: &mut Tx<'_>, lost: Vec<(JobId, u16, u32)>) {
    for (id, group, count) in lost {
        let job = tx.job_mut(id);
        let moving = &mut job.groups[usize::from(group)].moving;
        for _ in 0..count {
            let Some(last) = moving.iter().last().map(|(first, count)| first + count - 1) else { break };
            moving.remove(last, 1);
        }
        arm_give_up(tx, id, 0);
        tx.touch_job(id);
    }
}

/// Rooms of tasks or groups that are gone, or will never run, are given back.
pub(crate) fn settle_rooms(tx: &mut Tx<'_>, id: JobId) {
    let mut held: BTreeMap<u16, u32> = BTreeMap::new();
    for (_, room) in tx.nominations.of_job(id).filter(|(_, held)| held.is_move()) {
        *held.entry(room.group).or_insert(0) += room.count;
    }
    for (group, count) in held {
        let moving = tx.job(id).groups.get(usize::from(group)).map_or(0, |group| group.moving.len());
        give_rooms(tx, id, group, count.saturating_sub(moving), None);
    }
}

/// The room of a task that is still not placed again is given back, unless others of its job still stop.
pub(crate) fn end_room(tx: &mut Tx<'_>, task: TaskRef, incarnation: Incarnation) {
    // The job may be forgotten by now, and the task placed again or taken away.
    let Some(job) = tx.jobs.get(task.job) else { return };
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
        return arm_room(tx, task, incarnation);
    }
    tx.group_mut(task.job, task.group.0).moving.remove(index, 1);
    give_rooms(tx, task.job, task.group.0, 1, None);
    arm_give_up(tx, task.job, 0);
    tx.touch_job(task.job);
}
