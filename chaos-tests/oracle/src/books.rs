//! The books that several judges read: which nodes and jobs there are, and which tasks stand where. Written from facts
//! alone.

use crate::ailments::Ailments;
use crate::amounts::{add, asks};
use crate::facts::{Fact, Rules};
use ohm_model::node::HOSTNAME_LABEL;
use ohm_model::{
    Amounts, EventKind, GroupSpec, Incarnation, JobId, JobSpec, NodeHealth, NodeId, NodeSpec, StopCause, Taint,
    TopologySpec,
};
use std::collections::{BTreeMap, BTreeSet};

/// A node.
#[derive(Debug)]
pub(crate) struct NodeBook {
    pub(crate) spec: NodeSpec,
    pub(crate) health: NodeHealth,
    pub(crate) cordoned: bool,
    pub(crate) draining: bool,
    pub(crate) ailments: Ailments,
    /// Taints that people put on it. Nobody else takes them off.
    pub(crate) put_taints: Vec<Taint>,
}

impl NodeBook {
    /// The taints that it registers with, and those that people put on it.
    pub(crate) fn own_taints(&self) -> impl Iterator<Item = &Taint> {
        self.spec.taints.iter().chain(&self.put_taints)
    }
}

/// A task that stands somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) node: NodeId,
    pub(crate) stopping: bool,
}

/// Why a task stands again where it stood, and nobody was to place it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    /// Its run came back with its node.
    WithNode,
    /// It started again in place, on this node.
    Restarted(NodeId),
}

/// What is there.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) nodes: BTreeMap<NodeId, NodeBook>,
    pub(crate) jobs: BTreeMap<JobId, JobSpec>,
    /// Jobs whose tasks run until they are stopped.
    endless: BTreeSet<JobId>,
    topologies: BTreeMap<String, TopologySpec>,
    live: BTreeMap<(JobId, u16), BTreeMap<u32, Standing>>,
    succeeded: BTreeMap<(JobId, u16), BTreeMap<u32, NodeId>>,
    /// Tasks whose run came back with its node and lives on, or started again in place.
    returned: BTreeMap<(JobId, u16, u32), Return>,
    /// What groups were made of so far, the present last.
    made: BTreeMap<(JobId, u16), Vec<GroupSpec>>,
    /// What each task was made of last, among those.
    made_last: BTreeMap<(JobId, u16, u32), usize>,
    /// What attempts were made of that are over, and might come back with their node.
    ended: BTreeMap<(JobId, u16, u32, Incarnation), usize>,
    /// What tasks are made of that are about to stand again where they stood.
    returning: BTreeMap<(JobId, u16, u32), usize>,
    /// What owners ask for, of jobs that are wanted otherwise for the moment.
    declared: BTreeMap<JobId, JobSpec>,
}

impl Books {
    /// Takes note of the rules of an entry, before its facts.
    pub(crate) fn rule(&mut self, rules: &Rules<'_>) {
        for name in &rules.removed_topologies {
            self.topologies.remove(*name);
        }
        for spec in &rules.topologies {
            self.topologies.insert(spec.name.clone(), (*spec).clone());
        }
    }

    /// Takes note of one fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Registered { at_ms, node, spec } => self.register(at_ms, node, spec),
            Fact::Submitted { job, spec, endless } => {
                self.jobs.insert(job, spec.clone());
                self.note_made(job, spec);
                if endless {
                    self.endless.insert(job);
                }
            }
            Fact::Updated { job, spec, declared, .. } => {
                self.update(job, spec);
                self.note_made(job, spec);
                self.declared.remove(&job);
                self.declared.extend((spec != declared).then(|| (job, declared.clone())));
            }
            Fact::Happened { kind, .. } => {
                self.note_event(kind);
                self.note_ailment(kind);
            }
        }
    }

    /// The present content of the groups of a job is the last one.
    fn note_made(&mut self, job: JobId, spec: &JobSpec) {
        for (at, group) in (0u16..).zip(&spec.groups) {
            let known = self.made.entry((job, at)).or_default();
            if known.last().is_none_or(|last| !last.is_made_as(group)) {
                known.push(group.clone());
            }
        }
    }

    /// What a task is made of, or was when it stood last: what its group was made of when it was placed.
    pub(crate) fn made_of(&self, job: JobId, group: u16, task: u32) -> Option<&GroupSpec> {
        self.made.get(&(job, group))?.get(*self.made_last.get(&(job, group, task))?)
    }

    /// What the tasks of a group ask for together that stand and are meant.
    pub(crate) fn held(&self, job: JobId, group: u16, is_meant: impl Fn(&(u32, Standing)) -> bool) -> Amounts {
        let tasks = self.live(job, group).filter(is_meant).map(|(task, _)| task);
        self.asked(job, group, tasks)
    }

    /// What these tasks of a group ask for together, as they are made.
    pub(crate) fn asked(&self, job: JobId, group: u16, tasks: impl Iterator<Item = u32>) -> Amounts {
        let mut asked = Amounts::new();
        tasks.filter_map(|task| self.made_of(job, group, task)).for_each(|made| add(&mut asked, &asks(made, 1)));
        asked
    }

    /// How many tasks the owner of a job asks for in a group.
    pub(crate) fn declared_count(&self, job: JobId, group: u16) -> u32 {
        let spec = self.declared.get(&job).or_else(|| self.jobs.get(&job));
        spec.and_then(|spec| spec.groups.get(usize::from(group))).map_or(0, |group| group.count)
    }

    fn register(&mut self, at_ms: u64, node: NodeId, spec: &NodeSpec) {
        let known = self.nodes.remove(&node);
        let cordoned = known.as_ref().is_some_and(|known| known.cordoned);
        let was_lost = known.as_ref().is_some_and(|known| known.health == NodeHealth::Lost);
        let draining = known.as_ref().is_some_and(|known| known.draining);
        let (mut ailments, put_taints) = known.map(|known| (known.ailments, known.put_taints)).unwrap_or_default();
        if was_lost {
            ailments.note_return(at_ms);
        }
        let (spec, health) = (spec.clone(), NodeHealth::Ready);
        self.nodes.insert(node, NodeBook { spec, health, cordoned, draining, ailments, put_taints });
    }

    fn note_ailment(&mut self, kind: &EventKind) {
        match kind {
            EventKind::NodeCondition { node, condition, action, .. } => {
                let found = self.nodes.get_mut(node).into_iter();
                found.for_each(|found| found.ailments.note_condition(*condition, *action));
            }
            EventKind::NodeReleased { node, by_hand: true, .. } => {
                self.nodes.get_mut(node).into_iter().for_each(|found| found.ailments.note_release());
            }
            _ => {}
        }
    }

    /// Whether the tasks of `job` run until they are stopped, each by itself.
    pub(crate) fn is_endless(&self, job: JobId) -> bool {
        self.endless.contains(&job)
    }

    /// What has succeeded stays done while its group keeps its name, unless its number is beyond the new count.
    fn update(&mut self, job: JobId, spec: &JobSpec) {
        let Some(old) = self.jobs.insert(job, spec.clone()) else { return };
        let mut kept = Vec::new();
        for (at, group) in old.groups.iter().enumerate() {
            let Some(mut tasks) = self.succeeded.remove(&(job, at as u16)) else { continue };
            let heir = spec.groups.iter().position(|heir| heir.name == group.name);
            if let Some(heir) = heir {
                tasks.retain(|task, _| *task < spec.groups[heir].count);
                kept.push(((job, heir as u16), tasks));
            }
        }
        self.succeeded.extend(kept);
    }

    fn note_event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Placed { job, group, first, count, node } => {
                let present = self.made.get(&(*job, *group)).map_or(0, |made| made.len().saturating_sub(1));
                let standing = Standing { node: *node, stopping: false };
                for task in *first..first + count {
                    let made = self.returning.remove(&(*job, *group, task)).unwrap_or(present);
                    self.made_last.insert((*job, *group, task), made);
                    self.live.entry((*job, *group)).or_default().insert(task, standing);
                }
            }
            EventKind::Stopping { job, group, task, .. } => {
                if let Some(found) = self.live.get_mut(&(*job, *group)).and_then(|tasks| tasks.get_mut(task)) {
                    found.stopping = true;
                }
            }
            EventKind::Reconciled { job, group, task, incarnation, lives: true, .. } => {
                self.returned.insert((*job, *group, *task), Return::WithNode);
                let made = self.ended.get(&(*job, *group, *task, *incarnation)).copied();
                self.returning.extend(made.map(|made| ((*job, *group, *task), made)));
            }
            EventKind::Reconciled { job, group, task, lives: false, .. } => {
                self.returned.remove(&(*job, *group, *task));
            }
            EventKind::Ended { .. } => self.note_end(kind),
            EventKind::NodeHealth { node, health, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.health = *health;
                }
            }
            EventKind::NodeDraining { node, .. } | EventKind::NodeUndrained { node, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.draining = matches!(kind, EventKind::NodeDraining { .. });
                }
            }
            EventKind::NodeCordoned { node, cordoned, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.cordoned = *cordoned;
                }
            }
            EventKind::NodeTainted { node, taint, tainted, .. } => {
                if let Some(found) = self.nodes.get_mut(node) {
                    found.put_taints.retain(|known| known != taint);
                    found.put_taints.extend(tainted.then(|| taint.clone()));
                }
            }
            EventKind::NodeRemoved { name } => self.nodes.retain(|_, book| book.spec.name != *name),
            _ => {}
        }
    }

    fn note_end(&mut self, kind: &EventKind) {
        let EventKind::Ended { job, group, task, incarnation, exit, cause, node, .. } = kind else { return };
        let of = (*job, *group, *task);
        let made = self.made_last.get(&of).copied();
        self.ended.extend(made.map(|made| ((of.0, of.1, of.2, *incarnation), made)));
        self.returning.extend(made.filter(|_| *cause == Some(StopCause::Restarted)).map(|made| (of, made)));
        // What starts again in place never gives its room away.
        match cause {
            Some(StopCause::Restarted) => {
                self.returned.insert((*job, *group, *task), Return::Restarted(*node));
            }
            _ => drop(self.returned.remove(&(*job, *group, *task))),
        }
        let endless = self.is_endless(*job);
        if exit.is_success() && cause.is_none() && !endless {
            self.succeeded.entry((*job, *group)).or_default().insert(*task, *node);
        }
        if let Some(tasks) = self.live.get_mut(&(*job, *group)) {
            tasks.remove(task);
            if tasks.is_empty() {
                self.live.remove(&(*job, *group));
            }
        }
    }

    /// The tasks of a group that stand somewhere, by rank.
    pub(crate) fn live(&self, job: JobId, group: u16) -> impl Iterator<Item = (u32, Standing)> + '_ {
        self.live.get(&(job, group)).into_iter().flatten().map(|(task, standing)| (*task, *standing))
    }

    /// What stands of all groups of a job.
    pub(crate) fn live_of(&self, job: JobId) -> impl Iterator<Item = Standing> + '_ {
        let groups = self.jobs.get(&job).map_or(0, |spec| spec.groups.len() as u16);
        (0..groups).flat_map(move |group| self.live(job, group)).map(|(_, standing)| standing)
    }

    /// Whether the run of this task stands where an earlier one stood all the time: it came back with its node and
    /// lives on, or has started again in place.
    pub(crate) fn has_returned(&self, job: JobId, group: u16, task: u32) -> bool {
        self.returned.contains_key(&(job, group, task))
    }

    /// Whether this task has started again in place, so that its room and its quota were never given away.
    pub(crate) fn has_restarted(&self, job: JobId, group: u16, task: u32) -> bool {
        self.home(job, group, task).is_some()
    }

    /// Where a task stands again that has started again in place.
    pub(crate) fn home(&self, job: JobId, group: u16, task: u32) -> Option<NodeId> {
        match self.returned.get(&(job, group, task)) {
            Some(Return::Restarted(node)) => Some(*node),
            _ => None,
        }
    }

    /// The tasks of a group that have succeeded, with where each stood.
    pub(crate) fn succeeded(&self, job: JobId, group: u16) -> Option<&BTreeMap<u32, NodeId>> {
        self.succeeded.get(&(job, group))
    }

    /// How many tasks of a group have succeeded.
    pub(crate) fn done(&self, job: JobId, group: u16) -> u32 {
        self.succeeded(job, group).map_or(0, |tasks| tasks.len() as u32)
    }

    /// Every task that stands somewhere.
    pub(crate) fn standing(&self) -> impl Iterator<Item = (JobId, u16, u32, Standing)> + '_ {
        self.live.iter().flat_map(|((job, group), tasks)| {
            tasks.iter().map(move |(task, standing)| (*job, *group, *task, *standing))
        })
    }

    /// Every task that stands on `node`.
    pub(crate) fn on_node(&self, node: NodeId) -> impl Iterator<Item = (JobId, u16, u32, Standing)> + '_ {
        self.standing().filter(move |(_, _, _, standing)| standing.node == node)
    }

    /// The domain of `node` at the lowest level of the topology. Nothing when it is outside.
    pub(crate) fn lowest_domain(&self, topology: &str, node: NodeId) -> Option<Vec<String>> {
        let levels = &self.topology(topology)?.levels;
        self.domain(topology, levels.last()?, node)
    }

    fn topology(&self, name: &str) -> Option<&TopologySpec> {
        match name {
            "" => self.topologies.values().next(),
            name => self.topologies.get(name),
        }
    }

    /// The label values of `node` from the top of the topology down to `level`: its domain there. Nothing when it is
    /// outside.
    pub(crate) fn domain(&self, topology: &str, level: &str, node: NodeId) -> Option<Vec<String>> {
        let topology = self.topology(topology)?;
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
