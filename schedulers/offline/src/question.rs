//! What is asked: documents put in order, and what they say put together.

use crate::answer::IgnoredField;
use crate::facts::Facts;
use crate::names::{ForeignJob, suggestion};
use ohm_manifest::{Allocation, Content, Document, KubernetesObject, NodeDocument, Origin, Pod};
use ohm_model::{
    Amounts, Budget, Class, ClassKind, JobSpec, Namespace, PriorityClass, QueueSpec, ResourceFlavor, Scheduling,
    SchedulingProfile, SelectorTerm, Subqueue, TopologySpec,
};
use std::collections::BTreeMap;

/// What `ohm plan` is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The documents of the cell file, in order.
    pub cell: Vec<Document>,
    /// The documents of the job file, in order.
    pub jobs: Vec<Document>,
    /// Nodes that fail.
    pub fail: Vec<String>,
    /// Nodes that are drained.
    pub drain: Vec<String>,
    /// Nodes that join.
    pub add: Option<Addition>,
    /// Whether to count how many more copies of each job would fit.
    pub count_fit: bool,
    /// Whether to tell of each node what keeps the jobs away from it.
    pub nodes: bool,
    /// Whether to tell what queues and cohorts have, borrow and use.
    pub shares: bool,
    /// In how many passes the jobs are planned, in the order of the schedulers; nothing for file order.
    pub cycles: Option<u32>,
    /// Whether fields of Kubernetes objects that are not honoured are an error.
    pub strict: bool,
}

/// Nodes that join: copies of one that is there, empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// How many.
    pub count: u32,
    /// The node they are like.
    pub like: String,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A document says something that cannot be.
    #[error("{origin}: {field}: {problem}")]
    Document {
        /// The document.
        origin: Origin,
        /// The field.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Fields are not honoured, and that was to be an error.
    #[error("{}", lines(.0))]
    Ignored(Vec<IgnoredField>),
    /// The question itself is wrong.
    #[error("{0}")]
    Question(String),
}

fn lines(ignored: &[IgnoredField]) -> String {
    let line = |field: &IgnoredField| {
        let reason = field.reason.as_ref().map_or("is not honoured", String::as_str);
        format!("{} {}: {}: {reason}", field.kind, field.name, field.field)
    };
    ignored.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl PlanError {
    fn of(origin: &Origin, field: &'static str, problem: String) -> Self {
        PlanError::Document { origin: origin.clone(), field, problem }
    }
}

/// A job, where it came from, and what stands of it.
#[derive(Clone, Debug)]
pub(crate) struct AskedJob {
    pub(crate) spec: JobSpec,
    pub(crate) stands: Vec<Allocation>,
    /// When it was created, in microseconds since 1970; without it before all others.
    pub(crate) created_us: Option<i64>,
    /// Whether the job file has it.
    pub(crate) asked: bool,
    /// Whether it is a Pod that is bound to its node: its controller is not there to make another one.
    pub(crate) is_bound_pod: bool,
}

/// What all documents say together.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) topologies: Vec<(Origin, TopologySpec)>,
    /// Those that documents describe; jobs may name others.
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) budgets: Vec<(Origin, Budget)>,
    pub(crate) priority_classes: Vec<(Origin, PriorityClass)>,
    pub(crate) profiles: Vec<(Origin, SchedulingProfile)>,
    /// Cohorts before what is below them, as far as the file allows.
    pub(crate) queues: Vec<(Origin, QueueSpec)>,
    pub(crate) subqueues: Vec<(Origin, Subqueue)>,
    pub(crate) flavors: Vec<(Origin, ResourceFlavor)>,
    pub(crate) scheduling: Option<(Origin, Scheduling)>,
    pub(crate) nodes: Vec<NodeDocument>,
    pub(crate) node_index: BTreeMap<String, usize>,
    /// Jobs in the order they are planned.
    pub(crate) jobs: Vec<AskedJob>,
    pub(crate) fail: Vec<String>,
    pub(crate) drain: Vec<String>,
    /// Whether it is to be told of each node what keeps jobs away from it.
    pub(crate) tells_nodes: bool,
    /// Fields of Kubernetes objects that are not honoured.
    pub(crate) ignored: Vec<IgnoredField>,
    /// Jobs of Kubernetes.
    pub(crate) foreign: Vec<ForeignJob>,
    /// What documents say beside what a cell is told.
    pub(crate) facts: Facts,
}

/// What the classes that the documents add are like.
fn kinds_of_classes<'d>(documents: impl Iterator<Item = &'d Document>) -> BTreeMap<Class, ClassKind> {
    let kind = |document: &Document| match &document.content {
        Content::SchedulingProfile(profile) => Some((profile.class, profile.like)),
        _ => None,
    };
    documents.filter_map(kind).collect()
}

impl Scene {
    pub(crate) fn of(question: Question) -> Result<Self, PlanError> {
        let Question { fail, drain, nodes: tells_nodes, .. } = question;
        let mut scene = Scene { fail, drain, tells_nodes, ..Scene::default() };
        let (mut allocations, mut standing) = (Vec::new(), Vec::new());
        let mut jobs: BTreeMap<String, usize> = BTreeMap::new();
        let kinds = kinds_of_classes(question.cell.iter().chain(&question.jobs));
        let documents = question.cell.into_iter().map(|document| (false, document));
        for (asked, mut document) in documents.chain(question.jobs.into_iter().map(|document| (true, document))) {
            if let Content::Job(job) = &document.content
                && let Some(kind) = kinds.get(&job.class)
            {
                document.for_class_like(*kind);
            }
            let Document { origin, content, kubernetes, created_us, aside, .. } = document;
            if let Some(object) = kubernetes {
                scene.take_note(*object, &content, asked);
            }
            if let Some(aside) = aside {
                scene.facts.take(*aside, &content, asked);
            }
            match content {
                Content::Job(spec) => scene.add_job(&mut jobs, &origin, (*spec, created_us), asked)?,
                Content::Queue(spec) => scene.queues.push((origin, spec)),
                Content::Subqueue(subqueue) => scene.subqueues.push((origin, subqueue)),
                Content::ResourceFlavor(flavor) => scene.flavors.push((origin, *flavor)),
                Content::Scheduling(scheduling) => scene.add_scheduling(origin, scheduling)?,
                Content::Topology(spec) => scene.topologies.push((origin, spec)),
                Content::Node(node) => scene.add_node(&origin, *node)?,
                Content::Allocation(allocation) => allocations.push((origin, allocation)),
                Content::Pod(pod) if asked && pod.is_over => scene.ignored.push(over(pod.job.name)),
                Content::Pod(pod) if asked => scene.add_job(&mut jobs, &origin, (as_job(*pod), created_us), asked)?,
                Content::Pod(pod) if pod.stands() => standing.push((pod, created_us)),
                Content::Pod(pod) if pod.is_over => {}
                Content::Pod(pod) => scene.ignored.push(unbound(pod.job.name)),
                Content::Namespace(namespace) => scene.namespaces.push(namespace),
                Content::Budget(budget) => scene.budgets.push((origin, *budget)),
                Content::PriorityClass(class) => scene.priority_classes.push((origin, class)),
                Content::SchedulingProfile(profile) => scene.profiles.push((origin, *profile)),
                // A plan says where jobs stand once their nodes are there.
                Content::ProvisioningClass(_) => {}
            }
        }
        scene.check_nodes(&allocations, &standing)?;
        for (origin, allocation) in allocations {
            scene.seat(&jobs, &origin, allocation)?;
        }
        for (pod, created_us) in standing {
            scene.bind(&mut jobs, *pod, created_us);
        }
        if let Some(addition) = &question.add {
            scene.extend(addition)?;
        }
        scene.sort_queues();
        Ok(scene)
    }

    /// Keeps what an object of Kubernetes has that is not honoured, and, of a job, what it names.
    fn take_note(&mut self, object: KubernetesObject, content: &Content, asked: bool) {
        let KubernetesObject { kind, name, ignored, names } = object;
        // Of a pod that takes no room nothing bears on where others go.
        let is_aside = matches!(content, Content::Pod(pod) if !asked && !pod.stands());
        let ignored = ignored.into_iter().filter(|_| !is_aside);
        self.ignored.extend(ignored.map(|found| IgnoredField::of(kind, &name, &found.field, found.reason)));
        if matches!(content, Content::Job(_)) || matches!(content, Content::Pod(_) if asked) {
            self.foreign.push(ForeignJob { kind, job: name, names });
        }
    }

    /// Refuses to fail or to drain a node that no document names.
    fn check_nodes(
        &self,
        allocations: &[(Origin, Allocation)],
        standing: &[(Box<Pod>, Option<i64>)],
    ) -> Result<(), PlanError> {
        for (flag, asked) in [("--fail", &self.fail), ("--drain", &self.drain)] {
            for name in asked.iter().filter(|name| !self.node_index.contains_key(*name)) {
                let is_named = allocations.iter().any(|(_, allocation)| allocation.node == *name)
                    || standing.iter().any(|(pod, _)| pod.node == *name);
                if !is_named {
                    let problem = format!("{flag} {name}: no document names such a node{}", self.suggest_node(name));
                    return Err(PlanError::Question(problem));
                }
            }
        }
        Ok(())
    }

    fn suggest_node(&self, name: &str) -> String {
        suggestion(name, self.nodes.iter().map(|node| node.spec.name.as_str()))
    }

    fn add_job(
        &mut self,
        known: &mut BTreeMap<String, usize>,
        origin: &Origin,
        (spec, created_us): (JobSpec, Option<i64>),
        asked: bool,
    ) -> Result<(), PlanError> {
        if let Some(at) = known.get(&spec.name).copied() {
            if self.jobs[at].asked || !asked {
                let problem = format!("a job called `{}` was given before; keep one or rename one", spec.name);
                return Err(PlanError::of(origin, "metadata.name", problem));
            }
            // The job file says what the job is to become; it is planned where that file has it.
            self.jobs.remove(at);
            known.values_mut().filter(|index| **index > at).for_each(|index| *index -= 1);
        }
        known.insert(spec.name.clone(), self.jobs.len());
        self.jobs.push(AskedJob { spec, stands: Vec::new(), created_us, asked, is_bound_pod: false });
        Ok(())
    }

    /// A pod stands on the node that it is bound to. One that is called as a job is takes its room, and no more is
    /// known of it.
    fn bind(&mut self, known: &mut BTreeMap<String, usize>, pod: Pod, created_us: Option<i64>) {
        let Some(&at) = self.node_index.get(&pod.node) else { return };
        if known.contains_key(&pod.job.name) {
            return add(&mut self.nodes[at].used, &pod.amounts(), 1);
        }
        let group = pod.job.groups.first().map_or_else(String::new, |group| group.name.clone());
        let (job, node, flavors) = (pod.job.name.clone(), pod.node, BTreeMap::new());
        let stands =
            vec![Allocation { job, group, node, count: 1, flavors, reserved_us: None, evicting: pod.is_ending }];
        known.insert(pod.job.name.clone(), self.jobs.len());
        self.jobs.push(AskedJob { spec: pod.job, stands, created_us, asked: false, is_bound_pod: true });
    }

    fn add_scheduling(&mut self, origin: Origin, scheduling: Scheduling) -> Result<(), PlanError> {
        if let Some((first, _)) = &self.scheduling {
            let problem = format!("a cell has one Scheduling, and it was given at {first}; keep one");
            return Err(PlanError::of(&origin, "kind", problem));
        }
        self.scheduling = Some((origin, scheduling));
        Ok(())
    }

    fn add_node(&mut self, origin: &Origin, node: NodeDocument) -> Result<(), PlanError> {
        if self.node_index.insert(node.spec.name.clone(), self.nodes.len()).is_some() {
            let problem = format!("a node called `{}` was given before; keep one", node.spec.name);
            return Err(PlanError::of(origin, "metadata.name", problem));
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Takes note of tasks that run already.
    fn seat(
        &mut self,
        jobs: &BTreeMap<String, usize>,
        origin: &Origin,
        allocation: Allocation,
    ) -> Result<(), PlanError> {
        let Some(job) = jobs.get(&allocation.job).and_then(|at| self.jobs.get_mut(*at)) else {
            let problem = format!("no Job called `{}` is in either file; its size is not known", allocation.job);
            return Err(PlanError::of(origin, "spec.job", problem));
        };
        if !job.spec.groups.iter().any(|group| group.name == allocation.group) {
            let known: Vec<&str> = job.spec.groups.iter().map(|group| group.name.as_str()).collect();
            let problem = format!(
                "job `{}` has no group called `{}`; it has {}",
                allocation.job,
                allocation.group,
                known.join(", ")
            );
            return Err(PlanError::of(origin, "spec.group", problem));
        }
        job.stands.push(allocation);
        Ok(())
    }

    /// Adds empty nodes like one that is there.
    fn extend(&mut self, addition: &Addition) -> Result<(), PlanError> {
        let Some(&at) = self.node_index.get(&addition.like) else {
            let problem = format!("--like {}: the cell file has no such node", addition.like);
            return Err(PlanError::Question(problem + &self.suggest_node(&addition.like)));
        };
        let pattern = self.nodes[at].clone();
        let mut number = 0;
        for _ in 0..addition.count {
            let name = loop {
                number += 1;
                let name = format!("{}-new-{number}", addition.like);
                if !self.node_index.contains_key(&name) {
                    break name;
                }
            };
            let mut node = pattern.clone();
            (node.ready, node.unschedulable, node.used) = (true, false, Amounts::new());
            node.spec.labels.insert(ohm_model::node::HOSTNAME_LABEL.to_string(), name.clone());
            node.spec.name.clone_from(&name);
            self.node_index.insert(name, self.nodes.len());
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Puts parents before their children; what names no parent in the files stays where it is.
    fn sort_queues(&mut self) {
        let parents: BTreeMap<String, String> =
            self.queues.iter().map(|(_, queue)| (queue.name.clone(), queue.parent.clone())).collect();
        let depth = |name: &str| {
            let (mut at, mut depth) = (name, 0);
            while let Some(parent) = parents.get(at).filter(|_| depth <= parents.len()) {
                (at, depth) = (parent, depth + 1);
            }
            depth
        };
        self.queues.sort_by_key(|(_, queue)| depth(&queue.name));
    }
}

/// A pod of the cell file that is bound to no node.
fn unbound(name: String) -> IgnoredField {
    let reason = "it has no `nodeName`, so it takes no room; it is planned if it is in the job file";
    IgnoredField { kind: "Pod", name, field: "spec".into(), reason: Some(reason.into()) }
}

/// A pod of the job file that has finished.
fn over(name: String) -> IgnoredField {
    let reason = "it has finished, so it is not planned";
    IgnoredField { kind: "Pod", name, field: "status.phase".into(), reason: Some(reason.into()) }
}

/// A pod that is to be placed: on the node that it names, where it names one.
fn as_job(Pod { node, mut job, .. }: Pod) -> JobSpec {
    if node.is_empty() {
        return job;
    }
    let named = SelectorTerm::named(node);
    for group in &mut job.groups {
        if group.affinity.is_empty() {
            group.affinity.push(SelectorTerm::default());
        }
        group.affinity.iter_mut().for_each(|term| term.fields.extend(named.fields.iter().cloned()));
    }
    job
}

/// Adds `count` times `amounts` to `sum`.
pub(crate) fn add(sum: &mut Amounts, amounts: &Amounts, count: u32) {
    for (name, amount) in amounts {
        let more = amount.saturating_mul(i64::from(count));
        match sum.get_mut(name) {
            Some(amount) => *amount = amount.saturating_add(more),
            None => drop(sum.insert(name.clone(), more)),
        }
    }
}
