//! Kubernetes objects as `kubectl get -o json` prints them, read as what `ohm plan` needs. They are not ours, so
//! fields that are not looked at are left alone, whatever they are called.
//!
//! | object | becomes |
//! |---|---|
//! | `v1` Node | a Node with its labels, taints, allocatable room and `Ready` condition |
//! | `v1` Pod | what it takes on its node; nothing while it is bound to none or after it finished |
//! | `batch/v1` Job | a Job with one group, `main`, of `parallelism` tasks |
//! | `jobset.x-k8s.io` JobSet | a Job with one group per replicated job, of `replicas` × `parallelism` tasks |
//! | `kueue.x-k8s.io` Topology | a Topology |
//!
//! Kueue's annotations of the pod template (or of the job) say what a group asks of the topology. Whether a job is
//! suspended is not looked at: Kueue suspends every job until it admits it.

mod annotations;
mod job;
mod metadata;
mod node;
mod pod;

use crate::decode::{self, At, Context, Fields};
use crate::document::Content;
use crate::path::Trail;

/// Where Kueue's labels and annotations live.
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Reads the object at `root` if `version` is one of Kubernetes'.
pub(crate) fn decode(cx: &mut Context, root: At<'_>, version: &str, kind: &str) -> Option<Option<Content>> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let content = match (group, kind) {
        ("", "Node") if version == "v1" => read(cx, root, node::node),
        ("", "Pod") if version == "v1" => read(cx, root, pod::pod),
        ("batch", "Job") => read(cx, root, job::job),
        ("jobset.x-k8s.io", "JobSet") => read(cx, root, job::job_set),
        ("kueue.x-k8s.io", "Topology") => read(cx, root, topology),
        ("", _) if version == "v1" => unknown(cx, root, kind),
        ("batch" | "jobset.x-k8s.io" | "kueue.x-k8s.io", _) => unknown(cx, root, kind),
        _ => return None,
    };
    Some(content)
}

fn read(
    cx: &mut Context,
    root: At<'_>,
    read: impl FnOnce(&mut Context, &Fields<'_>) -> Option<Content>,
) -> Option<Content> {
    cx.foreign = true;
    let fields = Fields::open(cx, root, &[])?;
    read(cx, &fields)
}

fn unknown(cx: &mut Context, root: At<'_>, kind: &str) -> Option<Content> {
    let at = root.node.get("kind").unwrap_or(root.node);
    let problem = format!(
        "of Kubernetes' objects, Node, Pod, Job, JobSet, Topology and List are read, not {}",
        crate::text::shorten(kind)
    );
    cx.report(at.position, Trail::Field(&root.trail, "kind"), || crate::ProblemKind::Rule(problem));
    None
}

fn topology(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let name = metadata::name(cx, fields)?;
    let spec = fields.require(cx, "spec", "its `levels`")?;
    decode::topology(cx, name, spec).map(Content::Topology)
}
