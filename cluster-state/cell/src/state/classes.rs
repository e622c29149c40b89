//! Node classes: nodes with equal labels (the host name apart) and taints get one verdict together.

use ohm_model::condition::TAINT_PREFIX;
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::selector::Labels;
use ohm_model::{ClassId, Taint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What equal nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeClass {
    /// Labels without the host name.
    pub labels: Labels,
    /// Taints, sorted.
    pub taints: Vec<Taint>,
}

impl NodeClass {
    /// The class of nodes with these labels and taints.
    pub fn of(labels: &Labels, taints: &[Taint]) -> Self {
        let labels = labels.iter().filter(|(key, _)| *key != HOSTNAME_LABEL);
        let mut taints = taints.to_vec();
        taints.sort();
        taints.dedup();
        NodeClass { labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(), taints }
    }

    /// Whether this is the class of nodes with these labels and taints. May say no to taints that are in another order;
    /// never says yes wrongly.
    fn is_class_of(&self, labels: &Labels, taints: &[Taint]) -> bool {
        let labels = labels.iter().filter(|(key, _)| *key != HOSTNAME_LABEL);
        self.taints == taints && self.labels.iter().eq(labels)
    }

    /// Whether nodes are in it for a while only. Such a class is kept without nodes, so that conditions that come and
    /// go don't use up numbers.
    fn is_passing(&self) -> bool {
        self.taints.iter().any(|taint| taint.key.starts_with(TAINT_PREFIX))
    }
}

/// All classes that nodes of the cell have or had. Class numbers are never used again, so a late reader cannot take one
/// class for another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inner {
    classes: Vec<Option<NodeClass>>,
    nodes: Vec<u32>,
    /// Derived from `classes`.
    by_content: BTreeMap<NodeClass, ClassId>,
}

impl Classes {
    /// The class called `class`, while a node has it, or had it for a while.
    pub fn get(&self, class: ClassId) -> Option<&NodeClass> {
        self.inner.classes.get(class.0 as usize)?.as_ref()
    }

    /// One past the highest class number ever given.
    pub fn slots(&self) -> usize {
        self.inner.classes.len()
    }

    /// All classes by number with their nodes, for snapshots.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<&NodeClass>, u32)> {
        self.inner.classes.iter().map(Option::as_ref).zip(self.inner.nodes.iter().copied())
    }

    /// The classes that [`Classes::parts`] gave.
    pub(crate) fn from_parts(parts: impl Iterator<Item = (Option<NodeClass>, u32)>) -> Self {
        let (classes, nodes): (Vec<_>, Vec<_>) = parts.unzip();
        let named = classes.iter().enumerate().filter_map(|(number, class)| Some((class.clone()?, number)));
        let by_content = named.map(|(class, number)| (class, ClassId(number as u32))).collect();
        Classes { inner: Arc::new(Inner { classes, nodes, by_content }) }
    }

    /// How many nodes have `class`.
    pub fn nodes(&self, class: ClassId) -> u32 {
        self.inner.nodes.get(class.0 as usize).copied().unwrap_or(0)
    }

    /// Counts one more node of the class of these labels and taints.
    pub(crate) fn join(&mut self, labels: &Labels, taints: &[Taint]) -> ClassId {
        let inner = Arc::make_mut(&mut self.inner);
        // Nodes mostly come with their like: the newest class is tried before anything is copied.
        if let Some(Some(newest)) = inner.classes.last()
            && newest.is_class_of(labels, taints)
            && let Some(nodes) = inner.nodes.last_mut()
        {
            *nodes += 1;
            return ClassId((inner.classes.len() - 1) as u32);
        }
        let class = NodeClass::of(labels, taints);
        let id = *inner.by_content.entry(class).or_insert_with_key(|class| {
            inner.classes.push(Some(class.clone()));
            inner.nodes.push(0);
            ClassId((inner.classes.len() - 1) as u32)
        });
        inner.nodes[id.0 as usize] += 1;
        id
    }

    /// Counts one node of `class` less that has another class for a while; the class is kept for its return.
    pub(crate) fn step_out(&mut self, class: ClassId) {
        Arc::make_mut(&mut self.inner).nodes[class.0 as usize] -= 1;
    }

    /// Counts one node of `class` less, and forgets the class with its last node.
    pub(crate) fn leave(&mut self, class: ClassId) {
        let inner = Arc::make_mut(&mut self.inner);
        let nodes = &mut inner.nodes[class.0 as usize];
        *nodes -= 1;
        if *nodes == 0
            && !inner.classes[class.0 as usize].as_ref().is_some_and(NodeClass::is_passing)
            && let Some(content) = inner.classes[class.0 as usize].take()
        {
            inner.by_content.remove(&content);
        }
    }
}
