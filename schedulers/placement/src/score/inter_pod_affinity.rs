//! What the tasks around a group make of nodes: InterPodAffinity, and PodTopologySpread as far as the group names soft
//! constraints. [`Preferences`] counts both for a search.

use super::costs::{Costs, Lost};
use crate::subject::Subject;
use ohm_cell::{Change, Lack, Preferences};
use ohm_model::{NodeId, SpreadMode};
use std::collections::BTreeMap;

/// How much tasks of the group on the same node count, for a group that spreads: less than anything it prefers.
const OWN_WEIGHT: u32 = 1;

/// What the group prefers of the tasks around it, and they of it.
#[derive(Debug)]
pub(super) struct Around<'a> {
    preferences: Preferences<'a>,
    affinity_weight: u32,
    spread_weight: u32,
    /// Tasks of the group by node, where it spreads.
    own: Option<Own>,
}

#[derive(Debug, Default)]
struct Own {
    tasks: BTreeMap<NodeId, u64>,
    /// At least as many as on any node; a power of two, so that it changes seldom.
    whole: u64,
}

impl<'a> Around<'a> {
    /// Nothing where all nodes are alike, or the profile counts none of it.
    pub(super) fn new(costs: &Costs, subject: &Subject<'a>) -> Option<Self> {
        let scoring = costs.scoring();
        let (affinity_weight, spread_weight) = (scoring.affinity, scoring.asked_spread);
        if affinity_weight == 0 && spread_weight == 0 {
            return None;
        }
        let preferences = subject.preferences()?;
        let own = (subject.spec.spread == SpreadMode::Spread).then(|| {
            let mut own = Own { tasks: BTreeMap::new(), whole: 1 };
            for (node, tasks) in subject.standing() {
                own.note(node, tasks);
            }
            own
        });
        Some(Around { preferences, affinity_weight, spread_weight, own })
    }

    /// Takes note of tasks that `node` was given. Says which nodes may have become better.
    pub(super) fn note(&mut self, node: NodeId, tasks: u32) -> Change {
        let grown = self.own.as_mut().is_some_and(|own| own.note(node, tasks));
        let better = self.preferences.give(node, tasks);
        Change { nodes: better.nodes || grown, ..better }
    }

    /// Whether tasks that are given away change what is best.
    pub(super) fn moves(&self) -> bool {
        self.own.is_some() || self.preferences.moves()
    }

    /// Whether they change what domains of several nodes cost.
    pub(super) fn moves_sides(&self) -> bool {
        self.preferences.moves_sides()
    }

    /// Adds what tells nodes apart whose domains have others as well.
    pub(super) fn side(&self, node: NodeId, side: &mut Vec<u64>) {
        self.preferences.side(node, side);
    }

    /// What `node` loses, by weight, because of domains that have several nodes, or of the others.
    #[inline]
    pub(super) fn lost(&self, node: NodeId, of_wide: bool) -> impl Iterator<Item = (u32, Lost)> + use<> {
        let lost = |Lack { parts, of }| Lost { parts, of };
        let own = self.own.as_ref().filter(|_| !of_wide).map(|own| (OWN_WEIGHT, own.lost(node)));
        let affinity = (self.affinity_weight, lost(self.preferences.affinity(node, of_wide)));
        let spread = (self.spread_weight, lost(self.preferences.spread(node, of_wide)));
        [affinity, spread].into_iter().chain(own)
    }
}

impl Own {
    fn note(&mut self, node: NodeId, tasks: u32) -> bool {
        let standing = self.tasks.entry(node).or_insert(0);
        *standing += u64::from(tasks);
        let grows = *standing > self.whole;
        if grows {
            self.whole = standing.next_power_of_two();
        }
        grows
    }

    fn lost(&self, node: NodeId) -> Lost {
        Lost { parts: self.tasks.get(&node).copied().unwrap_or(0), of: self.whole }
    }
}
