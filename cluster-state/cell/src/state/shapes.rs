//! Shapes: what a placement of a group depends on, shared by all equal groups, with one remembered verdict per node
//! class.

use crate::state::classes::{Classes, NodeClass};
use crate::state::flavors::{NO_FLAVOR, QuotaColumns};
use crate::state::resources::{PODS, ResourceNames};
use ohm_model::selector::Labels;
use ohm_model::{
    ClassId, FlavorResource, GroupSpec, HostPort, Neighbours, ResourceId, SelectorTerm, ShapeId, Taint, TaintEffect,
    Toleration, resources,
};
use ohm_stdx::Slab;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The placement-relevant part of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// What one task takes, by column, ascending, without zeros; `pods: 1` included.
    pub requests: Vec<(ResourceId, i64)>,
    /// What its queue is charged for one task, by flavor and resource, ascending.
    pub charges: Vec<(FlavorResource, i64)>,
    /// Whether no flavor of its queue suits it: then it is placed nowhere, and nothing is charged for it.
    pub unsuited: bool,
    /// The part of `requests` that asks for devices (extended resources), in the same order.
    pub devices: Vec<(ResourceId, i64)>,
    /// Labels the node must have.
    pub node_selector: Labels,
    /// Alternatives of required affinity.
    pub affinity: Vec<SelectorTerm>,
    /// What it asks of the tasks around it; nothing where it asks for nothing.
    pub neighbours: Option<Arc<NeighboursOf>>,
    /// Taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Ports each task takes.
    pub ports: Vec<HostPort>,
    /// Most tasks of one group on one node; 0 is no limit.
    pub max_per_node: u32,
    /// Whether it names single hosts, so that a class alone does not decide.
    pub names_hosts: bool,
}

/// What a group asks of the tasks around it, and in which namespace it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NeighboursOf {
    /// The namespace of its job.
    pub namespace: String,
    /// What it asks for; each term names the namespaces that it means.
    pub asked: Neighbours,
}

/// Why nodes of a class can't take a shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassMiss {
    /// This taint is not tolerated.
    Taint(Taint),
    /// A selected label is missing or different.
    NodeSelector,
    /// No affinity term matches.
    Affinity,
}

impl Shape {
    /// The shape of `group`, of a job in `namespace`, without a flavor; nothing when the cell has no resource column
    /// left.
    pub(crate) fn of(
        group: &GroupSpec,
        namespace: &str,
        names: &mut ResourceNames,
        columns: &mut QuotaColumns,
    ) -> Option<Self> {
        let mut requests: BTreeMap<ResourceId, i64> = BTreeMap::new();
        let mut devices = Vec::new();
        for (name, &amount) in group.requests.iter().filter(|(_, amount)| **amount > 0) {
            let column = names.intern(name)?;
            requests.insert(column, amount);
            if resources::is_extended(name) {
                devices.push((column, amount));
            }
        }
        requests.insert(PODS, 1);
        devices.sort();
        let charge = |(resource, amount): (&ResourceId, &i64)| (columns.intern(NO_FLAVOR, *resource), *amount);
        let mut charges: Vec<(FlavorResource, i64)> = requests.iter().map(charge).collect();
        charges.sort_unstable();
        let neighbours = group.neighbours.as_ref().map(|asked| {
            let asked = asked.in_namespace(namespace);
            Arc::new(NeighboursOf { namespace: namespace.to_string(), asked })
        });
        Some(Shape {
            requests: requests.into_iter().collect(),
            charges,
            unsuited: false,
            devices,
            node_selector: group.node_selector.clone(),
            affinity: group.affinity.clone(),
            neighbours,
            tolerations: group.tolerations.clone(),
            ports: group.ports.clone(),
            max_per_node: group.max_per_node,
            names_hosts: group.names_hosts(),
        })
    }

    /// Whether a node with this name, these labels and these taints may take this shape: taints, then selector, then
    /// affinity.
    pub fn admits(&self, (name, labels): (&str, &Labels), taints: &[Taint]) -> Result<(), ClassMiss> {
        let repels = |taint: &&Taint| {
            taint.effect != TaintEffect::PreferNoSchedule && !self.tolerations.iter().any(|t| t.covers(taint))
        };
        if let Some(taint) = taints.iter().find(repels) {
            return Err(ClassMiss::Taint(taint.clone()));
        }
        if self.node_selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
            return Err(ClassMiss::NodeSelector);
        }
        if !self.affinity.is_empty() && !self.affinity.iter().any(|term| term.matches(name, labels)) {
            return Err(ClassMiss::Affinity);
        }
        Ok(())
    }

    /// Whether it tolerates something for a while only.
    #[inline]
    pub fn tolerates_briefly(&self) -> bool {
        self.tolerations.iter().any(|toleration| toleration.toleration_seconds.is_some())
    }

    /// Most tasks of one group on one node.
    pub fn most_on_node(&self) -> u32 {
        if self.max_per_node == 0 { u32::MAX } else { self.max_per_node }
    }

    /// Whether a node's room for a task depends on how many tasks of the group are there.
    pub fn counts_own_tasks(&self) -> bool {
        self.max_per_node > 0
    }

    /// As [`Shape::admits`] for all nodes of `class`; only for shapes that name no hosts.
    pub fn admits_class(&self, class: &NodeClass) -> Result<(), ClassMiss> {
        self.admits(("", &class.labels), &class.taints)
    }
}

/// The shapes of all groups in the cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    slab: Slab<(Arc<Shape>, u32)>,
    /// Derived from the slab.
    by_content: BTreeMap<Arc<Shape>, ShapeId>,
    /// Shapes that ask for something of the tasks around them and came or went in the command that is being applied.
    asking: Vec<ShapeId>,
    memo: Memo,
}

/// Remembered verdicts by shape and class. Derived, so it is neither copied, compared nor written.
#[derive(Debug, Default)]
struct Memo(Vec<Vec<Option<bool>>>);

impl Clone for Memo {
    fn clone(&self) -> Self {
        Memo::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

impl Shapes {
    /// The shape called `shape`.
    pub fn get(&self, shape: ShapeId) -> Option<&Arc<Shape>> {
        self.slab.get(shape.0).map(|(shape, _)| shape)
    }

    /// How many groups, live runs and kept runs share `shape`.
    pub fn users(&self, shape: ShapeId) -> u32 {
        self.slab.get(shape.0).map_or(0, |(_, users)| *users)
    }

    /// How many different shapes there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is no shape.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Shape>> {
        self.slab.iter().map(|(_, (shape, _))| shape)
    }

    pub(crate) fn slab(&self) -> &Slab<(Arc<Shape>, u32)> {
        &self.slab
    }

    pub(crate) fn from_slab(slab: Slab<(Arc<Shape>, u32)>) -> Self {
        let by_content = slab.iter().map(|(slot, (shape, _))| (Arc::clone(shape), ShapeId(slot))).collect();
        Shapes { slab, by_content, asking: Vec::new(), memo: Memo::default() }
    }

    /// The shapes that ask for something of the tasks around them and came or went since this was asked last.
    pub(crate) fn take_asking(&mut self) -> Vec<ShapeId> {
        std::mem::take(&mut self.asking)
    }

    /// Counts one more user of `shape`.
    pub(crate) fn join(&mut self, shape: Shape) -> ShapeId {
        if let Some(&id) = self.by_content.get(&shape) {
            if let Some((_, users)) = self.slab.get_mut(id.0) {
                *users += 1;
            }
            return id;
        }
        let shape = Arc::new(shape);
        let (slot, _) = self.slab.insert((Arc::clone(&shape), 1));
        if shape.neighbours.is_some() {
            self.asking.push(ShapeId(slot));
        }
        self.by_content.insert(shape, ShapeId(slot));
        if let Some(verdicts) = self.memo.0.get_mut(slot as usize) {
            verdicts.clear();
        }
        ShapeId(slot)
    }

    /// Counts `count` more users of a shape that is in use, and returns it.
    pub(crate) fn join_again(&mut self, shape: ShapeId, count: u32) -> Option<Arc<Shape>> {
        let (content, users) = self.slab.get_mut(shape.0)?;
        *users += count;
        Some(Arc::clone(content))
    }

    /// Counts one user of `shape` less, and returns it.
    pub(crate) fn leave(&mut self, shape: ShapeId) -> Option<Arc<Shape>> {
        let (content, users) = self.slab.get_mut(shape.0)?;
        let content = Arc::clone(content);
        *users -= 1;
        if *users == 0 {
            self.by_content.remove(&content);
            self.slab.remove(shape.0);
            if content.neighbours.is_some() {
                self.asking.push(shape);
            }
        }
        Some(content)
    }

    /// Works the verdict of `shape` over `class` out once, so that [`Shapes::admits`] only looks it up.
    pub(crate) fn remember(&mut self, shape: ShapeId, class: ClassId, classes: &Classes) {
        let (slot, column) = (shape.0 as usize, class.0 as usize);
        if self.memo.0.get(slot).and_then(|verdicts| verdicts.get(column)).is_some_and(Option::is_some) {
            return;
        }
        let Some(verdict) = self.decide(shape, class, classes) else { return };
        if self.memo.0.len() <= slot {
            self.memo.0.resize(slot + 1, Vec::new());
        }
        let verdicts = &mut self.memo.0[slot];
        if verdicts.len() <= column {
            verdicts.resize(column + 1, None);
        }
        verdicts[column] = Some(verdict);
    }

    /// Whether nodes of `class` may take `shape`, as far as the class decides.
    #[inline]
    pub fn admits(&self, shape: ShapeId, class: ClassId, classes: &Classes) -> bool {
        let known = self.memo.0.get(shape.0 as usize).and_then(|verdicts| *verdicts.get(class.0 as usize)?);
        known.or_else(|| self.decide(shape, class, classes)).unwrap_or(false)
    }

    fn decide(&self, shape: ShapeId, class: ClassId, classes: &Classes) -> Option<bool> {
        let shape = self.get(shape)?;
        Some(shape.names_hosts || shape.admits_class(classes.get(class)?).is_ok())
    }
}
