//! Where is counted: a node label, whose values are the domains, and which nodes count.

use crate::state::nodes::{CORDONED, Nodes};
use ohm_model::selector::Labels;
use ohm_model::{ClassId, Incarnation, NodeHealth, NodeId, NodeSpec, SelectorTerm, Taint, TaintEffect, Toleration};
use std::collections::BTreeMap;

/// The number of a ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroundId(pub(super) u32);

/// The domain of a node without the label.
pub(crate) const NO_DOMAIN: u32 = u32::MAX;

/// Which nodes count, under which label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroundSpec {
    /// The node label.
    pub(super) key: String,
    /// Labels that must be there, too.
    pub(super) keys: Vec<String>,
    /// Selector and affinity that must admit the node.
    pub(super) admitted: Option<(Labels, Vec<SelectorTerm>)>,
    /// Tolerations that its taints must be covered by.
    pub(super) tolerated: Option<Vec<Toleration>>,
}

/// What decides the domains of a node, and whether it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    incarnation: Incarnation,
    class: ClassId,
    is_cordoned: bool,
}

impl Identity {
    /// Nothing of a node that is gone or lost: it is in no domain.
    pub(super) fn of(nodes: &Nodes, node: NodeId) -> Option<Self> {
        let record = nodes.get(node).filter(|record| record.health != NodeHealth::Lost)?;
        let is_cordoned = nodes.flags(node) & CORDONED != 0;
        Some(Identity { incarnation: record.incarnation, class: nodes.class(node), is_cordoned })
    }
}

/// The domains of all nodes under one label.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(super) spec: GroundSpec,
    pub(super) users: u32,
    /// By value of the label. Numbers are never used again.
    domains: BTreeMap<String, u32>,
    /// By slot, `NO_DOMAIN` without the label; and whether the node counts.
    of_node: Vec<(u32, bool)>,
    /// Of each domain with nodes that count: how many.
    counting: BTreeMap<u32, u32>,
    /// By domain: how many nodes have it, whether they count or not.
    nodes_in: Vec<u32>,
}

impl Ground {
    pub(super) fn new(spec: GroundSpec) -> Self {
        Ground {
            spec,
            users: 0,
            domains: BTreeMap::new(),
            of_node: Vec::new(),
            counting: BTreeMap::new(),
            nodes_in: Vec::new(),
        }
    }

    /// The node label.
    pub(crate) fn key(&self) -> &str {
        &self.spec.key
    }

    /// The domain of `node`, whether it counts or not.
    #[inline]
    pub(crate) fn domain(&self, node: NodeId) -> Option<u32> {
        self.of_node.get(node.0 as usize).map(|(domain, _)| *domain).filter(|domain| *domain != NO_DOMAIN)
    }

    /// The domain in which tasks on `node` are counted.
    #[inline]
    pub(crate) fn counted_domain(&self, node: NodeId) -> Option<u32> {
        let (domain, counts) = self.of_node.get(node.0 as usize)?;
        (*counts && *domain != NO_DOMAIN).then_some(*domain)
    }

    /// How many domains have a node that counts.
    pub(crate) fn width(&self) -> u32 {
        self.counting.len() as u32
    }

    /// The domains with nodes that count.
    pub(crate) fn counting(&self) -> impl Iterator<Item = u32> + '_ {
        self.counting.keys().copied()
    }

    /// Whether the domain is a single node's for certain.
    pub(crate) fn is_of_one_node(&self, domain: u32) -> bool {
        self.nodes_in.get(domain as usize) == Some(&1)
    }

    /// Whether some domain has more than one node.
    pub(crate) fn is_wide(&self) -> bool {
        self.nodes_in.iter().any(|nodes| *nodes > 1)
    }

    /// What tells nodes apart here: in which domain each is, and whether it counts.
    pub(crate) fn mark(&self, node: NodeId) -> u64 {
        self.domain(node)
            .map_or(0, |domain| (u64::from(domain) + 1) << 1 | u64::from(self.counted_domain(node).is_some()))
    }

    /// One past the highest number of a domain.
    pub(crate) fn slots(&self) -> usize {
        self.domains.len()
    }

    /// The value of the label that gave the domain its number.
    pub(super) fn value(&self, domain: u32) -> Option<&str> {
        self.domains.iter().find(|(_, known)| **known == domain).map(|(value, _)| value.as_str())
    }

    /// Each domain with nodes that count, by the value of its label.
    pub(super) fn by_value(&self) -> BTreeMap<&str, u32> {
        let domains = self.domains.iter();
        domains.filter_map(|(value, domain)| Some((value.as_str(), *self.counting.get(domain)?))).collect()
    }

    /// Looks at `node` anew. Says in which domains its tasks were counted and are counted, where that differs.
    pub(super) fn look_at(&mut self, nodes: &Nodes, node: NodeId) -> Option<(Option<u32>, Option<u32>)> {
        let former = self.counted_domain(node);
        let found = Identity::of(nodes, node).and_then(|_| self.find(nodes, node)).unwrap_or((NO_DOMAIN, false));
        let slot = node.0 as usize;
        if self.of_node.len() <= slot {
            self.of_node.resize(slot + 1, (NO_DOMAIN, false));
        }
        let (left, reached) = (self.of_node[slot].0, found.0);
        self.of_node[slot] = found;
        self.nodes_in.resize(self.domains.len(), 0);
        if left != NO_DOMAIN {
            self.nodes_in[left as usize] -= 1;
        }
        if reached != NO_DOMAIN {
            self.nodes_in[reached as usize] += 1;
        }
        let now = self.counted_domain(node);
        if former == now {
            return None;
        }
        if let Some(domain) = now {
            *self.counting.entry(domain).or_insert(0) += 1;
        }
        if let Some(domain) = former
            && let Some(left) = self.counting.get_mut(&domain)
        {
            *left -= 1;
            if *left == 0 {
                self.counting.remove(&domain);
            }
        }
        Some((former, now))
    }

    fn find(&mut self, nodes: &Nodes, node: NodeId) -> Option<(u32, bool)> {
        let record = nodes.get(node)?;
        let value = record.spec.labels.get(&self.spec.key)?;
        let next = self.domains.len() as u32;
        let domain = match self.domains.get(value) {
            Some(&domain) => domain,
            None => *self.domains.entry(value.clone()).or_insert(next),
        };
        let is_cordoned = nodes.flags(node) & CORDONED != 0;
        Some((domain, self.spec.counts(&record.spec, &record.taints, is_cordoned)))
    }
}

impl GroundSpec {
    fn counts(&self, node: &NodeSpec, taints: &[Taint], is_cordoned: bool) -> bool {
        let is_admitted = |(selector, affinity): &(Labels, Vec<SelectorTerm>)| {
            selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
                && (affinity.is_empty() || affinity.iter().any(|term| term.matches(&node.name, &node.labels)))
        };
        let is_tolerated = |tolerations: &Vec<Toleration>| {
            let covered = |taint: &Taint| tolerations.iter().any(|toleration| toleration.covers(taint));
            let mut hard = taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
            hard.all(covered) && (!is_cordoned || covered(&unschedulable()))
        };
        self.keys.iter().all(|key| node.labels.contains_key(key))
            && self.admitted.as_ref().is_none_or(is_admitted)
            && self.tolerated.as_ref().is_none_or(is_tolerated)
    }
}

/// The taint that a cordoned node has in Kubernetes.
fn unschedulable() -> Taint {
    let key = "node.kubernetes.io/unschedulable".to_string();
    Taint { key, value: String::new(), effect: TaintEffect::NoSchedule }
}
