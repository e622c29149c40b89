//! Topologies: trees of domains over node labels, and where each node hangs in them.

use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::Labels;
use ohm_model::{DomainId, NodeId, TopologySpec};
use ohm_stdx::Chunked;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No domain: the node lacks a level's label.
pub const NO_DOMAIN: DomainId = DomainId(u32::MAX);

/// One tree node above the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Its level, from 0 at the top.
    pub level: u8,
    /// The domain above; `NO_DOMAIN` at the top.
    pub parent: DomainId,
    /// The label value.
    pub value: String,
    /// How many nodes are below.
    pub nodes: u32,
}

/// A topology and its domains. Where the last level is the host name, that level's domains are the nodes themselves and
/// are not stored: `stored_levels` is one less than the number of levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Name and levels.
    pub spec: TopologySpec,
    /// Domains by number; numbers of emptied domains are not used again. Written apart.
    #[serde(skip)]
    pub domains: Vec<Domain>,
    /// Derived from `domains`.
    #[serde(skip)]
    by_value: BTreeMap<(DomainId, String), DomainId>,
    ordinals: Vec<Chunked<DomainId>>,
}

impl Topology {
    pub(crate) fn new(spec: TopologySpec) -> Self {
        let stored = spec.levels.len() - usize::from(spec.levels.last().is_some_and(|level| level == HOSTNAME_LABEL));
        Topology { spec, domains: Vec::new(), by_value: BTreeMap::new(), ordinals: vec![Chunked::default(); stored] }
    }

    /// The topology with its domains, which are written apart.
    pub(crate) fn with_domains(mut self, domains: Vec<Domain>) -> Self {
        let key = |(number, domain): (usize, &Domain)| ((domain.parent, domain.value.clone()), DomainId(number as u32));
        self.by_value = domains.iter().enumerate().map(key).collect();
        self.domains = domains;
        self
    }

    /// How many levels have stored domains.
    pub fn stored_levels(&self) -> usize {
        self.ordinals.len()
    }

    /// Whether the last level is the host name.
    pub fn ends_at_hosts(&self) -> bool {
        self.stored_levels() < self.spec.levels.len()
    }

    /// The position of the level with this label.
    pub fn level(&self, label: &str) -> Option<usize> {
        self.spec.level(label)
    }

    /// The domain of `node` at stored level `level`; `NO_DOMAIN` when it is not in this topology.
    pub fn domain_of(&self, node: NodeId, level: usize) -> DomainId {
        self.ordinals.get(level).and_then(|column| column.get(node.0 as usize)).copied().unwrap_or(NO_DOMAIN)
    }

    /// The column of domains by node of stored level `level`.
    pub fn ordinals(&self, level: usize) -> Option<&Chunked<DomainId>> {
        self.ordinals.get(level)
    }

    /// A key that is equal for two nodes exactly when they share a domain of `level`, the host level included. Nothing
    /// for nodes outside the topology.
    pub fn key_of(&self, node: NodeId, level: usize) -> Option<u32> {
        if level < self.stored_levels() {
            let domain = self.domain_of(node, level);
            return (domain != NO_DOMAIN).then_some(domain.0);
        }
        let inside = self.stored_levels() == 0 || self.domain_of(node, self.stored_levels() - 1) != NO_DOMAIN;
        inside.then_some(node.0)
    }

    /// The key at level `above` of the domain that contains the one with `key` at `level`; `above` is not below it.
    pub fn key_above(&self, level: usize, key: u32, above: usize) -> Option<u32> {
        if above >= level {
            return (above == level).then_some(key);
        }
        let (mut at, mut here) = (DomainId(key), level);
        if level >= self.stored_levels() {
            here = self.stored_levels().checked_sub(1)?;
            at = self.domain_of(NodeId(key), here);
        }
        while here > above {
            at = self.domains.get(at.0 as usize)?.parent;
            here -= 1;
        }
        (at != NO_DOMAIN).then_some(at.0)
    }

    /// The label values of `domain` from the top.
    pub fn path(&self, domain: DomainId) -> Vec<&str> {
        let mut values = Vec::new();
        let mut at = domain;
        while let Some(found) = self.domains.get(at.0 as usize) {
            values.push(found.value.as_str());
            at = found.parent;
        }
        values.reverse();
        values
    }

    pub(crate) fn leave(&mut self, node: NodeId) {
        for level in 0..self.ordinals.len() {
            let domain = self.domain_of(node, level);
            if domain == NO_DOMAIN {
                continue;
            }
            self.ordinals[level][node.0 as usize] = NO_DOMAIN;
            let entry = &mut self.domains[domain.0 as usize];
            entry.nodes -= 1;
        }
    }

    pub(crate) fn join(&mut self, node: NodeId, labels: &Labels) {
        self.leave(node);
        let stored = self.stored_levels();
        let values: Option<Vec<&String>> = self.spec.levels[..stored].iter().map(|level| labels.get(level)).collect();
        for column in &mut self.ordinals {
            if column.len() <= node.0 as usize {
                column.resize(node.0 as usize + 1, NO_DOMAIN);
            }
        }
        let Some(values) = values.map(|values| values.into_iter().cloned().collect::<Vec<_>>()) else { return };
        let mut parent = NO_DOMAIN;
        for (level, value) in values.into_iter().enumerate() {
            let domain = self.intern(level, parent, value);
            self.domains[domain.0 as usize].nodes += 1;
            self.ordinals[level][node.0 as usize] = domain;
            parent = domain;
        }
    }

    fn intern(&mut self, level: usize, parent: DomainId, value: String) -> DomainId {
        let domains = &mut self.domains;
        *self.by_value.entry((parent, value)).or_insert_with_key(|(_, value)| {
            domains.push(Domain { level: level as u8, parent, value: value.clone(), nodes: 0 });
            DomainId((domains.len() - 1) as u32)
        })
    }
}

/// The topologies of the cell by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topologies {
    by_name: BTreeMap<String, Arc<Topology>>,
}

impl Topologies {
    /// The topology called `name`, or the only one when `name` is empty.
    pub fn get(&self, name: &str) -> Option<&Arc<Topology>> {
        match name {
            "" if self.by_name.len() == 1 => self.by_name.values().next(),
            _ => self.by_name.get(name),
        }
    }

    /// All topologies by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topology>> {
        self.by_name.values()
    }

    pub(crate) fn put(&mut self, topology: Topology) {
        self.by_name.insert(topology.spec.name.clone(), Arc::new(topology));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(crate) fn join(&mut self, node: NodeId, labels: &Labels) {
        self.by_name.values_mut().for_each(|topology| Arc::make_mut(topology).join(node, labels));
    }

    pub(crate) fn leave(&mut self, node: NodeId) {
        self.by_name.values_mut().for_each(|topology| Arc::make_mut(topology).leave(node));
    }
}

/// A topology domain that a planner keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    /// The topology.
    pub topology: &'a Topology,
    /// The level, from the top.
    pub level: usize,
    /// The domain, as [`Topology::key_of`] names it; nothing when any domain will do.
    pub key: Option<u32>,
}

impl Fence<'_> {
    /// Whether `node` is inside.
    pub fn holds(&self, node: NodeId) -> bool {
        let key = self.topology.key_of(node, self.level);
        key.is_some() && (self.key.is_none() || self.key == key)
    }
}
