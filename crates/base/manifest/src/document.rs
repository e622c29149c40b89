//! Documents: what a file may hold.

use crate::aside::Aside;
use crate::defaults::LeftOpen;
use crate::error::Origin;
use crate::path::FieldPath;
use ohm_model::queue::SCHEDULING_NAME;
use ohm_model::resources::{Amounts, PODS};
use ohm_model::{
    Budget, ClassKind, JobSpec, Namespace, NodeSpec, PriorityClass, ProvisioningClass, QueueSpec, ResourceFlavor,
    Scheduling, SchedulingProfile, Subqueue, TopologySpec, job_name, split_job_name,
};

use std::collections::BTreeMap;

/// The API version that every document states.
pub const API_VERSION: &str = "ohm/v1";

/// One document that was read and found well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it stood.
    pub origin: Origin,
    /// What it says.
    pub content: Content,
    /// Of a job whose class is not built in: what it leaves to that class.
    pub left_open: Option<LeftOpen>,
    /// Of a job: when it was created, in microseconds since 1970, if the document says so. For `ohm plan`: a cell
    /// counts from when it gets the job.
    pub created_us: Option<i64>,
    /// Of a job or a budget: the namespace that its metadata name.
    pub namespace: Option<String>,
    /// Of an object of Kubernetes: what is to be said of it, if there is anything.
    pub kubernetes: Option<Box<KubernetesObject>>,
    /// What it says that no cell is told, if it says such a thing.
    pub aside: Option<Box<Aside>>,
}

/// What an object of Kubernetes asks for that its content does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesObject {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Fields that bear on where pods go and that are not honoured, in the order of the file.
    pub ignored: Vec<Ignored>,
    /// Other objects that it names. Whether they are there is known when all documents are.
    pub names: Vec<Named>,
}

/// A field that is not honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The field.
    pub field: FieldPath,
    /// Why, where there is more to say than that nothing honours it.
    pub reason: Option<String>,
}

/// A field that names another object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The field.
    pub field: FieldPath,
    /// What is named.
    pub what: NamedKind,
    /// Its name.
    pub name: String,
}

/// What a field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedKind {
    /// The queue or subqueue of a job, or the queue of a subqueue.
    Queue,
    /// The priority class of the pods of a job.
    PriorityClass,
}

impl Document {
    /// Puts a job or budget whose metadata name no namespace into this one.
    pub fn in_namespace(&mut self, namespace: &str) {
        let name = match &mut self.content {
            Content::Job(job) => &mut job.name,
            Content::Pod(pod) => &mut pod.job.name,
            Content::Budget(budget) => &mut budget.name,
            _ => return,
        };
        if self.namespace.is_none() {
            *name = job_name(namespace, split_job_name(name).1);
        }
    }

    /// Fills in what a job leaves to its class, which is like `kind`. Until then it is as one of batch.
    pub fn for_class_like(&mut self, kind: ClassKind) {
        if let (Content::Job(job), Some(left_open)) = (&mut self.content, self.left_open.take()) {
            left_open.fill(job, kind);
        }
    }
}

/// What a document says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// `kind: Job`.
    Job(Box<JobSpec>),
    /// `kind: Queue` or `kind: Cohort`.
    Queue(QueueSpec),
    /// `kind: Subqueue`.
    Subqueue(Subqueue),
    /// `kind: ResourceFlavor`.
    ResourceFlavor(Box<ResourceFlavor>),
    /// `kind: Scheduling`; its name is always the same.
    Scheduling(Scheduling),
    /// `kind: Topology`.
    Topology(TopologySpec),
    /// `kind: Node`.
    Node(Box<NodeDocument>),
    /// `kind: Namespace`.
    Namespace(Namespace),
    /// `kind: Budget`.
    Budget(Box<Budget>),
    /// `kind: PriorityClass`.
    PriorityClass(PriorityClass),
    /// `kind: ProvisioningClass`.
    ProvisioningClass(Box<ProvisioningClass>),
    /// `kind: SchedulingProfile`.
    SchedulingProfile(Box<SchedulingProfile>),
    /// `kind: Allocation`.
    Allocation(Allocation),
    /// A pod of Kubernetes.
    Pod(Box<Pod>),
}

impl Content {
    /// The kind and, where there is one, the name: no two documents of a file may share both.
    pub fn identity(&self) -> (&'static str, Option<&str>) {
        match self {
            Content::Job(job) => ("Job", Some(&job.name)),
            Content::Queue(queue) => ("Queue or Cohort", Some(&queue.name)),
            Content::Subqueue(subqueue) => ("Subqueue", Some(&subqueue.name)),
            Content::ResourceFlavor(flavor) => ("ResourceFlavor", Some(&flavor.name)),
            Content::Scheduling(_) => ("Scheduling", Some(SCHEDULING_NAME)),
            Content::Topology(topology) => ("Topology", Some(&topology.name)),
            Content::Node(node) => ("Node", Some(&node.spec.name)),
            Content::Namespace(namespace) => ("Namespace", Some(&namespace.name)),
            Content::Budget(budget) => ("Budget", Some(&budget.name)),
            Content::PriorityClass(class) => ("PriorityClass", Some(&class.name)),
            Content::ProvisioningClass(class) => ("ProvisioningClass", Some(&class.name)),
            Content::SchedulingProfile(profile) => ("SchedulingProfile", Some(&profile.name)),
            Content::Allocation(_) => ("Allocation", None),
            Content::Pod(_) => ("Pod", None),
        }
    }
}

/// A node as a file states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDocument {
    /// The node; its capacity is `status.allocatable`, or `status.capacity` where that is not given.
    pub spec: NodeSpec,
    /// Whether new work is kept away.
    pub unschedulable: bool,
    /// Whether no `Ready` condition says otherwise.
    pub ready: bool,
    /// What others take, Allocations not included; may be more than the capacity.
    pub used: Amounts,
}

/// Tasks that run already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The job's name.
    pub job: String,
    /// The group's name.
    pub group: String,
    /// The node's name; a node that no file knows is gone.
    pub node: String,
    /// How many tasks.
    pub count: u32,
    /// The flavor of each resource that has one; empty where the labels of the node tell.
    pub flavors: BTreeMap<String, String>,
    /// When its quota was reserved, in microseconds since 1970; without it before all others.
    pub reserved_us: Option<i64>,
    /// Whether the tasks are being stopped.
    pub evicting: bool,
}

/// A pod of Kubernetes: a job of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The node it is bound to; empty when it is bound to none.
    pub node: String,
    /// Whether it has finished.
    pub is_over: bool,
    /// Whether it is being deleted.
    pub is_ending: bool,
    /// What it is as a job that asks for any node.
    pub job: JobSpec,
}

impl Pod {
    /// Whether it takes room on its node.
    pub fn stands(&self) -> bool {
        !self.node.is_empty() && !self.is_over
    }

    /// What it takes on its node, `pods` included.
    pub fn amounts(&self) -> Amounts {
        let mut amounts = self.job.groups.first().map(|group| group.requests.clone()).unwrap_or_default();
        amounts.insert(PODS.to_string(), 1);
        amounts
    }
}

/// Whose documents a file may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// What a cell takes: documents of `ohm/v1`, and objects of Kubernetes that run here whole or not at all.
    #[default]
    Ohm,
    /// All objects of Kubernetes that say what planning needs, as `kubectl get -o json` prints them.
    Kubernetes,
    /// The same, and of them what only reports are made from is kept as well: [`Aside`].
    KubernetesInFull,
}
