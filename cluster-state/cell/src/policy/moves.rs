//! Moves: tasks that leave their nodes once room is reserved for them elsewhere.
//!
//! Each task on the move has room of its own, somewhere its group may run: slices are made of certain tasks, so rooms
//! are told apart. A task loses its room with the node that it is on, and is an ordinary loss from then on.

use crate::apply::Tx;
use crate::apply::steps::holds::{arm_room, sweep_nominations};
use crate::apply::steps::repairs::arm_give_up;
use crate::policy::heads::end_heads_on;
use crate::rooms::nominations::Held;
use crate::state::jobs::TaskState;
use ohm_model::{GroupIndex, Incarnation, JobId, NodeId, Placement, TaskRef};
use ohm_stdx::RangeSet;
use std::collections::BTreeMap;

/// Tasks of the row that were on the move are placed again: their rooms are used, or given back.
pub(crate) fn settle_moved(tx: &mut Tx<'_>, placement: &Placement, count: u32) {
    let (group, first) = (placement.group.0, placement.first.0);
    let moving = &tx.job(placement.job).groups[usize::from(group)].moving;
    if moving.overlap(first, count) == 0 {
        return;
    }
    let moved = within(moving, first, count);
    tx.group_mut(placement.job, group).moving.remove(first, count);
    give_rooms(tx, placement.job, group, &moved, Some(placement.node));
}

/// Those of `tasks` from `first` on to `count` further.
pub(crate) fn within(tasks: &RangeSet, first: u32, count: u32) -> RangeSet {
    let mut found = tasks.clone();
    found.remove(0, first);
    let end = first.saturating_add(count);
    found.remove(end, u32::MAX - end);
    found
}

/// Gives back the rooms of these tasks of the group. Whoever placed something on `at` has touched it.
fn give_rooms(tx: &mut Tx<'_>, job: JobId, group: u16, tasks: &RangeSet, at: Option<NodeId>) {
    let concerned = |held: &RangeSet| tasks.iter().any(|(first, count)| held.overlap(first, count) > 0);
    let rooms = tx.rooms_for_moving(job, GroupIndex(group));
    let nodes: Vec<NodeId> = rooms.filter(|(_, held)| concerned(held)).map(|(node, _)| node).collect();
    for node in nodes {
        sweep_nominations(tx, node, |held| {
            if held.moves(job, group) {
                held.give_back(tasks);
            }
            held.count > 0
        });
        if Some(node) != at {
            tx.touch_node(node);
        }
    }
}

/// The node is lost or removed, and all room held there with it. Spares and what is earmarked for repairs are given
/// back like any others.
pub(crate) fn lose_rooms(tx: &mut Tx<'_>, node: NodeId) {
    end_heads_on(tx, node, "a node of it is lost", |_, _| true);
    let held = tx.nominations.on_node(node).iter().filter(|held| held.is_move());
    let lost = held.map(|held| (held.job, held.group, held.tasks.clone())).collect();
    sweep_nominations(tx, node, |held| held.is_spare() || held.is_earmark());
    settle_lost_rooms(tx, lost);
}

/// The node has to be left itself: the rooms held there are lost to all groups that would have to leave again.
pub(crate) fn lose_rooms_to_leave(tx: &mut Tx<'_>, node: NodeId) {
    let leaves = |held: &&Held| {
        let shape = tx.jobs.get(held.job).map(|job| job.groups[usize::from(held.group)].shape);
        held.is_move() && shape.is_some_and(|shape| tx.leave_cause(shape, node).is_some())
    };
    let held = tx.nominations.on_node(node).iter().filter(leaves);
    let lost: Vec<(JobId, u16, RangeSet)> = held.map(|held| (held.job, held.group, held.tasks.clone())).collect();
    if !lost.is_empty() {
        let is_lost = |held: &Held| lost.iter().any(|(job, group, _)| held.moves(*job, *group));
        sweep_nominations(tx, node, |held| !is_lost(held));
        settle_lost_rooms(tx, lost);
    }
}

fn settle_lost_rooms(tx: &mut Tx<'_>, lost: Vec<(JobId, u16, RangeSet)>) {
    for (id, group, tasks) in lost {
        let moving = &mut tx.group_mut(id, group).moving;
        moving.remove_all(&tasks);
        arm_give_up(tx, id, 0);
        tx.touch_job(id);
    }
}

/// Rooms of tasks or groups that are gone, or will never run, are given back.
pub(crate) fn settle_rooms(tx: &mut Tx<'_>, id: JobId) {
    let mut unused: BTreeMap<u16, RangeSet> = BTreeMap::new();
    for (_, room) in tx.nominations.of_job(id).filter(|(_, held)| held.is_move()) {
        let unused = unused.entry(room.group).or_default();
        room.tasks.iter().for_each(|(first, count)| unused.insert(first, count));
    }
    for (group, mut unused) in unused {
        let moving = tx.job(id).groups.get(usize::from(group)).map(|group| &group.moving);
        let moving = moving.into_iter().flat_map(|moving| moving.iter());
        moving.for_each(|(first, count)| unused.remove(first, count));
        give_rooms(tx, id, group, &unused, None);
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
        let moving = group.moving.values();
        moving.into_iter().any(|task| group.tasks[task as usize].state == TaskState::Live)
    };
    if job.groups.iter().any(stops) {
        return arm_room(tx, task, incarnation);
    }
    tx.group_mut(task.job, task.group.0).moving.remove(index, 1);
    let mut tasks = RangeSet::default();
    tasks.insert(index, 1);
    give_rooms(tx, task.job, task.group.0, &tasks, None);
    arm_give_up(tx, task.job, 0);
    tx.touch_job(task.job);
}
