//! Kubernetes objects as people write them and `kubectl get -o json` prints them.
//!
//! `ohm plan` reads all of them, as what planning needs. Those that `ohm submit` takes are read as what is to run
//! ([`Dialect::Ohm`](crate::Dialect::Ohm)), by the same readers: then the one container's program is read, too (`task`,
//! `env`), how a Job goes (`course`), and whatever nobody has read is refused (`running`), unless it bears on nothing.
//!
//! `api` has the fields of each type, and which of them bear on where pods go. Of those, whatever no reader has asked
//! for when the object is read to be planned is named as ignored (`unread`): a reader that honours one more field takes
//! it off the list by reading it. A field that no table has is an error, but in planned objects with a `metadata.uid`:
//! an API server has stored those, so the field is newer than the tables, and ignored.
//!
//! | object | becomes | runs |
//! |---|---|---|
//! | `apps/v1` Deployment, StatefulSet | a Job of class `service` with one group, `main`, of `replicas` tasks | yes |
//! | `batch/v1` Job | a Job with one group, `main`, of `parallelism` tasks | yes |
//! | `jobset.x-k8s.io` JobSet | a Job with one group per replicated job, of `replicas` × `parallelism` tasks | yes |
//! | `scheduling.k8s.io` PriorityClass | a PriorityClass | yes |
//! | `policy` PodDisruptionBudget | a Budget; its status is not looked at | yes |
//! | `v1` Node | a Node with its labels, taints, allocatable room (110 `pods` unless it says) and `Ready` condition | |
//! | `v1` Pod | a job of one task, and the node it is bound to | |
//! | `kueue.x-k8s.io` Topology | a Topology | |
//! | `kueue.x-k8s.io` LocalQueue | a Subqueue | |
//! | `v1` Namespace | a Namespace | |
//!
//! Kueue's annotations of the pod template (or of the job) say what a group asks of the topology, and its label
//! [`QUEUE_LABEL`] names the queue. Whether a job is suspended is not looked at where it is planned or names a queue:
//! Kueue suspends every job until it admits it.
//!
//! # What runs
//!
//! | field | means |
//! |---|---|
//! | `command`, `args`, `env`, `workingDir` of the container | the same of the group; `$(NAME)` is filled in as there |
//! | `env[].valueFrom.fieldRef` | `spec.nodeName`, `status.hostIP`, `status.podIP`, labels of the template, ranks |
//! | `containerPort`, `hostPort` | a port of the group: a task has those of its node, and both are one |
//! | probes | the same of the group; a port may be a name of the container's `ports` |
//! | `terminationGracePeriodSeconds` | the same; 30 unless said |
//! | memory that is asked for | needs a limit: without one a task ends at its request |
//! | `backoffLimit` (6) | `retries` of each task; above 0 of a single pod only, unless it is left out |
//! | `backoffLimitPerIndex` with `maxFailedIndexes: 0` | `retries` of each task |
//! | `completions` | as many as `parallelism`; the tasks start as room comes, those of a queue or topology together |
//! | `completionMode: Indexed` | `JOB_COMPLETION_INDEX` is the rank |
//! | `activeDeadlineSeconds`, `suspend` | the same of the job |
//! | `ttlSecondsAfterFinished` | the same; a day unless said |
//! | `restartPolicy` | `Always` of a service, else `Never` or `OnFailure`, which are the same |
//!
//! An `image` is refused: tasks are programs of their nodes. So are several containers, init containers, volumes,
//! security contexts, and whatever else a process of a node does not have.

mod annotations;
mod api;
mod course;
mod env;
mod job;
mod metadata;
mod node;
mod outline;
mod places;
mod pod;
mod running;
mod strategy;
mod task;
mod template;
mod unread;
mod workload;

use self::api::Type;
use crate::decode::{self, At, Context, Fields};
use crate::document::Content;
use crate::path::Trail;
use ohm_model::Namespace;

pub use annotations::QUEUE_LABEL;
pub(crate) use places::place;

/// Of the groups of the API those with objects that run here, or say something of what does.
const GROUPS_THAT_RUN: [&str; 5] = ["apps", "batch", "jobset.x-k8s.io", "policy", "scheduling.k8s.io"];

/// Whether objects of this version may be such as run here.
pub(crate) fn may_run(version: &str) -> bool {
    version.split_once('/').is_some_and(|(group, _)| GROUPS_THAT_RUN.contains(&group))
}

/// Reads the object at `root` if `version` is one of Kubernetes'.
pub(crate) fn decode(cx: &mut Context, root: At<'_>, version: &str, kind: &str) -> Option<Option<Content>> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let content = match (group, kind) {
        ("", "Node") if version == "v1" => read(cx, root, ("Node", &api::NODE), node::node),
        ("", "Pod") if version == "v1" => read(cx, root, ("Pod", &api::POD), pod::pod),
        ("batch", "Job") => read(cx, root, ("Job", &api::JOB), job::job),
        ("apps", "Deployment") => read(cx, root, ("Deployment", &api::DEPLOYMENT), workload::deployment),
        ("apps", "StatefulSet") => read(cx, root, ("StatefulSet", &api::STATEFUL_SET), workload::stateful_set),
        ("jobset.x-k8s.io", "JobSet") => read(cx, root, ("JobSet", &api::JOB_SET), job::job_set),
        ("kueue.x-k8s.io", "Topology") => read(cx, root, ("Topology", &api::TOPOLOGY), topology),
        ("kueue.x-k8s.io", "LocalQueue") => read(cx, root, ("LocalQueue", &api::LOCAL_QUEUE), local_queue),
        ("", "Namespace") if version == "v1" => read(cx, root, ("Namespace", &api::NAMESPACE), namespace),
        ("scheduling.k8s.io", "PriorityClass") => {
            read(cx, root, ("PriorityClass", &api::PRIORITY_CLASS), priority_class)
        }
        ("policy", "PodDisruptionBudget") => {
            read(cx, root, ("PodDisruptionBudget", &api::POD_DISRUPTION_BUDGET), pod_disruption_budget)
        }
        ("", _) if version == "v1" => unknown(cx, root, kind),
        ("apps" | "batch" | "jobset.x-k8s.io" | "kueue.x-k8s.io" | "scheduling.k8s.io" | "policy", _) => {
            unknown(cx, root, kind)
        }
        _ => return None,
    };
    Some(content)
}

fn read(
    cx: &mut Context,
    root: At<'_>,
    (kind, of): (&'static str, &'static Type),
    read: impl FnOnce(&mut Context, &Fields<'_>) -> Option<Content>,
) -> Option<Content> {
    cx.foreign = true;
    let fields = Fields::open(cx, root, &[])?;
    let content = read(cx, &fields);
    cx.object = unread::look(cx, root, (kind, of), content.as_ref());
    content
}

fn unknown(cx: &mut Context, root: At<'_>, kind: &str) -> Option<Content> {
    let at = root.node.get("kind").unwrap_or(root.node);
    let read = match cx.runs() {
        true => "Deployment, StatefulSet, Job, JobSet, PriorityClass and PodDisruptionBudget can be had",
        false => {
            "Node, Pod, Job, JobSet, Deployment, StatefulSet, Topology, LocalQueue, PriorityClass, PodDisruptionBudget, \
             Namespace and List are read"
        }
    };
    let problem = format!("of Kubernetes' objects, {read}, not {}", crate::text::shorten(kind));
    cx.report(at.position, Trail::Field(&root.trail, "kind"), || crate::ProblemKind::Rule(problem));
    None
}

fn namespace(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let metadata = fields.get("metadata").and_then(|at| Fields::open(cx, at, &[]));
    let labels = metadata.map(|metadata| metadata.labels(cx, "labels")).unwrap_or_default();
    Some(Content::Namespace(Namespace { name, labels }))
}

fn pod_disruption_budget(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let name = decode::name_of_job(cx, fields, &name);
    let budget = decode::pod_disruption_budget(cx, name, fields.get("spec"))?;
    Some(Content::Budget(Box::new(budget)))
}

fn priority_class(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    decode::priority_class(cx, name, fields).map(Content::PriorityClass)
}

fn local_queue(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let spec = fields.require(cx, "spec", "its `clusterQueue`")?;
    decode::local_queue(cx, name, spec).map(Content::Subqueue)
}

fn topology(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let spec = fields.require(cx, "spec", "its `levels`")?;
    decode::topology(cx, name, spec).map(Content::Topology)
}
