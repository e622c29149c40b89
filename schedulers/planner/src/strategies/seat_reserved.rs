//! Tasks on the move where their room is reserved: nothing is searched for.
//!
//! Each task on the move has room of its own, from the reservation to its start. A job that starts anew does so there
//! as a whole or not at all: its groups may have to share a domain, and what is left of its rooms may lie in one that
//! does not take the others.

use crate::draft::{Draft, Step};
use ohm_model::{NodeId, Placement};
use ohm_placement::{Subject, rows_bound};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    let (job, lends) = (draft.job(), draft.terms.lends_spares);
    if draft.seeks_spares() || job.groups.iter().all(|group| group.moving.is_empty()) {
        return Step::Skip;
    }
    let (mut seated, before) = (false, draft.seats());
    for at in (0..job.groups.len()).filter(|at| !job.groups[*at].moving.is_empty()) {
        seated |= draft.seat(at, lends, rooms, moved);
    }
    if seated && job.groups.iter().all(|group| !group.started) && draft.still_waits() {
        draft.unseat(before);
        return Step::Skip;
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
    let rooms = subject.view.cell().rooms_for_moving(subject.job.id, subject.group);
    rooms.map(|(node, tasks)| (node, tasks.len())).collect()
}

/// Rows for the waiting tasks of the group in its rooms, where those are still of use.
fn moved(subject: &Subject<'_>, rooms: Vec<(NodeId, u32)>) -> Vec<Placement> {
    let pending = subject.view.pending(subject.job, subject.group);
    let mut bound = Vec::new();
    for (node, tasks) in subject.view.cell().rooms_for_moving(subject.job.id, subject.group) {
        let tasks = tasks.values();
        let tasks: Vec<u32> = tasks.filter(|task| pending.contains(*task, 1)).collect();
        let is_of_use = rooms.iter().any(|(room, _)| *room == node) && subject.is_in_domain(node);
        let room = if is_of_use && !tasks.is_empty() { subject.room_reserved(node) as usize } else { 0 };
        bound.extend(tasks.into_iter().take(room).map(|task| (task, node)));
    }
    if bound.is_empty() { Vec::new() } else { rows_bound(subject, bound) }
}
