//! What a group asks of the tasks around it, in Kubernetes' words: pod affinity and anti-affinity, and spread over the
//! domains of a node label.

use crate::names::NAMESPACE_DEFAULT;
use crate::namespace::Namespace;
use crate::selector::{Labels, Requirement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The label that each namespace has by itself: its name.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Most terms and constraints of a group, of all kinds together.
pub const NEIGHBOUR_TERMS_MAX: usize = 64;

/// What a group asks of the tasks around it. Nothing at all is said as `None` in [`crate::GroupSpec`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Neighbours {
    /// How its tasks are spread (`topologySpreadConstraints`).
    pub spread: Vec<SpreadConstraint>,
    /// Each must hold: a task that all of them mean runs in the same domain (required `podAffinity`).
    pub affinity: Vec<NeighbourTerm>,
    /// None may hold: no task that one of them means runs in the same domain (required `podAntiAffinity`).
    pub anti_affinity: Vec<NeighbourTerm>,
    /// What is liked, by a weight of 1 to 100; below zero what is not (preferred `podAffinity` and `podAntiAffinity`).
    pub preferred: Vec<(i32, NeighbourTerm)>,
}

impl Neighbours {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.spread.is_empty() && self.bears_on_nothing_else() && self.preferred.is_empty()
    }

    fn bears_on_nothing_else(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty()
    }

    /// Whether it keeps the group away from nodes, rather than only making some of them better.
    pub fn is_hard(&self) -> bool {
        !self.bears_on_nothing_else() || self.hard_spread().next().is_some()
    }

    /// The constraints that must hold.
    pub fn hard_spread(&self) -> impl Iterator<Item = &SpreadConstraint> {
        self.spread.iter().filter(|constraint| constraint.is_hard)
    }

    /// The constraints that only make nodes better or worse.
    pub fn soft_spread(&self) -> impl Iterator<Item = &SpreadConstraint> {
        self.spread.iter().filter(|constraint| !constraint.is_hard)
    }

    /// Whether something that must hold means tasks with these labels, which are those of the group itself. In which
    /// namespace they are is not looked at.
    pub fn is_about_own(&self, labels: &Labels) -> bool {
        let terms = self.affinity.iter().chain(&self.anti_affinity).map(|term| &term.selector);
        let mut selectors = terms.chain(self.hard_spread().map(|constraint| &constraint.selector));
        selectors.any(|selector| selects(selector, labels))
    }

    /// Every term, whatever it says, with those of spread left out.
    pub fn terms(&self) -> impl Iterator<Item = &NeighbourTerm> {
        let preferred = self.preferred.iter().map(|(_, term)| term);
        self.affinity.iter().chain(&self.anti_affinity).chain(preferred)
    }

    /// The same with the own namespace named where a term names none.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let mut named = self.clone();
        let preferred = named.preferred.iter_mut().map(|(_, term)| term);
        for term in named.affinity.iter_mut().chain(&mut named.anti_affinity).chain(preferred) {
            if term.namespaces.is_empty() && term.namespace_selector.is_none() {
                term.namespaces.insert(namespace.to_string());
            }
        }
        named
    }
}

/// Some tasks, and the node label whose domains they are looked for in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NeighbourTerm {
    /// Which labels the tasks have; nothing means no task, an empty list every task.
    pub selector: Option<Vec<Requirement>>,
    /// In which namespaces they are; with no selector of namespaces, none means the own one.
    pub namespaces: BTreeSet<String>,
    /// In which namespaces they are, too: those with such labels.
    pub namespace_selector: Option<Vec<Requirement>>,
    /// The node label: nodes with the same value are one domain.
    pub topology_key: String,
}

impl NeighbourTerm {
    /// Whether tasks with these labels are meant, of a namespace that is meant.
    pub fn selects(&self, labels: &Labels) -> bool {
        selects(&self.selector, labels)
    }

    /// Whether the tasks of `namespace` are meant. Its own name must be among the names by now; see
    /// [`Neighbours::in_namespace`].
    pub fn is_about(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains(&namespace.name)
            || self.namespace_selector.as_ref().is_some_and(|requirements| {
                let mut labels = namespace.labels.clone();
                labels.insert(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
                requirements.iter().all(|requirement| requirement.matches(&labels))
            })
    }
}

/// Whether `selector` means what has these labels: nothing selects nothing.
pub fn selects(selector: &Option<Vec<Requirement>>, labels: &Labels) -> bool {
    selector.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
}

/// How evenly tasks stand in the domains of a node label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpreadConstraint {
    /// The node label: nodes with the same value are one domain.
    pub topology_key: String,
    /// How many more tasks a domain may have than the one with the fewest.
    pub max_skew: u32,
    /// Whether it must hold (`DoNotSchedule`) or only counts in the score (`ScheduleAnyway`).
    pub is_hard: bool,
    /// Which tasks of the own namespace are counted; nothing means no task.
    pub selector: Option<Vec<Requirement>>,
    /// With fewer domains than this the fewest tasks of a domain are taken for none.
    pub min_domains: u32,
    /// Whether only nodes count that the group's node selector and affinity admit (`nodeAffinityPolicy: Honor`).
    pub honours_affinity: bool,
    /// Whether only nodes count whose taints the group tolerates (`nodeTaintsPolicy: Honor`).
    pub honours_taints: bool,
}

impl SpreadConstraint {
    /// A hard constraint as Kubernetes fills it in.
    pub fn hard(topology_key: impl Into<String>, max_skew: u32, selector: Vec<Requirement>) -> Self {
        SpreadConstraint {
            topology_key: topology_key.into(),
            max_skew,
            is_hard: true,
            selector: Some(selector),
            min_domains: 1,
            honours_affinity: true,
            honours_taints: false,
        }
    }
}

/// The namespace called `name` where nothing more is known of it.
pub fn bare_namespace(name: &str) -> Namespace {
    Namespace { name: if name.is_empty() { NAMESPACE_DEFAULT } else { name }.into(), labels: Labels::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::Operator;

    fn requirement(key: &str, value: &str) -> Requirement {
        Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
    }

    #[test]
    fn a_term_without_namespaces_means_its_own() {
        let term = NeighbourTerm { selector: Some(Vec::new()), ..NeighbourTerm::default() };
        let neighbours = Neighbours { affinity: vec![term], ..Neighbours::default() }.in_namespace("team-a");
        assert!(neighbours.affinity[0].is_about(&bare_namespace("team-a")));
        assert!(!neighbours.affinity[0].is_about(&bare_namespace("team-b")));
    }

    #[test]
    fn an_empty_selector_of_namespaces_means_all_of_them() {
        let term = NeighbourTerm { namespace_selector: Some(Vec::new()), ..NeighbourTerm::default() };
        assert!(term.is_about(&bare_namespace("team-b")));
        let named = vec![requirement(NAMESPACE_NAME_LABEL, "team-a")];
        let term = NeighbourTerm { namespace_selector: Some(named), ..NeighbourTerm::default() };
        assert!(term.is_about(&bare_namespace("team-a")) && !term.is_about(&bare_namespace("team-b")));
    }

    #[test]
    fn no_selector_selects_nothing_and_an_empty_one_all() {
        assert!(!selects(&None, &Labels::new()) && selects(&Some(Vec::new()), &Labels::new()));
    }
}
