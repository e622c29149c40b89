//! The books that several judges read: which nodes and jobs there are, and which tasks stand where. Written from facts
//! alone.

use crate::facts::{Fact, Rules};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{EventKind, JobId, JobSpec, NodeHealth, NodeId, NodeSpec, TopologySpec};
use std::collections::BTreeMap;

/// A node.
#[derive(Debug)]
pub(crate) struct NodeBook {
    pub(crate) spec: NodeSpec,
    pub(crate) health: NodeHealth,
    pub(crate) cordoned: bool,
}

/// A task that stands somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) node: NodeId,
    pub(crate) stopping: bool,
}

/// What is there.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) nodes: BTreeMap<NodeId, NodeBook>,
    pub(crate) jobs: BTreeMap<JobId, JobSpec>,
    topologies: BTreeMap<String, TopologySpec>,
    live: BTreeMap<(JobId, u16), BTreeMap<u32, Standing>>,
}

impl Books {
    /// Takes note of the rules of an entry, before its facts.
    pub(crate) fn rule(&mut self, rules: &Rules<'_>) {
        for spec in &rules.topologies {
            self.topologies.insert(spec.name.clone(), (*spec).clone());
        }
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Registered { node, spec } => {
                let cordoned = self.nodes.get(&node).is_some_and(|known| known.cordoned);
                self.nodes.insert(node, NodeBook { spec: spec.clone(), health: NodeHealth::Ready, cordoned });
            }
            Fact::Submitted { job, spec } | Fact::Updated { job, spec } => drop(self.jobs.insert(job, spec.clone())),
            Fact::Happened { kind, .. } => self.note_event(kind),
        }
    }

    fn note_event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Placed { job, group, first, count, node } => {
                let standing = Standing { node: *node, stopping: false };
                let tasks = self.live.entry((*job, *group)).or_default();
                tasks.extend((*first..first + count).map(|task| (task, standing)));
            }
            EventKind::Stopping { job, group, task, .. } => {
                if let Some(found) = self.live.get_mut(&(*job, *group)).and_then(|tasks| tasks.get_mut(task)) {
                    found.stopping = true;
                }
            }
            EventKind::Ended { job, group, task, .. } => {
                if let Some(tasks) = self.live.get_mut(&(*job, *group)) {
                    tasks.remove(task);
                    if tasks.is_empty() {
                        self.live.remove(&(*job, *group));
                    }
                }
            }
            EventKind::NodeHealth { node, health, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.health = *health;
                }
            }
            EventKind::NodeCordoned { node, cordoned, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.cordoned = *cordoned;
                }
            }
            EventKind::NodeRemoved { name } => self.nodes.retain(|_, book| book.spec.name != *name),
            _ => {}
        }
    }

    /// The tasks of a group that stand somewhere, by rank.
    pub(crate) fn live(&self, job: JobId, group: u16) -> impl Iterator<Item = (u32, Standing)> + '_ {
        self.live.get(&(job, group)).into_iter().flatten().map(|(task, standing)| (*task, *standing))
    }

    /// Every task that stands on `node`.
    pub(crate) fn on_node(&self, node: NodeId) -> impl Iterator<Item = (JobId, u16, u32, Standing)> + '_ {
        let all = self.live.iter().flat_map(|((job, group), tasks)| {
            tasks.iter().map(move |(task, standing)| (*job, *group, *task, *standing))
        });
        all.filter(move |(_, _, _, standing)| standing.node == node)
    }

    /// The label values of `node` from the top of the topology down to `level`: its domain there. Nothing when it is
    /// outside.
    pub(crate) fn domain(&self, topology: &str, level: &str, node: NodeId) -> Option<Vec<String>> {
        let topology = match topology {
            "" => self.topologies.values().next()?,
            name => self.topologies.get(name)?,
        };
        let spec = &self.nodes.get(&node)?.spec;
        let depth = topology.levels.iter().position(|label| label == level)?;
        let value = |label: &String| match spec.labels.get(label) {
            None if label == HOSTNAME_LABEL => Some(spec.name.clone()),
            value => value.cloned(),
        };
        let mut path: Vec<String> = topology.levels[..=depth].iter().map(value).collect::<Option<_>>()?;
        if level == HOSTNAME_LABEL {
            // A host is one domain, whatever it stands under.
            path.drain(..depth);
        }
        Some(path)
    }
}
