//! Lost tasks where spares of their group are held.

use crate::draft::{Draft, Step};
use ohm_model::{NodeId, Placement};
use ohm_placement::{Subject, rows_bound};
use ohm_stdx::bug::{self, Bug};

pub(super) fn run(draft: &mut Draft<'_, '_>) -> Step {
    if draft.seeks_spares() || !draft.terms.seats_spares {
        return Step::Skip;
    }
    let (job, mut seated) = (draft.job(), false);
    for at in (0..job.groups.len()).filter(|at| job.groups[*at].spares > 0 && !job.groups[*at].lost.is_empty()) {
        seated |= draft.seat(at, true, spares, spared);
    }
    if seated { Step::Next } else { Step::Skip }
}

/// Where spares of the group are held.
fn spares(subject: &Subject<'_>) -> Vec<(NodeId, u32)> {
    let started = subject.job.groups.get(usize::from(subject.group.0)).is_some_and(|group| group.started);
    if !started || bug::is_planted(Bug::SpareUnused) {
        return Vec::new();
    }
    subject.view.cell().spares_of(subject.job.id, subject.group).collect()
}

/// Rows for the lost tasks of the group that spares are held for. The subject's picture lends spares.
fn spared(subject: &Subject<'_>, spares: Vec<(NodeId, u32)>) -> Vec<Placement> {
    let (job, at) = (subject.job, usize::from(subject.group.0));
    let Some(group) = job.groups.get(at) else { return Vec::new() };
    let mut pending = subject.view.pending(job, subject.group);
    pending.remove_all(&group.moving);
    let tasks = group.lost.values();
    let tasks = tasks.filter(|task| pending.contains(*task, 1));
    let usable = |(node, count): (NodeId, u32)| {
        let room = if subject.is_in_domain(node) { subject.room(node).min(count) } else { 0 };
        std::iter::repeat_n(node, room as usize)
    };
    let bound: Vec<(u32, NodeId)> = tasks.zip(spares.into_iter().flat_map(usable)).collect();
    // Where nothing binds the group to the domain of its spares, the rest of it may be better off in another one.
    let is_free = job.binding_level(at).is_some() && job.shared_domain(at).is_none();
    let waiting: u32 = job.partners(at).map(|other| job.groups[other].pending.len()).sum();
    if bound.is_empty() || (is_free && (bound.len() as u32) < waiting) {
        return Vec::new();
    }
    rows_bound(subject, bound)
}
