//! Whom a single task stops that may only stop what is less important: the pieces of the one node where what has to
//! stop is least important.

use super::nodes::Bound;
use super::pieces::{Piece, Pieces, Told, is_before};
use ohm_cell::{Cell, Job, Overlay, PlannedRooms, QuotaIf, RoomPreemptor};
use ohm_model::{GroupIndex, NodeId};
use std::collections::BTreeSet;

/// So many nodes at most are looked at, besides those that transactions under way change.
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
    let (mut best, mut looked_at) = (None::<(NodeId, Vec<Piece<'a>>)>, 0);
    // What an elastic group has beyond its minimum goes first, but not where it is as important.
    let may_stop = |((is_needed, priority, _), _): &(Bound, NodeId)| !is_needed || *priority < job.spec.priority;
    for (bound, node) in nodes.take_while(may_stop) {
        let rank = best.as_ref().and_then(|(_, pieces)| Some(pieces.last()?.rank));
        if looked_at == NODES_MAX || rank.is_some_and(|rank| !is_before(bound, rank)) {
            break;
        }
        looked_at += usize::from(!under_way.contains(&node));
        let mut pieces = Pieces::on_node((cell, node), (preemptor, job), (tree, told));
        let rooms = PlannedRooms::of(job, std::iter::once((group, node, 1)));
        let Some(made) = make_room((cell, over), &rooms, (&mut pieces, told), node) else { continue };
        let Some(last) = made.last().map(|piece| piece.rank) else { return Some((node, made)) };
        if rank.is_none_or(|rank| last < rank) {
            best = Some((node, made));
        }
    }
    best
}

/// The first of the pieces, as many as have to end for the rooms on `node` beside what is told to stop there; nothing
/// where all are not enough.
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
    over.roll_back(cell, before);
    fit.then_some(taken)
}
