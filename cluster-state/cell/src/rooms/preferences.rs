//! What the tasks around a group make of nodes that it may have, counted for one search: soft constraints of spread,
//! preferred pod affinity and anti-affinity, and what tasks that stand prefer of the group (kube-scheduler:
//! PodTopologySpread and InterPodAffinity). Nothing of it is judged.

use crate::rooms::room::Asker;
use crate::rooms::surroundings::Change;
use crate::rooms::what_if::WhatIf;
use crate::state::task_counts::counter::CounterId;
use crate::state::task_counts::counts::Neighbourhood;
use crate::state::task_counts::ground::Ground;
use ohm_model::NodeId;

/// A weight of 1 among constraints of spread.
const SPREAD_UNIT: u64 = 256;

/// What the tasks around a group make of nodes.
#[derive(Debug)]
pub struct Preferences<'a> {
    affinity: Terms<'a>,
    spread: Terms<'a>,
}

/// What a node lacks of the best one, as a part of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The part. It is more than the whole where a node has none of the labels.
    pub parts: u64,
    /// The whole, at least 1. It only grows, and twofold, while the search gives tasks away.
    pub of: u64,
}

/// Terms that are weighed against each other.
#[derive(Debug)]
struct Terms<'a> {
    terms: Vec<Term<'a>>,
    /// What the worst node can lack that has all labels.
    whole: u64,
}

/// One counter.
#[derive(Debug)]
struct Term<'a> {
    ground: &'a Ground,
    kind: Kind,
    /// What one task counts.
    weight: u64,
    /// Whether tasks of the group are counted.
    moves: bool,
    /// Whether domains have several nodes.
    is_wide: bool,
    /// Tasks by domain.
    counts: Vec<u32>,
    /// Tasks in the domain with the most.
    most: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Many tasks are good.
    Near,
    /// Few are.
    Far,
    /// Few are, and a node outside all domains is as bad as can be.
    Spread,
}

impl<'a> Asker<'a> {
    /// What the tasks around the group make of nodes; nothing where all are alike.
    pub fn preferences(&self, what: WhatIf<'a>) -> Option<Preferences<'a>> {
        let near = what.cell.task_counts.preferred_by(self.shape_id, self.job.id, self.group)?;
        let (mut affinity, mut spread) = (Vec::new(), Vec::new());
        let kind = |weight: i32| if weight < 0 { Kind::Far } else { Kind::Near };
        for (weight, id) in near.asks.into_iter().flat_map(|asks| &asks.preferred) {
            let weighed = (kind(*weight), u64::from(weight.unsigned_abs()));
            affinity.extend(Term::new(&near, what, *id, weighed, near.counts_own(*id)));
        }
        for (id, weight) in &near.marks.liked {
            let weighed = (kind(*weight), u64::from(weight.unsigned_abs()));
            let carried = near.asks.is_some_and(|asks| asks.carried.contains(id));
            affinity.extend(Term::new(&near, what, *id, weighed, carried));
        }
        for id in near.asks.into_iter().flat_map(|asks| &asks.soft_spread) {
            let width = near.ground_of(*id).map_or(0, Ground::width);
            spread.extend(Term::new(&near, what, *id, (Kind::Spread, spread_weight(width)), near.counts_own(*id)));
        }
        Some(Preferences { affinity: Terms::new(affinity), spread: Terms::new(spread) })
    }
}

impl Preferences<'_> {
    /// What `node` lacks of affinity: because of domains that have several nodes, or of those that have one.
    #[inline]
    pub fn affinity(&self, node: NodeId, of_wide: bool) -> Lack {
        self.affinity.lack(node, of_wide)
    }

    /// What `node` lacks of an even spread: because of domains that have several nodes, or of those that have one.
    #[inline]
    pub fn spread(&self, node: NodeId, of_wide: bool) -> Lack {
        self.spread.lack(node, of_wide)
    }

    /// Adds what tells nodes apart whose domains have others as well: nodes with the same lack the same for them.
    pub fn side(&self, node: NodeId, side: &mut Vec<u64>) {
        side.extend(self.terms().filter(|term| term.is_wide).map(|term| term.ground.mark(node)));
    }

    /// Whether tasks that are given away change what nodes lack.
    pub fn moves(&self) -> bool {
        self.terms().any(|term| term.moves)
    }

    /// Whether they change what domains of several nodes lack.
    pub fn moves_sides(&self) -> bool {
        self.terms().any(|term| term.moves && term.is_wide)
    }

    fn terms(&self) -> impl Iterator<Item = &Term<'_>> {
        self.affinity.terms.iter().chain(&self.spread.terms)
    }

    /// Takes note of `tasks` that the group was given on `node`. Says which nodes may lack less than before.
    pub fn give(&mut self, node: NodeId, tasks: u32) -> Change {
        let (affinity, spread) = (self.affinity.give(node, tasks), self.spread.give(node, tasks));
        Change { sides: affinity.sides || spread.sides, node: false, nodes: affinity.nodes || spread.nodes }
    }
}

impl<'a> Terms<'a> {
    fn new(terms: Vec<Term<'a>>) -> Self {
        let mut all = Terms { terms, whole: 1 };
        all.measure();
        all
    }

    /// The whole, as a power of two: what grows a little changes nothing of what others lack.
    fn measure(&mut self) {
        let sum = self.terms.iter().fold(0u64, |sum, term| sum.saturating_add(term.weight * u64::from(term.most)));
        self.whole = sum.max(1).checked_next_power_of_two().unwrap_or(u64::MAX);
    }

    fn lack(&self, node: NodeId, of_wide: bool) -> Lack {
        let terms = self.terms.iter().filter(|term| term.is_wide == of_wide);
        let parts = terms.map(|term| term.parts(node, self.whole)).fold(0u64, u64::saturating_add);
        Lack { parts, of: self.whole }
    }

    fn give(&mut self, node: NodeId, tasks: u32) -> Change {
        let mut nearer = Change::default();
        for term in self.terms.iter_mut().filter(|term| term.moves) {
            if let Some(domain) = term.ground.counted_domain(node) {
                let count = &mut term.counts[domain as usize];
                // The domain with the most lacks nothing before and after; one with fewer comes nearer to it.
                let comes_nearer = term.kind == Kind::Near && *count < term.most;
                nearer.sides |= comes_nearer && term.is_wide;
                nearer.nodes |= comes_nearer && !term.is_wide;
                *count = count.saturating_add(tasks);
                term.most = term.most.max(*count);
            }
        }
        let former = self.whole;
        self.measure();
        let grows = self.whole != former;
        Change { sides: nearer.sides || grows, nodes: nearer.nodes || grows, ..nearer }
    }
}

impl<'a> Term<'a> {
    fn new(
        near: &Neighbourhood<'a>,
        what: WhatIf<'a>,
        id: CounterId,
        (kind, weight): (Kind, u64),
        moves: bool,
    ) -> Option<Self> {
        let ground = near.ground_of(id)?;
        let counts = near.counts(what, id)?;
        let most = counts.iter().copied().max().unwrap_or(0);
        Some(Term { ground, kind, weight, moves, is_wide: ground.is_wide(), counts, most })
    }

    fn parts(&self, node: NodeId, whole: u64) -> u64 {
        let domain = self.ground.domain(node);
        let count = domain.map_or(0, |domain| self.counts[domain as usize]);
        match self.kind {
            Kind::Near => self.weight * u64::from(self.most - count),
            Kind::Spread if domain.is_none() => whole,
            Kind::Far | Kind::Spread => self.weight * u64::from(count),
        }
    }
}

/// What one task counts among `width` domains: more where there are many, as tasks are fewer in each. This is the
/// logarithm that kube-scheduler takes, of `width + 2`, here to base 2 and in steps of a straight line.
fn spread_weight(width: u32) -> u64 {
    let of = u64::from(width) + 2;
    let whole = of.ilog2();
    u64::from(whole) * SPREAD_UNIT + ((of * SPREAD_UNIT) >> whole) - SPREAD_UNIT
}
