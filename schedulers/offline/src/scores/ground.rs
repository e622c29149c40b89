//! What scores look at: the group, the nodes, and what stands on them.

use crate::world::World;
use ohm_cell::{Job, NodeRecord};
use ohm_manifest::{CPU_UNNAMED_MILLI, MEMORY_UNNAMED_BYTES, NodeImage, Plugins, PodOutline};
use ohm_model::resources::{CPU, MEMORY};
use ohm_model::selector::Labels;
use ohm_model::{
    Amounts, GroupIndex, GroupSpec, JobId, Namespace, NeighbourTerm, Neighbours, NodeId, TaintEffect, split_job_name,
};
use std::collections::BTreeMap;

/// What scores look at.
pub(super) struct Ground<'w> {
    /// The group that is to be placed.
    pub(super) own: Kind<'w>,
    /// What its profile says of plugins.
    pub(super) plugins: &'w Plugins,
    /// All nodes of the cell, those that do not fit among them.
    pub(super) nodes: Vec<Place<'w>>,
    /// What tasks of other groups, and of the own one, are that stand already.
    pub(super) kinds: Vec<Kind<'w>>,
}

/// Equal tasks: those of one group.
pub(super) struct Kind<'w> {
    pub(super) group: &'w GroupSpec,
    /// What its containers come to, where it is a pod.
    pub(super) outline: Option<&'w PodOutline>,
    pub(super) namespace: &'w Namespace,
    /// What it asks of others, with the own namespace named.
    pub(super) neighbours: Option<Neighbours>,
}

/// A node.
pub(super) struct Place<'w> {
    pub(super) record: &'w NodeRecord,
    /// Whether it takes a task of the group.
    pub(super) fits: bool,
    pub(super) allocatable: &'w Amounts,
    pub(super) images: &'w [NodeImage],
    /// What others take of it.
    used: Option<&'w Amounts>,
    /// What stands on it.
    pub(super) tasks: Vec<Task>,
}

/// A task that stands.
pub(super) struct Task {
    /// Its place among [`Ground::kinds`].
    pub(super) kind: usize,
    /// Whether it is told to stop.
    pub(super) is_ending: bool,
}

impl<'w> Ground<'w> {
    /// The ground of a group of `job`; `fits` says of each node whether it takes a task.
    pub(super) fn new(
        world: &'w World,
        (job, group): (&'w Job, usize),
        plugins: &'w Plugins,
        fits: &[bool],
    ) -> Option<Self> {
        let own = Kind::of(world, job, group)?;
        let mut kinds = Kinds { world, kinds: Vec::new(), known: BTreeMap::new() };
        let nodes = world.cell.nodes().iter().zip(fits);
        let nodes = nodes.map(|((node, record), fits)| place(world, (node, record), *fits, &mut kinds)).collect();
        Some(Ground { own, plugins, nodes, kinds: kinds.kinds })
    }

    /// The nodes that take a task.
    pub(super) fn fitting(&self) -> impl Iterator<Item = &Place<'w>> {
        self.nodes.iter().filter(|place| place.fits)
    }

    /// What is asked for of a resource on a node already.
    pub(super) fn requested(&self, place: &Place<'_>, name: &str) -> i64 {
        self.sum(place, name, |kind| kind.request(name))
    }

    /// The same where containers that name no cpu or memory count all the same.
    pub(super) fn counted(&self, place: &Place<'_>, name: &str) -> i64 {
        self.sum(place, name, |kind| kind.counted(name))
    }

    fn sum(&self, place: &Place<'_>, name: &str, of: impl Fn(&Kind<'_>) -> i64) -> i64 {
        let used = place.used.and_then(|used| used.get(name)).copied().unwrap_or(0);
        place.tasks.iter().fold(used, |sum, task| sum.saturating_add(of(&self.kinds[task.kind])))
    }
}

impl<'w> Kind<'w> {
    fn of(world: &'w World, job: &'w Job, group: usize) -> Option<Self> {
        let spec = job.spec.groups.get(group)?;
        let name = split_job_name(&job.spec.name).0;
        let neighbours = world.facts.bound.get(&job.spec.name).or(spec.neighbours.as_deref());
        Some(Kind {
            group: spec,
            outline: world.facts.pods.get(&job.spec.name).and_then(|pods| pods.get(group)),
            namespace: world.facts.namespaces.get(name)?,
            neighbours: neighbours.map(|neighbours| neighbours.in_namespace(name)),
        })
    }

    /// What it asks for of a resource.
    pub(super) fn request(&self, name: &str) -> i64 {
        self.group.requests.get(name).copied().unwrap_or(0)
    }

    /// The same where containers that name no cpu or memory count all the same. A task of Ohm's is like one container.
    pub(super) fn counted(&self, name: &str) -> i64 {
        let unnamed = match name {
            CPU => CPU_UNNAMED_MILLI,
            MEMORY => MEMORY_UNNAMED_BYTES,
            _ => return self.request(name),
        };
        match self.outline {
            Some(outline) => outline.counted.get(name).copied().unwrap_or(0),
            None => self.group.requests.get(name).copied().unwrap_or(unnamed),
        }
    }

    /// Whether a term of another group means its tasks.
    pub(super) fn is_meant(&self, term: &NeighbourTerm) -> bool {
        term.selects(&self.group.labels) && term.is_about(self.namespace)
    }

    /// Whether its node selector and its required affinity admit a node.
    pub(super) fn likes(&self, place: &Place<'_>) -> bool {
        let (name, labels) = (&place.record.spec.name, place.labels());
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        let GroupSpec { node_selector, affinity, .. } = self.group;
        node_selector.iter().all(has) && (affinity.is_empty() || affinity.iter().any(|term| term.matches(name, labels)))
    }

    /// Whether it tolerates every taint of a node that would keep it away.
    pub(super) fn tolerates(&self, place: &Place<'_>) -> bool {
        let hard = place.record.taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
        hard.into_iter().all(|taint| self.group.tolerations.iter().any(|toleration| toleration.covers(taint)))
    }
}

impl Place<'_> {
    pub(super) fn labels(&self) -> &Labels {
        &self.record.spec.labels
    }

    /// What there is of a resource.
    pub(super) fn capacity(&self, name: &str) -> i64 {
        self.allocatable.get(name).copied().unwrap_or(0)
    }
}

/// The kinds of tasks that were met so far.
struct Kinds<'w> {
    world: &'w World,
    kinds: Vec<Kind<'w>>,
    known: BTreeMap<(JobId, GroupIndex), Option<usize>>,
}

impl Kinds<'_> {
    fn find(&mut self, (id, group): (JobId, GroupIndex)) -> Option<usize> {
        if let Some(known) = self.known.get(&(id, group)) {
            return *known;
        }
        let kind = self.world.job(id).and_then(|job| Kind::of(self.world, job, usize::from(group.0)));
        let at = kind.map(|kind| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        self.known.insert((id, group), at);
        at
    }
}

fn place<'w>(
    world: &'w World,
    (node, record): (NodeId, &'w NodeRecord),
    fits: bool,
    kinds: &mut Kinds<'w>,
) -> Place<'w> {
    let (name, facts) = (&record.spec.name, &world.facts);
    let runs = world.cell.runs().on_node(world.cell.nodes(), node);
    let tasks = runs.filter_map(|(_, run)| {
        let kind = kinds.find((run.run.task.job, run.run.task.group))?;
        Some(Task { kind, is_ending: run.stop.is_some() })
    });
    Place {
        record,
        fits,
        tasks: tasks.collect(),
        allocatable: facts.allocatable.get(name).unwrap_or(&record.spec.capacity),
        images: facts.images.get(name).map_or(&[], Vec::as_slice),
        used: facts.used.get(name),
    }
}
