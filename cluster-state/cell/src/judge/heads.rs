//! Judging the rooms of the head of a line.

use crate::cell::Cell;
use crate::rooms::heads::{HEAD_MS_MAX, NoHead, may_head, waits_for_room};
use crate::state::jobs::Job;
use crate::state::shapes::Shape;
use ohm_model::{ConflictReason, NodeId, Nomination, Purpose, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether all these rooms are kept for `job`, the head of its line; with a part of them it could not start. It is not
/// placed beside: one that is placed has no room kept. Rooms for an earlier start take the place of those it has.
pub(super) fn judge_head(
    cell: &Cell,
    transaction: &Transaction,
    job: &Job,
    rooms: &[&Nomination],
) -> Result<(), ConflictReason> {
    let Some(purpose) = rooms.first().map(|room| room.purpose) else { return Ok(()) };
    let Purpose::Head { start_ms, until_ms, .. } = purpose else { return Ok(()) };
    let places = transaction.place.iter().any(|row| row.job == job.id);
    if places || rooms.iter().any(|room| (room.job, room.purpose) != (job.id, purpose)) {
        return Err(ConflictReason::Malformed);
    }
    match may_head(cell, job) {
        Ok(()) => {}
        Err(NoHead::IsHead(former_ms)) if start_ms < former_ms => {}
        Err(NoHead::NothingWaits) => return Err(ConflictReason::TaskNotPending),
        Err(NoHead::IsHead(_) | NoHead::Impatient(_)) => return Err(ConflictReason::LimitReached),
        Err(NoHead::Behind(_)) => return Err(ConflictReason::Held),
    }
    // The flavors that are chosen for it have checks to pass.
    if !waits_for_room(cell, job) {
        return Err(ConflictReason::NotReserved);
    }
    if start_ms > until_ms || until_ms <= cell.now_ms || until_ms - cell.now_ms > HEAD_MS_MAX {
        return Err(ConflictReason::LimitReached);
    }
    let mut asked: BTreeMap<u16, u32> = BTreeMap::new();
    for room in rooms {
        let group = job.groups.get(usize::from(room.group.0)).ok_or(ConflictReason::Malformed)?;
        if !cell.admits(group.shape, room.node) {
            return Err(ConflictReason::NodeClassChanged);
        }
        let asked = asked.entry(room.group.0).or_default();
        *asked = asked.saturating_add(room.count);
        if *asked > group.pending.len() {
            return Err(ConflictReason::TaskNotPending);
        }
        if !is_kept_apart(cell, job, room.node, rooms) {
            return Err(ConflictReason::Held);
        }
    }
    Ok(())
}

/// Whether the node, with nothing on it, has room for `rooms` beside all that is kept there from the job: two that
/// each keep the room of the other would both wait.
fn is_kept_apart(cell: &Cell, job: &Job, node: NodeId, rooms: &[&Nomination]) -> bool {
    let mut asked = BTreeMap::new();
    let mut add = |shape: Option<&Arc<Shape>>, count: u32| {
        for &(resource, request) in shape.iter().flat_map(|shape| &shape.requests) {
            let sum: &mut i64 = asked.entry(resource).or_default();
            *sum = sum.saturating_add(request.saturating_mul(i64::from(count)));
        }
    };
    for room in rooms.iter().filter(|room| room.node == node) {
        add(cell.shape_of(job, usize::from(room.group.0)), room.count);
    }
    for held in cell.nominations.on_node(node).iter().filter(|held| held.binds(job.id, job.spec.priority)) {
        let holder = cell.jobs.get(held.job);
        add(holder.and_then(|holder| cell.shape_of(holder, usize::from(held.group))), held.count);
    }
    asked.into_iter().all(|(resource, sum)| sum <= cell.nodes.capacity(node, resource))
}
