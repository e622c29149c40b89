//! Laying a group over nodes beside the tasks around it, where rules about other tasks keep it away from nodes or make
//! some of them better: one step after the other, as each task changes what the next one finds. Under rules spots are
//! in the order in which the tasks are handed out, so a node may be there more than once, and so the log judges them.

use crate::amount::{Amount, Spots};
use crate::search::Search;
use crate::subject::Subject;
use ohm_model::{NodeId, SpreadMode};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// What is known of a node that was looked at.
struct Known {
    /// Tasks of the group that stood there before.
    standing: u32,
    given: u32,
    /// How many it takes, whatever tasks are around.
    room: u32,
    /// Its last spot.
    spot: Option<usize>,
}

/// As many of `amount.most` tasks as fit: best nodes first, or for a group that spreads fewest of its tasks first. What
/// the group prefers of the tasks around it goes before that, and is weighed anew for each task.
pub(crate) fn beside(search: &mut Search<'_>, subject: &Subject<'_>, amount: &Amount, dice: &mut Prng) -> Spots {
    let single = search.weighs_each_task();
    let spreads = subject.spec.spread == SpreadMode::Spread && !single;
    let (mut known, mut aside) = (BTreeMap::new(), BTreeMap::<u32, Vec<NodeId>>::new());
    let (mut spots, mut level, mut rest) = (Spots::new(), 0, amount.most);
    while rest > 0 && (spots.len() < amount.nodes || amount.most - rest < amount.least) {
        let Some(node) = search.next(dice) else {
            let Some((next, nodes)) = aside.pop_first() else { break };
            level = next;
            nodes.into_iter().for_each(|node| search.reopen(node));
            continue;
        };
        let found = known.entry(node).or_insert_with(|| {
            let standing = if spreads { subject.live_on(node) } else { 0 };
            Known { standing, given: 0, room: search.room_alone(node), spot: None }
        });
        let left = found.room.saturating_sub(found.given);
        let room = search.room_beside(node, left.min(rest));
        let count = if spreads || single { room.min(1) } else { room };
        if count == 0 {
            search.close(node);
            continue;
        }
        if spreads {
            search.close(node);
            if found.standing + found.given > level {
                aside.entry(found.standing + found.given).or_default().push(node);
                continue;
            }
        }
        found.given += count;
        rest -= count;
        hand_out(&mut spots, search, (node, found), count);
        search.give(node, count);
        if left == count {
            search.close(node);
        } else if spreads {
            aside.entry(found.standing + found.given).or_default().push(node);
        }
    }
    spots
}

/// As [`beside`], on these nodes alone: where room is nominated.
pub(crate) fn beside_among(search: &mut Search<'_>, subject: &Subject<'_>, nodes: &[NodeId], amount: &Amount) -> Spots {
    let single = search.weighs_each_task();
    let spreads = subject.spec.spread == SpreadMode::Spread && !single;
    let look = |node: &NodeId| {
        let standing = if spreads { subject.live_on(*node) } else { 0 };
        (*node, Known { standing, given: 0, room: search.room_alone(*node), spot: None })
    };
    let mut open: BTreeMap<NodeId, Known> = nodes.iter().map(look).collect();
    let (mut spots, mut rest) = (Spots::new(), amount.most);
    while rest > 0 {
        let room =
            |(node, known): &(&NodeId, &mut Known)| search.room_beside(**node, (known.room - known.given).min(rest));
        let rank = |(node, known): &(&NodeId, &mut Known)| {
            (if spreads { known.standing + known.given } else { 0 }, search.score(**node), **node)
        };
        let best = open.iter_mut().filter(|found| room(found) > 0).min_by_key(rank);
        let Some((node, known)) = best else { break };
        let room = search.room_beside(*node, (known.room - known.given).min(rest));
        let count = if spreads || single { 1 } else { room };
        known.given += count;
        rest -= count;
        hand_out(&mut spots, search, (*node, known), count);
        search.give(*node, count);
    }
    spots
}

/// Adds to the node's last spot, unless other nodes came after it and the order of tasks matters.
fn hand_out(spots: &mut Spots, search: &Search<'_>, (node, known): (NodeId, &mut Known), count: u32) {
    let usable = known.spot.filter(|spot| !search.is_surrounded() || spot + 1 == spots.len());
    match usable.and_then(|spot| spots.get_mut(spot)) {
        Some((_, more)) => *more += count,
        None => {
            known.spot = Some(spots.len());
            spots.push((node, count));
        }
    }
}
