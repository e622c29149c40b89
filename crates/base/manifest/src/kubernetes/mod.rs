//! Kubernetes objects as `kubectl get -o json` prints them, read as what `ohm plan` needs.
//!
//! `api` has the fields of each type, and which of them bear on where pods go. Of those, whatever no reader has asked
//! for when the object is read is named as ignored (`unread`): a reader that honours one more field takes it off the
//! list by reading it. A field that no table has is an error, but in objects with a `metadata.uid`: an API server has
//! stored those, so the field is newer than the tables, and ignored.
//!
//! | object | becomes |
//! |---|---|
//! | `v1` Node | a Node with its labels, taints, allocatable room (110 `pods` unless it says) and `Ready` condition |
//! | `v1` Pod | a job of one task, and the node it is bound to |
//! | `batch/v1` Job | a Job with one group, `main`, of `parallelism` tasks |
//! | `jobset.x-k8s.io` JobSet | a Job with one group per replicated job, of `replicas` × `parallelism` tasks |
//! | `apps/v1` Deployment, StatefulSet | a Job of class `service` with one group, `main`, of `replicas` tasks |
//! | `kueue.x-k8s.io` Topology | a Topology |
//! | `kueue.x-k8s.io` LocalQueue | a Subqueue |
//! | `v1` Namespace | a Namespace |
//! | `scheduling.k8s.io` PriorityClass | a PriorityClass |
//! | `policy` PodDisruptionBudget | a Budget, outside of `ohm plan` too; its status is not looked at |
//!
//! Kueue's annotations of the pod template (or of the job) say what a group asks of the topology. Whether a job is
//! suspended is not looked at: Kueue suspends every job until it admits it.

mod annotations;
mod api;
mod job;
mod metadata;
mod node;
mod outline;
mod pod;
mod strategy;
mod template;
mod unread;
mod workload;

use self::api::Type;
use crate::decode::{self, At, Context, Fields};
use crate::document::Content;
use crate::path::Trail;
use ohm_model::Namespace;

pub use annotations::QUEUE_LABEL;

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
    let problem = format!(
        "of Kubernetes' objects, Node, Pod, Job, JobSet, Deployment, StatefulSet, Topology, LocalQueue, PriorityClass, \
         PodDisruptionBudget, Namespace and List are read, not {}",
        crate::text::shorten(kind)
    );
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
