//! Tasks on the move where their room is reserved: nothing is searched for.
//!
//! The tasks of a group that are on the move and its rooms are paired in order, ranks ascending with the path of the
//! topology: so each task has the same room from the reservation to its start, whoever ends first.

use crate::draft::{Draft, Step};
use ohm_model::{NodeId, Placement};
use ohm_placement::{Subject, rows_bound};
use std::collections::BTreeMap;

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let (job, lends) = (draft.job(), draft.terms.lends_spares);
    if draft.seeks_spares() || job.groups.iter().all(|group| group.moving.is_empty()) {
        return Step::Skip;
    }
    let mut seated = false;
    for at in (0..job.groups.len()).filter(|at| !job.groups[*at].moving.is_empty()) {
        seated |= draft.seat(at, lends, rooms, moved);
    }
    if seated { Step::Next } else { Step::Skip }
}

/// Where room is reserved for tasks of the group that are on the move, if some of them wait.
fn rooms(subject: &Subject<'_>) -> Vec<(NodeId, u32)> {
    let Some(group) = subject.job.groups.get(usize::from(subject.group.0)) else { return Vec::new() };
    let pending = subject.view.pending(subject.job, subject.group);
    let moving: u32 = pending.iter().map(|(first, count)| group.moving.overlap(first, count)).sum();
    // A group that starts anew does so whole, with whatever else of it waits.
    if moving == 0 || (!group.started && moving < pending.len()) {
        return Vec::new();
    }
    subject.view.cell().rooms_for_moving(subject.job.id, subject.group).collect()
}

/// Rows for the waiting tasks of the group in its rooms, where those are still of use.
fn moved(subject: &Subject<'_>, rooms: Vec<(NodeId, u32)>) -> Vec<Placement> {
    let Some(group) = subject.job.groups.get(usize::from(subject.group.0)) else { return Vec::new() };
    let pending = subject.view.pending(subject.job, subject.group);
    let rooms = rooms.into_iter().flat_map(|(node, count)| std::iter::repeat_n(node, count as usize));
    let tasks = group.moving.iter().flat_map(|(first, count)| first..first + count);
    let mut by_node: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for (task, node) in tasks.zip(rooms).filter(|(task, _)| pending.contains(*task, 1)) {
        by_node.entry(node).or_default().push(task);
    }
    let mut bound = Vec::new();
    for (node, tasks) in by_node {
        let room = if subject.is_in_domain(node) { subject.room_reserved(node) as usize } else { 0 };
        bound.extend(tasks.into_iter().take(room).map(|task| (task, node)));
    }
    if bound.is_empty() { Vec::new() } else { rows_bound(subject, bound) }
}
