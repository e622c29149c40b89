//! `batch/v1` Job and JobSet.

use super::annotations::QUEUE_LABEL;
use super::metadata::name;
use super::{annotations, outline, template};
use crate::decode::name_of_job;
use crate::decode::{At, Context, Fields, neighbours, node_affinity, toleration};
use crate::defaults;
use crate::document::{Content, Named, NamedKind};
use crate::limits::COUNT_RANGE;
use crate::path::Trail;
use ohm_model::job::TASKS_MAX;
use ohm_model::selector::Labels;
use ohm_model::{GroupSpec, JobSpec, TaskSpec};

const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";

pub(super) fn job(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let spec = fields.require(cx, "spec", "what the job runs")?;
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let mut group = group(cx, defaults::GROUP_NAME.to_string(), 1, spec, Some(metadata))?;
    let minimum = metadata.node.get("annotations").and_then(|node| node.get(MIN_PARALLELISM));
    if let Some(node) = minimum {
        let trail = Trail::Field(&metadata.trail, "annotations");
        group.min_count = annotations::whole(cx, At { node, trail })?.min(group.count);
    }
    finish(cx, fields, vec![group])
}

pub(super) fn job_set(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let spec = fields.require(cx, "spec", "its `replicatedJobs`")?;
    let spec = Fields::open(cx, spec, &[])?;
    let jobs = spec.require(cx, "replicatedJobs", "at least one job template")?;
    let groups = jobs.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[])?;
        let name = fields.require(cx, "name", "the name of the replicated job")?.text(cx)?;
        let replicas: u32 = fields.whole(cx, "replicas", 0..=*COUNT_RANGE.end()).unwrap_or(1);
        let template = fields.require(cx, "template", "the job's template")?;
        let template = Fields::open(cx, template, &[])?;
        let spec = template.require(cx, "spec", "what the job runs")?;
        (replicas > 0).then(|| group(cx, name, replicas, spec, template.get("metadata")))?
    });
    finish(cx, fields, groups)
}

/// The pods of `replicas` equal jobs as one group.
fn group(cx: &mut Context, name: String, replicas: u32, at: At<'_>, metadata: Option<At<'_>>) -> Option<GroupSpec> {
    let job = Fields::open(cx, at, &[])?;
    let range = || 0..=*COUNT_RANGE.end();
    let completions: Option<u32> = job.whole(cx, "completions", range());
    let parallelism: u32 = job.whole(cx, "parallelism", range()).unwrap_or(1);
    let parallelism = parallelism.min(completions.unwrap_or(u32::MAX)).max(1);
    let count = parallelism.saturating_mul(replicas);
    if count > TASKS_MAX {
        at.rule(cx, format!("{replicas} times {parallelism} pods; at most {TASKS_MAX} are possible"));
        return None;
    }
    let template = job.require(cx, "template", "the pod template")?;
    let template = Fields::open(cx, template, &[])?;
    let pod = template.require(cx, "spec", "what a pod is")?;
    let pod = Fields::open(cx, pod, &[])?;
    let metadata = template.get("metadata").or(metadata);
    let labels = labels(cx, template.get("metadata"));
    let replicas = Some(parallelism).filter(|_| replicas > 1);
    let group = pods(cx, (name, count, labels), &pod, (metadata, replicas));
    Some(GroupSpec { ports: template::host_ports(cx, &pod), ..group })
}

/// The labels in these metadata.
pub(super) fn labels(cx: &mut Context, metadata: Option<At<'_>>) -> Labels {
    let fields = metadata.and_then(|at| Fields::open(cx, at, &[]));
    fields.map(|fields| fields.labels(cx, "labels")).unwrap_or_default()
}

/// So many equal pods with these labels, whose template has this metadata, without host ports; `replicas` are those of
/// one job where they are of several.
pub(super) fn pods(
    cx: &mut Context,
    (name, count, labels): (String, u32, Labels),
    pod: &Fields<'_>,
    (metadata, replicas): (Option<At<'_>>, Option<u32>),
) -> GroupSpec {
    let notes = metadata.and_then(|at| Some((at, inside(at, &["annotations"])?)));
    let notes = notes.as_ref().map(|(at, node)| At { node, trail: Trail::Field(&at.trail, "annotations") });
    let (topology, place_with) = annotations::read(cx, notes, replicas);
    name_object(cx, NamedKind::PriorityClass, pod.get("priorityClassName"));
    let affinity = pod.get("affinity").and_then(|at| node_affinity(cx, at)).unwrap_or_default();
    let (requests, limits) = template::resources(cx, pod);
    if cx.reads_in_full() {
        let outline = outline::of_pods(cx, pod);
        cx.aside().pods.push(outline);
    }
    GroupSpec {
        neighbours: neighbours(cx, pod, &labels),
        labels,
        requests,
        limits,
        node_selector: pod.labels(cx, "nodeSelector"),
        affinity: affinity.required,
        preferred: affinity.preferred,
        tolerations: pod.list(cx, "tolerations", toleration),
        topology,
        place_with,
        task: TaskSpec { grace_ms: defaults::GRACE_MS, ..TaskSpec::default() },
        ..GroupSpec::gang(name, count)
    }
}

fn finish(cx: &mut Context, fields: &Fields<'_>, groups: Vec<GroupSpec>) -> Option<Content> {
    of_groups(cx, fields, groups).map(|job| Content::Job(Box::new(job)))
}

/// A job of these groups with the name, the labels and the queue of its object.
pub(super) fn of_groups(cx: &mut Context, fields: &Fields<'_>, groups: Vec<GroupSpec>) -> Option<JobSpec> {
    let name = name(cx, fields)?;
    let name = name_of_job(cx, fields, &name);
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let metadata = Fields::open(cx, metadata, &[])?;
    let labels = metadata.labels(cx, "labels");
    let of_queue = metadata.get("labels").and_then(|at| Fields::open(cx, at, &[]));
    name_object(cx, NamedKind::Queue, of_queue.as_ref().and_then(|labels| labels.get(QUEUE_LABEL)));
    let class = defaults::class(groups.iter().any(|group| group.topology.is_asked()));
    let on_disconnect = defaults::on_disconnect(defaults::kind_of(class));
    Some(JobSpec { labels, on_disconnect, ..JobSpec::of(name, class, groups) })
}

/// Takes note of the object that the field at `at` names.
fn name_object(cx: &mut Context, what: NamedKind, at: Option<At<'_>>) {
    let Some(at) = at else { return };
    let name = at.text(cx).filter(|name| !name.is_empty());
    cx.names.extend(name.map(|name| Named { field: at.trail.to_path(), what, name }));
}

/// The map under `path`, if every step is there.
fn inside<'s>(at: At<'s>, path: &[&str]) -> Option<&'s crate::tree::Node<'s>> {
    path.iter().try_fold(at.node, |node, step| node.get(step))
}
