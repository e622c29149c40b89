//! `batch/v1` Job and JobSet.

use super::annotations::QUEUE_LABEL;
use super::course::{self, Course};
use super::env::{Numbers, Pods};
use super::metadata::name;
use super::{annotations, outline, task, template};
use crate::decode::name_of_job;
use crate::decode::{At, Context, Fields, neighbours, node_affinity, toleration};
use crate::defaults;
use crate::document::{Content, Named, NamedKind};
use crate::limits::COUNT_RANGE;
use crate::path::Trail;
use ohm_model::job::TASKS_MAX;
use ohm_model::selector::Labels;
use ohm_model::{Class, ClassKind, GroupSpec, JobSpec, TaskSpec};

const MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";

pub(super) fn job(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let spec = fields.require(cx, "spec", "what the job runs")?;
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let (mut group, course) = group(cx, (defaults::GROUP_NAME.to_string(), None), spec, Some(metadata))?;
    let minimum = metadata.node.get("annotations").and_then(|node| node.get(MIN_PARALLELISM));
    if let Some(node) = minimum {
        let trail = Trail::Field(&metadata.trail, "annotations");
        group.min_count = annotations::whole(cx, At { node, trail })?.min(group.count);
    }
    let job = of_groups(cx, fields, vec![group])?;
    let job = if cx.runs() { singly(course.of(job)) } else { job };
    Some(Content::Job(Box::new(job)))
}

/// A job that asks for nothing of the topology and waits in no queue starts as room comes, as its pods do.
fn singly(mut job: JobSpec) -> JobSpec {
    let is_free = job.queue.is_empty() && job.class == Class::BATCH;
    for group in job.groups.iter_mut().filter(|group| is_free && group.count > 1 && group.min_count == group.count) {
        let (min_count, elastic, spread) = defaults::group(ClassKind::Batch, group.count, true);
        (group.min_count, group.elastic, group.spread) = (min_count, elastic, spread);
    }
    job
}

pub(super) fn job_set(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let spec = fields.require(cx, "spec", "its `replicatedJobs`")?;
    let set = Fields::open(cx, spec, &[])?;
    let jobs = set.require(cx, "replicatedJobs", "at least one job template")?;
    let mut courses: Vec<Course> = Vec::new();
    let groups = jobs.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[])?;
        let name = fields.require(cx, "name", "the name of the replicated job")?.text(cx)?;
        let replicas = replicas(cx, &fields);
        let template = fields.require(cx, "template", "the job's template")?;
        let template = Fields::open(cx, template, &[])?;
        let spec = template.require(cx, "spec", "what the job runs")?;
        let read = (replicas > 0).then(|| group(cx, (name, Some(replicas)), spec, template.get("metadata")));
        let (group, course) = read??;
        if cx.runs() {
            course.check_part(cx, spec, courses.first());
            courses.push(course);
        }
        Some(group)
    });
    let course = cx.runs().then(|| Course::read_set(cx, &set, &courses));
    let mut job = of_groups(cx, fields, groups)?;
    if let Some(course) = course {
        job = course.of(job);
    }
    Some(Content::Job(Box::new(job)))
}

/// How many equal jobs there are. Where they run none at all is refused, so that all that is wrong is found.
fn replicas(cx: &mut Context, fields: &Fields<'_>) -> u32 {
    let Some(at) = fields.get("replicas") else { return 1 };
    let replicas = at.whole(cx, 0..=*COUNT_RANGE.end()).unwrap_or(1);
    if replicas == 0 && cx.runs() {
        at.rule(cx, "is 0, with which there is nothing to run; leave the whole job out");
        return 1;
    }
    replicas
}

/// The pods of a job as a group, or those of so many equal jobs of a JobSet, and how it goes where it is to run.
fn group(
    cx: &mut Context,
    (name, replicas): (String, Option<u32>),
    at: At<'_>,
    metadata: Option<At<'_>>,
) -> Option<(GroupSpec, Course)> {
    let job = Fields::open(cx, at, &[])?;
    let parallelism = if cx.runs() { course::count(cx, &job) } else { planned_count(cx, &job) };
    let (course, numbers) = match cx.runs() {
        true => (Course::read(cx, &job, parallelism), course::numbers(cx, &job, replicas)),
        false => (Course::default(), Numbers::None),
    };
    let replicas = replicas.unwrap_or(1);
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
    if let Some(at) = pod.get("restartPolicy").filter(|at| cx.runs() && at.node.is_written("Always")) {
        at.rule(cx, "must be `Never` or `OnFailure`: a task that has succeeded is over");
    }
    let task = task::task(cx, &pod, Pods { labels: &labels, numbers });
    let replicas = Some(parallelism).filter(|_| replicas > 1);
    let group = pods(cx, (name, count, labels), &pod, (metadata, replicas));
    let ports = template::host_ports(cx, &pod);
    let task = task::reached_at(&ports, task);
    Some((GroupSpec { ports, task, ..group }, course))
}

/// How many pods a job has at once.
fn planned_count(cx: &mut Context, job: &Fields<'_>) -> u32 {
    let range = || 0..=*COUNT_RANGE.end();
    let completions: Option<u32> = job.whole(cx, "completions", range());
    let parallelism: u32 = job.whole(cx, "parallelism", range()).unwrap_or(1);
    parallelism.min(completions.unwrap_or(u32::MAX)).max(1)
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
    let (queue, priority_class) = if cx.runs() { named(cx) } else { Default::default() };
    Some(JobSpec { labels, on_disconnect, queue, priority_class, ..JobSpec::of(name, class, groups) })
}

/// The queue and the priority class that the object names. Where it is planned, they count if the files have them.
fn named(cx: &Context) -> (String, String) {
    let first = |what| cx.names.iter().find(|named| named.what == what).map(|named| named.name.clone());
    (first(NamedKind::Queue).unwrap_or_default(), first(NamedKind::PriorityClass).unwrap_or_default())
}

/// Takes note of the object that the field at `at` names.
fn name_object(cx: &mut Context, what: NamedKind, at: Option<At<'_>>) {
    let Some(at) = at else { return };
    let Some(name) = at.text(cx).filter(|name| !name.is_empty()) else { return };
    let other = cx.names.iter().find(|named| named.what == what && named.name != name);
    if let Some(other) = other.filter(|_| cx.runs()) {
        let problem = format!("differs from `{}`, and a job has one priority; write the same for all", other.name);
        at.rule(cx, problem);
    }
    cx.names.push(Named { field: at.trail.to_path(), what, name });
}

/// The map under `path`, if every step is there.
fn inside<'s>(at: At<'s>, path: &[&str]) -> Option<&'s crate::tree::Node<'s>> {
    path.iter().try_fold(at.node, |node, step| node.get(step))
}
