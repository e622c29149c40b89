//! `v1` Pod.

use super::{job, template};
use crate::decode::{Context, Fields};
use crate::defaults;
use crate::document::{Content, Pod};
use ohm_model::JobSpec;

/// The pod as a job of one task, and the node it is bound to.
pub(super) fn pod(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let spec = fields.require(cx, "spec", "what the pod is")?;
    let spec = Fields::open(cx, spec, &[])?;
    let phase = fields.get("status").and_then(|at| Some(at.node.get("phase")?.as_text()?.to_string()));
    let is_over = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    let is_ending = metadata.node.get("deletionTimestamp").is_some();
    let node = spec.text(cx, "nodeName").unwrap_or_default();
    let labels = job::labels(cx, Some(metadata));
    let mut group = job::pods(cx, (defaults::GROUP_NAME.to_string(), 1, labels), &spec, (Some(metadata), None));
    group.ports = template::host_ports(cx, &spec);
    let preempts = spec.text(cx, "preemptionPolicy").is_none_or(|policy| policy != "Never");
    let priority = spec.whole(cx, "priority", i64::from(i32::MIN)..=i64::from(i32::MAX)).unwrap_or(0);
    let job = JobSpec { preempts, priority, ..job::of_groups(cx, fields, vec![group])? };
    Some(Content::Pod(Box::new(Pod { node, is_over, is_ending, job })))
}
