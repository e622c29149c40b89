//! The nodes of a search by side. Nodes are of one side if they are in the same of all domains that have several nodes,
//! of all rules and preferences about other tasks: what tasks there change of these, they change for the side as a
//! whole. So each side keeps its own picture of the blocks, which no task of another node touches, and a decision asks
//! the sides instead of all blocks anew.

use crate::index::{Bests, Choice, Lookup};
use crate::table::BLOCK;
use ohm_model::NodeId;
use ohm_stdx::Prng;

/// With more sides than that a search goes without.
const SIDES_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct Sides {
    of_node: Vec<u8>,
    sides: Vec<Side>,
}

#[derive(Debug)]
struct Side {
    /// One of its nodes.
    node: NodeId,
    bests: Bests,
    /// By block, a bit per node that is out of question, or of another side.
    closed: Vec<u64>,
}

impl Sides {
    /// `marks` says what tells nodes apart; nothing where that makes too many sides. `bests` are bounds for all nodes,
    /// `closed` those that are out of question; may be empty.
    pub(crate) fn new(
        blocks: usize,
        marks: impl Fn(NodeId, &mut Vec<u64>),
        (bests, closed): (&Bests, &[u64]),
    ) -> Option<Self> {
        let (mut known, mut mark) = (Vec::<Vec<u64>>::new(), Vec::new());
        let (mut of_node, mut sides) = (Vec::with_capacity(blocks * BLOCK), Vec::<Side>::new());
        for node in (0..(blocks * BLOCK) as u32).map(NodeId) {
            mark.clear();
            marks(node, &mut mark);
            let at = known.iter().position(|other| *other == mark).unwrap_or(known.len());
            if at == SIDES_MAX {
                return None;
            }
            if at == known.len() {
                known.push(mark.clone());
                let mut bests = bests.clone();
                bests.unresolve();
                sides.push(Side { node, bests, closed: vec![u64::MAX; blocks] });
            }
            let (block, bit) = place(node);
            if closed.get(block).is_none_or(|closed| closed & bit == 0) {
                sides[at].closed[block] &= !bit;
            }
            of_node.push(at as u8);
        }
        Some(Sides { of_node, sides })
    }

    /// The picture of the side of `node`, and who is out of question there.
    pub(crate) fn of(&mut self, node: NodeId) -> Option<(&mut Bests, &mut Vec<u64>)> {
        let at = self.of_node.get(node.0 as usize)?;
        self.sides.get_mut(usize::from(*at)).map(|side| (&mut side.bests, &mut side.closed))
    }

    /// Forgets what was found out beyond these bounds.
    pub(crate) fn take_bounds(&mut self, bests: &Bests) {
        self.sides.iter_mut().for_each(|side| side.bests.take_bounds(bests));
    }

    /// The best node of all sides, as [`Lookup::best`] says of one.
    pub(crate) fn best(&mut self, lookup: &Lookup<'_, '_>, choice: &Choice, dice: &mut Prng) -> Option<(i32, NodeId)> {
        let start = choice.part.start as usize / BLOCK;
        let mut best = None::<((i32, bool, NodeId), usize, i32)>;
        for (at, side) in self.sides.iter_mut().enumerate() {
            if lookup.around.is_some_and(|around| !around.is_side_open(side.node)) {
                continue;
            }
            let cost = lookup.domains.map_or(0, |domains| domains.of_domains(side.node, true));
            let beaten = |score: i32| best.as_ref().is_some_and(|((best, ..), ..)| score.saturating_add(cost) > *best);
            if beaten(side.bests.bound()) {
                continue;
            }
            let lookup = Lookup { closed: &side.closed, by_side: true, ..*lookup };
            let Some((score, block)) = lookup.best_block(&mut side.bests, start) else { continue };
            let rank = (score.saturating_add(cost), block < start, side.bests.node_of(block));
            if best.as_ref().is_none_or(|(other, ..)| rank < *other) {
                best = Some((rank, at, cost));
            }
        }
        let (_, at, cost) = best?;
        let side = &mut self.sides[at];
        let lookup = Lookup { closed: &side.closed, by_side: true, ..*lookup };
        lookup.best(&mut side.bests, choice, dice).map(|(score, node)| (score.saturating_add(cost), node))
    }
}

/// The block of a node, and its bit there.
pub(crate) fn place(node: NodeId) -> (usize, u64) {
    (node.0 as usize / BLOCK, 1u64 << (node.0 as usize % BLOCK))
}
