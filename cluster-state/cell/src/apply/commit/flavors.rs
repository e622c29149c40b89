//! The flavors that a transaction chooses, once something is taken for their job.

use crate::apply::Tx;
use crate::cell::Cell;
use crate::state::jobs::Group;
use crate::state::offers::flavors_in_use;
use ohm_model::transaction::Row;
use ohm_model::{EventKind, JobId, Placement, ShapeId, Transaction, Verdict};
use std::collections::BTreeSet;

/// The shape that the transaction chooses for the group of a row.
pub(super) fn shape_chosen(transaction: &Transaction, row: &Placement) -> Option<ShapeId> {
    let same = transaction.flavors.iter().find(|choice| (choice.job, choice.group) == (row.job, row.group));
    same.map(|choice| choice.shape)
}

/// Gives groups the shapes that are chosen for them, where something is taken for their job.
pub(super) fn choose_flavors(tx: &mut Tx<'_>, transaction: &Transaction, verdict: &Verdict, refused: &BTreeSet<Row>) {
    for (row, choice) in transaction.flavors.iter().enumerate() {
        let at = usize::from(choice.group.0);
        let is_new = |cell: &Cell| {
            let job = cell.jobs.get(choice.job);
            job.and_then(|job| job.groups.get(at)).is_some_and(|group| group.shape != choice.shape)
        };
        let taken = !refused.contains(&Row::Flavor(row as u32)) && is_taken(transaction, verdict, refused, choice.job);
        if !taken || !is_new(tx) {
            continue;
        }
        tx.shapes.join_again(choice.shape, 1);
        let former = std::mem::replace(&mut tx.job_mut(choice.job).groups[at].shape, choice.shape);
        tx.shapes.leave(former);
        tx.touch_job(choice.job);
    }
    let offered = |group: &Group| !group.offers.is_empty();
    for id in transaction.jobs.iter().map(|guard| guard.job) {
        let Some(job) = tx.jobs.get(id).filter(|job| job.groups.iter().any(offered)) else { continue };
        if job.may_choose_flavors() && stands_by(transaction, verdict, refused, id) {
            tell_flavors(tx, id);
        }
    }
}

/// Whether something is placed or reserved for `job`, or room is kept for it.
fn is_taken(transaction: &Transaction, verdict: &Verdict, refused: &BTreeSet<Row>, job: JobId) -> bool {
    let mut rooms = transaction.nominate.iter().enumerate();
    stands_by(transaction, verdict, refused, job)
        || !transaction.preempt.is_empty()
        || rooms.any(|(row, room)| room.job == job && !refused.contains(&Row::Nominate(row as u32)))
}

/// Whether something is placed or reserved for `job`.
fn stands_by(transaction: &Transaction, verdict: &Verdict, refused: &BTreeSet<Row>, job: JobId) -> bool {
    let mut places = transaction.place.iter().enumerate();
    let mut reserves = transaction.reserve.iter().enumerate();
    places.any(|(row, place)| place.job == job && verdict.accepted_of(transaction, row) > 0)
        || reserves.any(|(row, reserved)| *reserved == job && !refused.contains(&Row::Reserve(row as u32)))
}

/// Tells which flavors `id` has from here on.
fn tell_flavors(tx: &mut Tx<'_>, id: JobId) {
    let job = tx.job(id);
    let flavors = (0..job.groups.len()).map(|at| flavors_in_use(tx, job, at));
    let groups = flavors.zip(&job.spec.groups).map(|(flavors, group)| (group.name.clone(), flavors)).collect();
    let name = job.spec.name.clone();
    tx.tell(EventKind::FlavorsAssigned { job: id, name, groups });
}
