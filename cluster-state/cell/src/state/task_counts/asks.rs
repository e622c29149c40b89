//! What a shape asks for, as counters.

use super::counter::{CounterId, CounterSpec, Whom};
use super::ground::GroundSpec;
use crate::state::shapes::{NeighboursOf, Shape};
use ohm_model::{NeighbourTerm, SpreadConstraint};

/// What a task that must be near others counts for them, as in kube-scheduler (`hardPodAffinityWeight`).
const REQUIRED_WEIGHT: i32 = 1;

/// One constraint of spread.
#[derive(Clone, Debug)]
pub(crate) struct SpreadAsk {
    pub(crate) counter: CounterId,
    pub(crate) max_skew: u32,
    pub(crate) min_domains: u32,
    /// Whether a task of the group itself is what the constraint counts.
    pub(crate) means_own: MeansOwn,
}

/// What stands under one constraint, as one node finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    /// How many domains have a node that counts.
    pub(crate) width: u32,
    /// Tasks in the node's own domain.
    pub(crate) count: u32,
    /// Tasks in the domain with the fewest; without the own one where that grows, and nothing where there is no other.
    pub(crate) fewest: Option<u32>,
    /// Whether tasks of the group are what its counter counts.
    pub(crate) is_counted: bool,
    /// Whether tasks that are placed on the node are counted in its domain.
    pub(crate) grows: bool,
}

impl SpreadAsk {
    /// How many more tasks of the group it lets onto the node, placed one after the other: where each of them counts,
    /// the domain is the one with the fewest only while it is no fuller than all others.
    pub(crate) fn room(&self, stand: Stand) -> u32 {
        let Stand { width, count, fewest, is_counted, grows } = stand;
        let fewest = match fewest {
            _ if width < self.min_domains => 0,
            Some(fewest) => fewest,
            None if grows => return u32::MAX,
            None => 0,
        };
        let left = i64::from(self.max_skew) + i64::from(fewest) - i64::from(count);
        let means_own = is_counted || self.means_own == MeansOwn::Always;
        match left {
            // Tasks that the constraint does not mean leave the domain as it is.
            _ if !means_own && left >= 0 => u32::MAX,
            ..1 => 0,
            _ if !grows => u32::MAX,
            _ => u32::try_from(left).unwrap_or(u32::MAX),
        }
    }
}

/// Whether a constraint counts the tasks of the group that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeansOwn {
    /// If its counter does.
    AsCounted,
    /// It does, although its counter counts nobody: its selector is empty.
    Always,
}

/// The counters of a shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    /// The hard constraints.
    pub(crate) spread: Vec<SpreadAsk>,
    /// One per required term: tasks that all of the terms mean.
    pub(crate) affinity: Vec<CounterId>,
    pub(crate) anti_affinity: Vec<CounterId>,
    /// One per soft constraint.
    pub(crate) soft_spread: Vec<CounterId>,
    /// One per term that is only preferred, with its weight.
    pub(crate) preferred: Vec<(i32, CounterId)>,
    /// What counts the tasks of this shape themselves, for what they ask for.
    pub(crate) carried: Vec<CounterId>,
}

impl Asks {
    /// Whether it keeps the group away from any node.
    pub(crate) fn is_hard(&self) -> bool {
        !self.spread.is_empty() || !self.affinity.is_empty() || !self.anti_affinity.is_empty()
    }

    /// Whether it makes any node better than another one.
    pub(crate) fn is_soft(&self) -> bool {
        !self.soft_spread.is_empty() || !self.preferred.is_empty()
    }

    /// Its counters; one that is asked for twice is there twice.
    pub(super) fn counters(&self) -> impl Iterator<Item = CounterId> + '_ {
        let spread = self.spread.iter().map(|ask| ask.counter);
        let preferred = self.preferred.iter().map(|(_, counter)| *counter);
        let others = [&self.affinity, &self.anti_affinity, &self.soft_spread, &self.carried];
        spread.chain(preferred).chain(others.into_iter().flatten().copied())
    }

    /// What `shape` asks for, with `join` making a counter, or finding it.
    pub(super) fn of(shape: &Shape, mut join: impl FnMut(CounterSpec) -> CounterId) -> Self {
        let Some(asked) = &shape.neighbours else { return Asks::default() };
        let NeighboursOf { namespace, asked } = &**asked;
        let mut asks = Asks::default();
        for constraint in asked.hard_spread() {
            asks.spread.push(SpreadAsk {
                counter: join(spread(shape, namespace, asked.hard_spread(), constraint)),
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
                means_own: match constraint.selector.as_deref() {
                    Some([]) => MeansOwn::Always,
                    _ => MeansOwn::AsCounted,
                },
            });
        }
        for term in &asked.affinity {
            let whom = Whom::Meant(asked.affinity.iter().map(anywhere).collect());
            asks.affinity.push(join(CounterSpec { ground: under(&term.topology_key), whom }));
            asks.carried.push(join(liking(REQUIRED_WEIGHT, term)));
        }
        for term in &asked.anti_affinity {
            let ground = || under(&term.topology_key);
            asks.anti_affinity.push(join(CounterSpec { ground: ground(), whom: Whom::Meant(vec![anywhere(term)]) }));
            asks.carried.push(join(CounterSpec { ground: ground(), whom: Whom::Repelling(anywhere(term)) }));
        }
        for constraint in asked.soft_spread() {
            asks.soft_spread.push(join(spread(shape, namespace, asked.soft_spread(), constraint)));
        }
        for (weight, term) in &asked.preferred {
            let (ground, whom) = (under(&term.topology_key), Whom::Meant(vec![anywhere(term)]));
            asks.preferred.push((*weight, join(CounterSpec { ground, whom })));
            asks.carried.push(join(liking(*weight, term)));
        }
        asks
    }
}

/// The term without its label: who it means is the same under each.
fn anywhere(term: &NeighbourTerm) -> NeighbourTerm {
    NeighbourTerm { topology_key: String::new(), ..term.clone() }
}

/// Counts those that like to be near whom the term means.
fn liking(weight: i32, term: &NeighbourTerm) -> CounterSpec {
    CounterSpec { ground: under(&term.topology_key), whom: Whom::Liking(weight, anywhere(term)) }
}

/// All nodes with this label.
fn under(key: &str) -> GroundSpec {
    GroundSpec { key: key.to_string(), ..GroundSpec::default() }
}

/// A node that lacks the label of any of the constraints `all`, hard or soft as this one, counts for none of them.
fn spread<'s>(
    shape: &Shape,
    namespace: &str,
    all: impl Iterator<Item = &'s SpreadConstraint>,
    constraint: &SpreadConstraint,
) -> CounterSpec {
    let mut keys: Vec<String> = all.map(|other| other.topology_key.clone()).collect();
    keys.sort();
    keys.dedup();
    let admitted = || (shape.node_selector.clone(), shape.affinity.clone());
    let ground = GroundSpec {
        key: constraint.topology_key.clone(),
        keys,
        admitted: constraint
            .honours_affinity
            .then(admitted)
            .filter(|(labels, terms)| !labels.is_empty() || !terms.is_empty()),
        tolerated: constraint.honours_taints.then(|| shape.tolerations.clone()),
    };
    CounterSpec { ground, whom: Whom::Spread(namespace.to_string(), constraint.selector.clone()) }
}
