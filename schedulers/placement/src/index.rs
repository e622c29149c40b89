//! What a scan found, remembered by block of nodes: the best node of each block. Only blocks that changed since are
//! scanned again, so a repeated shape costs a pass over the blocks and an exact first scan costs a pass over the nodes.
//!
//! A block is first remembered by its lowest scaled score alone. That score is a safe bound: nodes whose scaled amounts
//! fit but whose exact ones don't can only make it too good. The block that looks best is then resolved: its best
//! node is looked at exactly, with the scores that are asked per node or per domain, and the next one if it does not
//! fit, until the bound is the score of a node that fits. What the scores per node cost a node is remembered until it
//! changes.
//! (The remembered candidate lists are Borg's score cache, EuroSys 2015, section 3.4; the block bounds a one-level
//! block-max index.)

use crate::demand::Demand;
use crate::demand_key::REFUSED;
use crate::score::DomainCosts;
use crate::table::{BLOCK, NodeTable};
use crate::told::Told;
use ohm_cell::Surroundings;
use ohm_framework::View;
use ohm_model::NodeId;
use ohm_stdx::Prng;
use std::ops::Range;

/// The best node of a block is not known yet, only its bound.
const UNRESOLVED: u32 = u32::MAX;

/// What the scores per node cost a node is not known yet.
const UNASKED: i32 = -1;

/// The best of each block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bests {
    score: Vec<i32>,
    node: Vec<u32>,
    /// What the scores per node cost each node, or `UNASKED`; empty where there are no such scores.
    asked: Vec<[i32; BLOCK]>,
}

impl Bests {
    /// Makes room for `blocks` blocks.
    fn grow(&mut self, blocks: usize, asks_nodes: bool) {
        self.score.resize(blocks, REFUSED);
        self.node.resize(blocks, UNRESOLVED);
        self.asked.resize(if asks_nodes { blocks } else { 0 }, [UNASKED; BLOCK]);
    }

    /// Forgets what the nodes of a block cost that have changed after `clock`.
    fn forget_asked(&mut self, table: &NodeTable, block: usize, clock: u64) {
        let Some(asked) = self.asked.get_mut(block) else { return };
        let changed = asked.iter_mut().zip(table.nodes_changed(block)).filter(|(_, changed)| **changed > clock);
        changed.for_each(|(cost, _)| *cost = UNASKED);
    }

    /// Takes the bounds of `other`, which are never too high.
    pub(crate) fn take_bounds(&mut self, other: &Bests) {
        self.score.clone_from(&other.score);
        self.node.clone_from(&other.node);
        self.unresolve();
    }

    /// The lowest bound.
    pub(crate) fn bound(&self) -> i32 {
        lowest(&self.score)
    }

    /// The best node of a block that is resolved.
    pub(crate) fn node_of(&self, block: usize) -> NodeId {
        NodeId(self.node[block])
    }

    /// Keeps the bounds and forgets which node each is of.
    pub(crate) fn unresolve(&mut self) {
        let open = self.node.iter_mut().zip(&self.score).filter(|(_, score)| **score != REFUSED);
        open.for_each(|(node, _)| *node = UNRESOLVED);
    }
}

/// How a choice is made among nodes that are equally good.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The nodes where the search begins: among near-equal ones those of others are left to them.
    pub(crate) part: Range<u32>,
    /// Choose by dice among this many near-equal nodes; 1 is the best one, the first of them on a tie.
    pub(crate) width: u32,
    /// What is near is widened by this power of two.
    pub(crate) slack: u32,
}

/// A demand and what scans of it found.
#[derive(Clone, Debug)]
pub(crate) struct ShapeIndex {
    pub(crate) demand: Demand,
    pub(crate) bests: Bests,
    /// What was counted for people, and at which state of the table.
    pub(crate) told: Option<Told>,
    seen: Vec<u64>,
    clock: u64,
    /// The scales it was compiled against.
    pub(crate) epoch: u64,
}

impl ShapeIndex {
    pub(crate) fn new(demand: Demand, table: &NodeTable) -> Self {
        ShapeIndex { demand, bests: Bests::default(), told: None, seen: Vec::new(), clock: 0, epoch: table.epoch() }
    }

    /// Scans what changed; returns how many nodes were looked at.
    pub(crate) fn sync(&mut self, table: &NodeTable) -> u64 {
        let blocks = table.blocks();
        if self.clock == table.clock() && self.seen.len() == blocks {
            return 0;
        }
        self.seen.resize(blocks, 0);
        self.bests.grow(blocks, self.demand.asks_nodes());
        let clock = std::mem::replace(&mut self.clock, table.clock());
        // A few changes are followed one by one; after many, every block is asked whether it changed.
        let trail = table.changed_since(clock).map(|trail| (trail.size_hint().0, trail));
        match trail {
            Some((length, trail)) if length < blocks => trail.map(|block| self.scan(table, block)).sum(),
            _ => (0..blocks).map(|block| self.scan(table, block)).sum(),
        }
    }

    fn scan(&mut self, table: &NodeTable, block: usize) -> u64 {
        let changed = table.changed()[block];
        if self.seen[block] == changed {
            return 0;
        }
        let mut scores = [0; BLOCK];
        self.demand.score_block(table, block, &mut scores);
        self.bests.score[block] = lowest(&scores);
        self.bests.node[block] = UNRESOLVED;
        self.bests.forget_asked(table, block, self.seen[block]);
        self.seen[block] = changed;
        BLOCK as u64
    }
}

/// One look-up: the demand, the table it is about, and which nodes are out of question for this group.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a, 'v> {
    pub(crate) demand: &'a Demand,
    pub(crate) table: &'a NodeTable,
    pub(crate) view: &'a View<'v>,
    /// By block, a bit per node; empty when no node is out of question.
    pub(crate) closed: &'a [u64],
    /// What domains cost the group.
    pub(crate) domains: Option<&'a DomainCosts<'v>>,
    /// The tasks around the group.
    pub(crate) around: Option<&'a Surroundings<'v>>,
    /// Whether it is one side that is looked at, of which it is known what domains of several nodes say.
    pub(crate) by_side: bool,
}

impl Lookup<'_, '_> {
    /// The best node: the lowest score, the first from the start on a tie; or one of the near-equal ones by dice.
    pub(crate) fn best(&self, bests: &mut Bests, choice: &Choice, dice: &mut Prng) -> Option<(i32, NodeId)> {
        let start = choice.part.start as usize / BLOCK;
        let (score, block) = self.best_block(bests, start)?;
        if choice.width <= 1 {
            return Some((score, NodeId(bests.node[block])));
        }
        let limit = score.saturating_add(self.demand.tolerance() << choice.slack).min(REFUSED - 1);
        let blocks = bests.score.len();
        let rotated = (0..blocks).map(|step| (start + step) % blocks);
        let near: Vec<usize> =
            rotated.filter(|at| bests.score[*at] <= limit).take(choice.width.min(64) as usize).collect();
        let in_part =
            |at: &usize| (at * BLOCK) < choice.part.end as usize && (at + 1) * BLOCK > choice.part.start as usize;
        let at = pick_from(dice, &near, in_part)?;
        let nodes = self.near_in_block(bests, at, limit, choice);
        let near = dice.pick(&nodes).copied();
        // A block whose bound was too good may hold no near node after all; the best one always stands.
        Some(near.unwrap_or((score, NodeId(bests.node[block]))))
    }

    /// The lowest score, and the block whose best node has it.
    pub(crate) fn best_block(&self, bests: &mut Bests, start: usize) -> Option<(i32, usize)> {
        loop {
            let bound = lowest(&bests.score);
            if bound == REFUSED {
                return None;
            }
            let start = start.min(bests.score.len());
            let (head, tail) = bests.score.split_at(start);
            let at = tail.iter().position(|score| *score == bound).map(|at| at + start);
            let block = at.or_else(|| head.iter().position(|score| *score == bound))?;
            if bests.node[block] != UNRESOLVED {
                return Some((bound, block));
            }
            self.resolve(bests, block);
        }
    }

    /// Works out the best node of a block exactly.
    fn resolve(&self, bests: &mut Bests, block: usize) {
        let mut scores = self.open_scores(block);
        // A bit per node of which the late scores are in.
        let mut whole = if self.asks_late() { 0u64 } else { u64::MAX };
        loop {
            let bound = lowest(&scores);
            bests.score[block] = bound;
            let found = scores.iter().position(|score| *score == bound).filter(|_| bound != REFUSED);
            // A block without any node counts as resolved: its score says that nothing is to be found.
            let Some(at) = found else { return bests.node[block] = 0 };
            let node = NodeId((block * BLOCK + at) as u32);
            if whole >> at & 1 == 1 {
                if self.demand.fits(self.table, self.view, node) {
                    return bests.node[block] = node.0;
                }
                scores[at] = REFUSED;
            } else {
                scores[at] = bound.saturating_add(self.late_cost(bests, node)).min(REFUSED - 1);
                whole |= 1 << at;
            }
        }
    }

    /// Whether there are scores per node or per domain.
    fn asks_late(&self) -> bool {
        self.domains.is_some() || self.demand.asks_nodes()
    }

    /// What the scores per node and per domain cost `node`; what was found out about the node alone is remembered.
    fn late_cost(&self, bests: &mut Bests, node: NodeId) -> i32 {
        let (block, at) = (node.0 as usize / BLOCK, node.0 as usize % BLOCK);
        let alone = match bests.asked.get_mut(block) {
            None => 0,
            Some(asked) => {
                if asked[at] == UNASKED {
                    asked[at] = self.demand.node_cost(self.view, node);
                }
                asked[at]
            }
        };
        alone.saturating_add(self.domain_cost(node))
    }

    fn domain_cost(&self, node: NodeId) -> i32 {
        let cost = |domains: &DomainCosts<'_>| match self.by_side {
            true => domains.of_domains(node, false),
            false => domains.of(node),
        };
        self.domains.map_or(0, cost)
    }

    /// The same without anything remembered.
    pub(crate) fn late_cost_anew(&self, node: NodeId) -> i32 {
        let alone = if self.demand.asks_nodes() { self.demand.node_cost(self.view, node) } else { 0 };
        alone.saturating_add(self.domain_cost(node))
    }

    fn open_scores(&self, block: usize) -> [i32; BLOCK] {
        let mut scores = [0; BLOCK];
        self.demand.score_block(self.table, block, &mut scores);
        if let Some(&closed) = self.closed.get(block)
            && closed != 0
        {
            for (at, score) in scores.iter_mut().enumerate() {
                *score = if closed >> at & 1 == 1 { REFUSED } else { *score };
            }
        }
        if let Some(around) = self.around {
            for (at, score) in scores.iter_mut().enumerate().filter(|(_, score)| **score != REFUSED) {
                let node = NodeId((block * BLOCK + at) as u32);
                let room = if self.by_side { around.room_by_itself(node, 1) } else { around.room(node, 1) };
                *score = if room == 0 { REFUSED } else { *score };
            }
        }
        scores
    }

    /// Up to so many near-equal nodes of a block: those of the own part, or any when there are none.
    fn near_in_block(&self, bests: &mut Bests, block: usize, limit: i32, choice: &Choice) -> Vec<(i32, NodeId)> {
        let mut scores = self.open_scores(block);
        if self.asks_late() {
            for (at, score) in scores.iter_mut().enumerate().filter(|(_, score)| **score <= limit) {
                *score = score.saturating_add(self.late_cost(bests, NodeId((block * BLOCK + at) as u32)));
            }
        }
        let near = scores.iter().enumerate().filter(|(_, score)| **score <= limit);
        let near = near.map(|(at, score)| (*score, NodeId((block * BLOCK + at) as u32)));
        let fits = |(_, node): &(i32, NodeId)| self.demand.fits(self.table, self.view, *node);
        let (width, is_own) = (choice.width as usize, |node: NodeId| choice.part.contains(&node.0));
        let own: Vec<(i32, NodeId)> = near.clone().filter(|(_, node)| is_own(*node)).filter(fits).take(width).collect();
        if own.is_empty() { near.filter(fits).take(width).collect() } else { own }
    }

    /// After nodes of `block` were closed or opened: its bound anew.
    pub(crate) fn rescan(&self, bests: &mut Bests, block: usize) {
        bests.score[block] = lowest(&self.open_scores(block));
        bests.node[block] = UNRESOLVED;
    }
}

/// One of those that `is_own`, or of all when there is none.
fn pick_from<T: Copy>(dice: &mut Prng, all: &[T], is_own: impl Fn(&T) -> bool) -> Option<T> {
    let own: Vec<T> = all.iter().copied().filter(is_own).collect();
    dice.pick(if own.is_empty() { all } else { &own }).copied()
}

fn lowest(scores: &[i32]) -> i32 {
    let mut lowest = REFUSED;
    for &score in scores {
        lowest = if score < lowest { score } else { lowest };
    }
    lowest
}
