//! `apps/v1` Deployment and StatefulSet: services of equal pods that go on until somebody ends them.
//!
//! What such a controller has that a service does not is refused by its field.

use super::env::{Numbers, Pods};
use super::{job, strategy, task, template};
use crate::decode::{At, Context, Fields, label_selector};
use crate::defaults;
use crate::document::Content;
use crate::limits::COUNT_RANGE;
use ohm_model::selector::Labels;
use ohm_model::{Class, ClassKind, GroupSpec, JobSpec, RolloutStrategy};

/// Whether all replicas start at once.
const POD_MANAGEMENT: [(&str, bool); 2] = [("OrderedReady", false), ("Parallel", true)];

/// What a Deployment is as a service.
pub(super) fn deployment(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let spec = fields.require(cx, "spec", "its `selector` and `template`")?;
    let spec = Fields::open(cx, spec, &[])?;
    let strategy = strategy::of_deployment(cx, &spec);
    let group = replicas(cx, &spec, Numbers::None)?;
    service(cx, fields, group, strategy)
}

/// What a StatefulSet is as a service: the rank of a task is the ordinal of its pod.
pub(super) fn stateful_set(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let at = fields.require(cx, "spec", "its `selector`, `serviceName` and `template`")?;
    let spec = Fields::open(cx, at, &[])?;
    // The endpoints of a group are in the order of its ranks: there is nothing to make for it.
    spec.text(cx, "serviceName");
    let policy = spec.get("podManagementPolicy");
    if policy.as_ref().map_or(Some(false), |at| at.choice(cx, &POD_MANAGEMENT)) == Some(false) {
        let ordered = "`OrderedReady`, the default, starts one replica after the other; tasks of a group start together: \
                       write `podManagementPolicy: Parallel`";
        policy.unwrap_or(at).rule(cx, ordered);
    }
    if let Some(at) = spec.get("volumeClaimTemplates").filter(|at| !at.is_empty_list()) {
        at.rule(cx, "tasks have no volumes of their own; leave it out");
    }
    if let Some(at) = spec.get("ordinals")
        && let Some(ordinals) = Fields::open(cx, at, &[])
        && let Some(start) = ordinals.get("start").filter(|at| !at.node.is_written("0"))
    {
        start.rule(cx, "ranks begin with 0; leave it out");
    }
    let strategy = strategy::of_stateful_set(cx, &spec);
    let group = replicas(cx, &spec, Numbers::Ordinals)?;
    service(cx, fields, group, strategy)
}

/// The pods of a controller as a group: `replicas` of its template, which its `selector` has to mean.
fn replicas(cx: &mut Context, spec: &Fields<'_>, numbers: Numbers) -> Option<GroupSpec> {
    let count = spec.get("replicas").map_or(Some(1), |at| {
        if at.node.is_written("0") {
            at.rule(cx, "a service has at least 1 task; leave the whole object out while nothing of it is to run");
            return None;
        }
        at.whole(cx, COUNT_RANGE)
    });
    let selector = spec.require(cx, "selector", "which pods are its own, such as `{matchLabels: {app: web}}`");
    let template = spec.require(cx, "template", "the pod template")?;
    let template = Fields::open(cx, template, &[])?;
    let metadata = template.get("metadata");
    let labels = job::labels(cx, metadata);
    if let Some(at) = selector {
        check_selector(cx, at, &labels);
    }
    let pod = template.require(cx, "spec", "what a pod is")?;
    let pod = Fields::open(cx, pod, &[])?;
    if let Some(at) = pod.get("restartPolicy").filter(|at| !at.node.is_written("Always")) {
        at.rule(cx, "must be `Always`, the default: such pods go on until somebody ends them");
    }
    if let Some(at) = pod.get("activeDeadlineSeconds") {
        at.rule(cx, "is not for pods that go on until somebody ends them; leave it out");
    }
    let task = task::task(cx, &pod, Pods { labels: &labels, numbers });
    let pods = (defaults::GROUP_NAME.to_string(), count.unwrap_or(1), labels);
    let group = job::pods(cx, pods, &pod, (metadata, None));
    let (min_count, elastic, spread) = defaults::group(ClassKind::Service, group.count, false);
    let ports = template::host_ports(cx, &pod);
    let task = task::reached_at(&ports, task);
    let group = GroupSpec { ports, min_count, elastic, spread, task, ..group };
    count.map(|_| group)
}

fn check_selector(cx: &mut Context, at: At<'_>, labels: &Labels) {
    let Some(requirements) = label_selector(cx, at) else { return };
    if requirements.is_empty() {
        at.rule(cx, "is empty; name labels of the template, such as `matchLabels: {app: web}`");
    } else if !requirements.iter().all(|requirement| requirement.matches(labels)) {
        at.rule(cx, "does not match the labels of `template`; make them the same");
    }
}

fn service(
    cx: &mut Context,
    fields: &Fields<'_>,
    group: GroupSpec,
    strategy: Option<Box<RolloutStrategy>>,
) -> Option<Content> {
    let job = job::of_groups(cx, fields, vec![group])?;
    let on_disconnect = defaults::on_disconnect(ClassKind::Service);
    Some(Content::Job(Box::new(JobSpec { class: Class::SERVICE, on_disconnect, strategy, ..job })))
}
