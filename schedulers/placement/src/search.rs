//! A search for nodes on behalf of one group: the remembered scan of its shape, less the nodes that are out of question
//! for this group alone, plus the nodes that must be asked one by one.

use crate::demand_key::REFUSED;
use crate::index::{Bests, Choice, Lookup, ShapeIndex};
use crate::score::DomainCosts;
use crate::sides::{Sides, place};
use crate::subject::Subject;
use crate::table::{BLOCK, NodeTable, kind_of};
use ohm_cell::{Change, Surroundings};
use ohm_model::NodeId;
use ohm_stdx::Prng;

pub(crate) struct Search<'a> {
    subject: &'a Subject<'a>,
    table: &'a NodeTable,
    index: &'a mut ShapeIndex,
    choice: Choice,
    /// The group's own picture of the blocks, made when its first node is closed.
    own: Option<(Bests, Vec<u64>)>,
    /// In its place one for each side, made when a task that is given away changes what a side may have or costs.
    sides: Option<Sides>,
    /// Whether there are too many sides for that.
    has_many_sides: bool,
    /// What domains cost the group.
    domains: Option<DomainCosts<'a>>,
    /// The tasks around the group, with those that the search has given away.
    around: Option<Surroundings<'a>>,
    /// Nodes outside the scan with room for the group, best last.
    singled: Vec<(i32, NodeId)>,
    /// Whether the columns alone say how many tasks of this group a node takes.
    plain: bool,
    /// Nodes looked at.
    pub(crate) examined: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        subject: &'a Subject<'a>,
        table: &'a NodeTable,
        index: &'a mut ShapeIndex,
        choice: Choice,
    ) -> Self {
        let around = subject.surroundings();
        let plain = index.demand.is_plain() && subject.fence.is_none() && !subject.shape.counts_own_tasks();
        let domains = DomainCosts::new(index.demand.costs(), subject);
        let singled = Vec::new();
        let mut search = Search {
            subject,
            table,
            index,
            choice,
            own: None,
            sides: None,
            has_many_sides: false,
            domains,
            around,
            singled,
            plain,
            examined: 1,
        };
        search.forget_resolved();
        search.look_at_singled();
        search
    }

    fn look_at_singled(&mut self) {
        for node in self.table.singled() {
            self.examined += 1;
            if self.subject.room_alone(node) > 0 {
                self.singled.push((0, node));
            }
        }
        self.rank_singled();
    }

    fn rank_singled(&mut self) {
        let mut singled = std::mem::take(&mut self.singled);
        singled.iter_mut().for_each(|(score, node)| *score = self.score(*node));
        singled.sort_unstable_by(|a, b| b.cmp(a));
        self.singled = singled;
    }

    /// The score of one node.
    pub(crate) fn score(&self, node: NodeId) -> i32 {
        let score = self.index.demand.score_one(self.table, node, kind_of(&self.subject.view, node));
        let demand = &self.index.demand;
        let (view, domains) = (&self.subject.view, self.domains.as_ref());
        let lookup = Lookup { demand, table: self.table, view, closed: &[], domains, around: None, by_side: false };
        if score == REFUSED { REFUSED } else { score.saturating_add(lookup.late_cost_anew(node)).min(REFUSED - 1) }
    }

    /// Takes note that the group was given `tasks` on `node`: domains cost more from now on.
    pub(crate) fn give(&mut self, node: NodeId, tasks: u32) {
        let cheaper = self.domains.as_mut().map_or(Change::default(), |domains| domains.note(node, tasks));
        let change = self.around.as_mut().map_or(Change::default(), |around| around.give(node, tasks));
        if self.domains.is_some() {
            self.rank_singled();
        }
        if change.sides || self.domains.as_ref().is_some_and(DomainCosts::moves_sides) {
            self.take_sides();
        }
        let others = cheaper.nodes || change.nodes;
        match &mut self.sides {
            Some(sides) if others => sides.take_bounds(&self.index.bests),
            Some(_) if change.node || self.domains.is_some() => self.rescan(node),
            Some(_) => {}
            None => {
                if self.domains.is_some() {
                    self.forget_resolved();
                }
                match &mut self.own {
                    Some((own, _)) if others || cheaper.sides || change.sides => own.take_bounds(&self.index.bests),
                    _ if change.node => self.rescan(node),
                    _ => {}
                }
            }
        }
    }

    /// Looks at the nodes by side from now on, unless there are too many sides.
    fn take_sides(&mut self) {
        if self.sides.is_some() || self.has_many_sides {
            return;
        }
        let (around, domains) = (self.around.as_ref(), self.domains.as_ref());
        let marks = |node: NodeId, mark: &mut Vec<u64>| {
            around.iter().for_each(|around| around.side(node, mark));
            domains.iter().for_each(|domains| domains.side(node, mark));
        };
        let closed: &[u64] = self.own.as_ref().map_or(&[], |(_, closed)| closed);
        self.sides = Sides::new(self.table.blocks(), marks, (&self.index.bests, closed));
        self.has_many_sides = self.sides.is_none();
    }

    /// Where domains cost something, what was found without that is a bound and no answer.
    fn forget_resolved(&mut self) {
        if self.domains.is_some() || self.around.is_some() {
            let blocks = self.table.blocks();
            let (bests, _) = self.own.get_or_insert_with(|| (self.index.bests.clone(), vec![0; blocks]));
            bests.unresolve();
        }
    }

    /// How many tasks of the group fit on `node`, exactly, before any were given away.
    pub(crate) fn room(&self, node: NodeId) -> u32 {
        self.room_beside(node, self.room_alone(node))
    }

    /// How many of `most` tasks of the group may stand on `node` beside the tasks around it.
    pub(crate) fn room_beside(&self, node: NodeId, most: u32) -> u32 {
        self.around.as_ref().map_or(most, |around| around.room(node, most))
    }

    /// How many tasks fit on `node`, whatever tasks stand around the group.
    pub(crate) fn room_alone(&self, node: NodeId) -> u32 {
        if self.plain && !self.table.is_singled(node) {
            return self.index.demand.room(self.table, node);
        }
        self.subject.room_alone(node)
    }

    /// Whether tasks around the group keep it away from nodes.
    pub(crate) fn is_surrounded(&self) -> bool {
        self.around.is_some()
    }

    /// Whether each task that is given away may change which nodes others may have, or which are best.
    pub(crate) fn goes_step_by_step(&self) -> bool {
        self.is_surrounded() || self.weighs_each_task()
    }

    /// Whether each task that is given away may change which nodes are best.
    pub(crate) fn weighs_each_task(&self) -> bool {
        self.domains.as_ref().is_some_and(DomainCosts::moves)
    }

    /// The best node that is still open. It takes a task of this shape; whether it takes one of this group,
    /// [`Search::room`] knows.
    pub(crate) fn next(&mut self, dice: &mut Prng) -> Option<NodeId> {
        let ShapeIndex { demand, bests, .. } = &mut *self.index;
        let (bests, closed): (&mut Bests, &[u64]) = match &mut self.own {
            Some((own, closed)) => (own, closed),
            None => (bests, &[]),
        };
        let (view, domains, around) = (&self.subject.view, self.domains.as_ref(), self.around.as_ref());
        let lookup = Lookup { demand, table: self.table, view, closed, domains, around, by_side: false };
        let found = match &mut self.sides {
            Some(sides) => sides.best(&lookup, &self.choice, dice),
            None => lookup.best(bests, &self.choice, dice),
        };
        let is_open = |(_, node): &&(i32, NodeId)| around.is_none_or(|around| around.room(*node, 1) > 0);
        match (found, self.singled.iter().rev().find(is_open)) {
            (Some((score, node)), Some((single, _))) if score <= *single => Some(node),
            (_, Some((_, node))) => Some(*node),
            (found, None) => found.map(|(_, node)| node),
        }
    }

    /// Takes `node` out of question for the rest of the search.
    pub(crate) fn close(&mut self, node: NodeId) {
        self.mark(node, true);
    }

    /// Puts a closed node back.
    pub(crate) fn reopen(&mut self, node: NodeId) {
        self.mark(node, false);
    }

    fn mark(&mut self, node: NodeId, closes: bool) {
        if self.table.is_singled(node) {
            self.singled.retain(|(_, other)| *other != node);
            if !closes {
                let entry = (self.score(node), node);
                let at = self.singled.partition_point(|other| *other > entry);
                self.singled.insert(at, entry);
            }
            return;
        }
        let blocks = self.table.blocks();
        let by_side = self.sides.as_mut().and_then(|sides| sides.of(node));
        let (_, closed) = match by_side {
            Some(side) => side,
            None => {
                let (own, closed) = self.own.get_or_insert_with(|| (self.index.bests.clone(), vec![0; blocks]));
                (own, closed)
            }
        };
        let (block, bit) = place(node);
        closed[block] = if closes { closed[block] | bit } else { closed[block] & !bit };
        self.rescan(node);
    }

    /// Looks at the block of `node` anew.
    fn rescan(&mut self, node: NodeId) {
        let by_side = self.sides.as_mut().and_then(|sides| sides.of(node));
        let is_side = by_side.is_some();
        let (bests, closed) = match (by_side, &mut self.own) {
            (Some(side), _) => side,
            (None, Some((own, closed))) => (own, closed),
            (None, None) => return,
        };
        let (demand, view, domains) = (&self.index.demand, &self.subject.view, self.domains.as_ref());
        let around = self.around.as_ref();
        let lookup = Lookup { demand, table: self.table, view, closed, domains, around, by_side: is_side };
        lookup.rescan(bests, node.0 as usize / BLOCK);
        self.examined += BLOCK as u64;
    }
}
