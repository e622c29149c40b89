//! Whom a single task stops that may only stop what is less important: the pieces of the one node where what has to
//! stop is least important, and where the fewest go beyond what disruption budgets allow.

use super::nodes::Bound;
use super::pieces::{Piece, Pieces, Told, Weight, is_before, weight_of};
use ohm_cell::{Cell, Job, Overlay, PlannedRooms, QuotaIf, RoomPreemptor, resume_run};
use ohm_model::{GroupIndex, NodeId};
use std::collections::BTreeSet;

/// So many nodes at most are looked at, besides those that transactions under way change. Where all of them so far
/// break budgets, all others are.
const NODES_MAX: usize = 64;

/// The group of which one task is wanted, where that is all, and where no domain binds it.
pub(crate) fn single_task(job: &Job, wanted: &[u32]) -> Option<GroupIndex> {
    let at = wanted.iter().position(|count| *count > 0)?;
    (wanted.iter().sum::<u32>() == 1 && job.binding_level(at).is_none()).then_some(GroupIndex(at as u16))
}

/// The node on which room for a task of `group` is made by what is least important, and as many pieces there as that
/// takes; none where what stops already is enough. Of `nodes` with their bounds the first few are looked at.
pub(crate) fn on_one_node<'a>(
    (cell, over): (&'a Cell, &mut Overlay),
    (job, group): (&Job, GroupIndex),
    (preemptor, tree, told): (&RoomPreemptor<'a>, &QuotaIf<'a>, &Told),
    nodes: impl Iterator<Item = (Bound, NodeId)>,
) -> Option<(NodeId, Vec<Piece<'a>>)> {
    let under_way: BTreeSet<NodeId> = told.runs(cell).map(|run| run.node).collect();
    let (mut best, mut looked_at) = (None::<(Weight, NodeId, Vec<Piece<'a>>)>, 0);
    // What an elastic group has beyond its minimum goes first, but not where it is as important.
    let may_stop = |((is_needed, priority, _), _): &(Bound, NodeId)| !is_needed || *priority < job.spec.priority;
    for (bound, node) in nodes.take_while(may_stop) {
        let least = best.as_ref().map(|(weight, ..)| *weight);
        let breaks = least.is_some_and(|(breaks, _)| breaks > 0);
        if (looked_at >= NODES_MAX && !breaks) || least.is_some_and(|least| !is_before(bound, least)) {
            break;
        }
        looked_at += usize::from(!under_way.contains(&node));
        let mut pieces = Pieces::on_node((cell, node), (preemptor, job), (tree, told));
        let rooms = PlannedRooms::of(job, std::iter::once((group, node, 1)));
        let Some(made) = make_room((cell, over), &rooms, (&mut pieces, told), node) else { continue };
        let Some(weight) = weight_of(&made) else { return Some((node, made)) };
        if least.is_none_or(|least| weight < least) {
            best = Some((weight, node, made));
        }
    }
    best.map(|(_, node, made)| (node, made))
}

/// The first of the pieces, as many as have to end for the rooms on `node` beside what is told to stop there; nothing
/// where all are not enough. Where some break budgets, those that may go on do: they first, then the most important.
fn make_room<'a>(
    (cell, over): (&'a Cell, &mut Overlay),
    rooms: &PlannedRooms<'_>,
    (pieces, told): (&mut Pieces<'_, 'a>, &Told),
    node: NodeId,
) -> Option<Vec<Piece<'a>>> {
    let (before, mut taken) = (over.savepoint(), Vec::new());
    told.on_node(cell, node).for_each(|run| over.end_run(cell, run));
    let mut fit = rooms.fit_on(cell, over, node);
    while !fit && let Some(piece) = pieces.next() {
        piece.runs.iter().for_each(|run| over.end_run(cell, run));
        taken.push(piece);
        fit = rooms.fit_on(cell, over, node);
    }
    if fit && taken.iter().any(|piece| piece.rank.0) {
        let mut needed = Vec::with_capacity(taken.len());
        for piece in taken.into_iter().rev() {
            piece.runs.iter().for_each(|run| resume_run(over, cell, run));
            if !rooms.fit_on(cell, over, node) {
                piece.runs.iter().for_each(|run| over.end_run(cell, run));
                needed.push(piece);
            }
        }
        needed.reverse();
        taken = needed;
    }
    over.roll_back(cell, before);
    fit.then_some(taken)
}
