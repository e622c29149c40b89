//! The tasks around a group, counted for one search: what the rules about other tasks say of each node while the search
//! gives tasks of the group away one after the other. The rules themselves are in `rules/pod_*.rs`; this is the form in
//! which planners ask them of all nodes, and tests prove that the two agree.

use crate::rooms::room::Asker;
use crate::rooms::what_if::WhatIf;
use crate::state::task_counts::asks::{SpreadAsk, Stand};
use crate::state::task_counts::counter::CounterId;
use crate::state::task_counts::counts::Neighbourhood;
use crate::state::task_counts::ground::Ground;
use ohm_model::NodeId;
use std::collections::BTreeMap;

/// The tasks around a group.
#[derive(Debug)]
pub struct Surroundings<'a> {
    terms: Vec<Term<'a>>,
    /// Whether no task that the group must be near is anywhere, and its own would be.
    is_first: bool,
}

/// What a change of the counts bears on, as the one who counted says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Domains of several nodes, which are the same to a rule as a whole ([`Surroundings::side`]).
    pub sides: bool,
    /// The node that was given tasks.
    pub node: bool,
    /// Any node by itself.
    pub nodes: bool,
}

/// One counter, as one rule asks it.
#[derive(Debug)]
struct Term<'a> {
    ground: &'a Ground,
    kind: Kind<'a>,
    /// Whether tasks of the group are counted.
    moves: bool,
    /// Whether domains have several nodes.
    is_wide: bool,
    /// Tasks by domain.
    counts: Vec<u32>,
}

#[derive(Debug)]
enum Kind<'a> {
    /// There must be tasks.
    Near,
    /// There must be none; `alone` where tasks of the group keep each other away.
    Far { alone: bool },
    /// There may be so many more than in the domain with the fewest.
    Spread {
        ask: &'a SpreadAsk,
        /// How many domains have so many tasks; those without a node that counts are left out.
        levels: BTreeMap<u32, u32>,
    },
}

impl<'a> Asker<'a> {
    /// The tasks around the group; nothing where they keep it away from no node.
    pub fn surroundings(&self, what: WhatIf<'a>) -> Option<Surroundings<'a>> {
        let near = what.cell.task_counts.of(self.shape_id, self.job.id, self.group)?;
        let mut terms = Vec::new();
        let asks = near.asks;
        let carried = |id: &CounterId| asks.is_some_and(|asks| asks.carried.contains(id));
        for id in asks.into_iter().flat_map(|asks| &asks.affinity) {
            terms.extend(Term::new(&near, what, *id, Kind::Near, near.counts_own(*id)));
        }
        for id in asks.into_iter().flat_map(|asks| &asks.anti_affinity) {
            let own = near.counts_own(*id);
            terms.extend(Term::new(&near, what, *id, Kind::Far { alone: own }, own));
        }
        for id in &near.marks.repelled {
            terms.extend(Term::new(&near, what, *id, Kind::Far { alone: false }, carried(id)));
        }
        for ask in asks.into_iter().flat_map(|asks| &asks.spread) {
            let counted = near.counts_own(ask.counter);
            let kind = Kind::Spread { ask, levels: BTreeMap::new() };
            terms.extend(Term::new(&near, what, ask.counter, kind, counted));
        }
        let is_near = |term: &&Term<'_>| matches!(term.kind, Kind::Near);
        let first = |term: &Term<'_>| term.moves && term.counts.iter().all(|count| *count == 0);
        let is_first = terms.iter().filter(is_near).all(first);
        Some(Surroundings { terms, is_first })
    }
}

impl Surroundings<'_> {
    /// How many of `most` tasks of the group may stand on `node` beside those that stand around it.
    #[inline]
    pub fn room(&self, node: NodeId, most: u32) -> u32 {
        let mut room = most;
        for term in &self.terms {
            room = room.min(term.room(node, self.is_first));
            if room == 0 {
                break;
            }
        }
        room
    }

    /// The same, whatever its domains say that have others as well.
    #[inline]
    pub fn room_by_itself(&self, node: NodeId, most: u32) -> u32 {
        let terms = self.terms.iter().filter(|term| !term.is_wide);
        terms.fold(most, |room, term| if room == 0 { 0 } else { room.min(term.room(node, self.is_first)) })
    }

    /// Adds what tells nodes apart whose domains have others as well: nodes with the same are the same to these rules.
    pub fn side(&self, node: NodeId, side: &mut Vec<u64>) {
        side.extend(self.terms.iter().filter(|term| term.is_wide).map(|term| term.ground.mark(node)));
    }

    /// Whether the domains of `node` that have others as well take a task.
    #[inline]
    pub fn is_side_open(&self, node: NodeId) -> bool {
        self.terms.iter().filter(|term| term.is_wide).all(|term| term.room(node, self.is_first) > 0)
    }

    /// Takes note of `tasks` that the group was given on `node`. Says for which nodes [`Surroundings::room`] may answer
    /// otherwise.
    pub fn give(&mut self, node: NodeId, tasks: u32) -> Change {
        let mut change = Change::default();
        for term in self.terms.iter_mut().filter(|term| term.moves) {
            if let Some(domain) = term.ground.counted_domain(node) {
                let moves_others = term.add(domain, tasks);
                change.sides |= term.is_wide;
                change.node |= !term.is_wide;
                change.nodes |= !term.is_wide && (moves_others || !term.ground.is_of_one_node(domain));
            }
        }
        if std::mem::take(&mut self.is_first) {
            let near = |is_wide| {
                let mut near = self.terms.iter().filter(|term| matches!(term.kind, Kind::Near));
                near.any(|term| term.is_wide == is_wide)
            };
            (change.sides, change.nodes) = (change.sides || near(true), change.nodes || near(false));
        }
        change
    }
}

impl<'a> Term<'a> {
    fn new(near: &Neighbourhood<'a>, what: WhatIf<'a>, id: CounterId, kind: Kind<'a>, moves: bool) -> Option<Self> {
        let ground = near.ground_of(id)?;
        let counts = near.counts(what, id)?;
        let mut term = Term { ground, kind, moves, is_wide: ground.is_wide(), counts };
        if let Kind::Spread { levels, .. } = &mut term.kind {
            for domain in ground.counting() {
                *levels.entry(term.counts[domain as usize]).or_insert(0) += 1;
            }
        }
        Some(term)
    }

    fn room(&self, node: NodeId, is_first: bool) -> u32 {
        let domain = self.ground.domain(node);
        let count = domain.map_or(0, |domain| self.counts[domain as usize]);
        match &self.kind {
            Kind::Near if domain.is_some() && (count > 0 || is_first) => u32::MAX,
            Kind::Near => 0,
            Kind::Far { .. } if count > 0 => 0,
            Kind::Far { alone } => {
                if *alone && domain.is_some() {
                    1
                } else {
                    u32::MAX
                }
            }
            Kind::Spread { .. } if domain.is_none() => 0,
            Kind::Spread { ask, levels } => {
                let grows = self.moves && self.ground.counted_domain(node).is_some();
                let own = |level: &u32| u32::from(grows && *level == count);
                let fewest = levels.iter().find(|(level, domains)| **domains > own(level)).map(|(level, _)| *level);
                ask.room(Stand { width: self.ground.width(), count, fewest, is_counted: self.moves, grows })
            }
        }
    }

    /// Counts more tasks in a domain; true if that changes what other domains may have.
    fn add(&mut self, domain: u32, tasks: u32) -> bool {
        let before = self.counts[domain as usize];
        let after = before.saturating_add(tasks);
        self.counts[domain as usize] = after;
        let Kind::Spread { levels, .. } = &mut self.kind else { return false };
        let lowest = |levels: &BTreeMap<u32, u32>| levels.iter().next().map(|(level, domains)| (*level, *domains == 1));
        let former = lowest(levels);
        if let Some(domains) = levels.get_mut(&before) {
            *domains -= 1;
            if *domains == 0 {
                levels.remove(&before);
            }
        }
        *levels.entry(after).or_insert(0) += 1;
        lowest(levels) != former
    }
}
