//! `v1` Pod, and what the pods of a template ask for.

use super::job;
use crate::decode::{At, Context, Fields};
use crate::defaults;
use crate::document::{Content, Pod};
use crate::quantity::Rounding;
use ohm_model::resources::Amounts;
use ohm_model::{GroupSpec, JobSpec};

/// The pod as a job of one task, and the node it is bound to. Of one that is bound, only what it takes is read: where
/// it may stand was decided.
pub(super) fn pod(cx: &mut Context, fields: &Fields<'_>) -> Option<Content> {
    let metadata = fields.require(cx, "metadata", "at least `{name: NAME}`")?;
    let spec = fields.require(cx, "spec", "what the pod is")?;
    let spec = Fields::open(cx, spec, &[])?;
    let phase = fields.get("status").and_then(|at| Some(at.node.get("phase")?.as_text()?.to_string()));
    let is_over = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
    let node = spec.text(cx, "nodeName").unwrap_or_default();
    let name = defaults::GROUP_NAME.to_string();
    let group = match node.is_empty() && !is_over {
        true => job::pods(cx, (name, 1), &spec, (Some(metadata), None)),
        false => GroupSpec { requests: requests(cx, &spec), ..GroupSpec::gang(name, 1) },
    };
    let preempts = spec.text(cx, "preemptionPolicy").is_none_or(|policy| policy != "Never");
    let priority = spec.whole(cx, "priority", i64::from(i32::MIN)..=i64::from(i32::MAX)).unwrap_or(0);
    let job = JobSpec { preempts, priority, ..job::of_groups(cx, fields, vec![group])? };
    Some(Content::Pod(Box::new(Pod { node, is_over, job })))
}

/// What one pod asks for, as Kubernetes counts it (KEP-753): the larger of its containers together and its largest step
/// of initialisation, where init containers that stay (`restartPolicy: Always`) count with everything that starts after
/// them; and the overhead. Requests of the pod as a whole go before those of its containers.
pub(super) fn requests(cx: &mut Context, spec: &Fields<'_>) -> Amounts {
    let (mut staying, mut initial) = (Amounts::new(), Amounts::new());
    let init = spec.list(cx, "initContainers", |cx, at| {
        let stays = at.node.get("restartPolicy").and_then(crate::tree::Node::as_text) == Some("Always");
        Some((container(cx, at)?, stays))
    });
    for (amounts, stays) in init {
        if stays {
            add(&mut staying, &amounts);
            raise(&mut initial, &staying);
        } else {
            let mut step = staying.clone();
            add(&mut step, &amounts);
            raise(&mut initial, &step);
        }
    }
    let mut sum = staying;
    spec.list(cx, "containers", container).iter().for_each(|amounts| add(&mut sum, amounts));
    raise(&mut sum, &initial);
    if let Some(whole) = spec.get("resources").and_then(|at| resources(cx, at)) {
        sum.extend(whole);
    }
    if let Some(overhead) = spec.get("overhead") {
        let overhead = overhead.amounts(cx, Rounding::Up);
        add(&mut sum, &overhead);
    }
    sum.retain(|_, amount| *amount > 0);
    sum
}

fn container(cx: &mut Context, at: At<'_>) -> Option<Amounts> {
    let fields = Fields::open(cx, at, &[])?;
    Some(fields.get("resources").and_then(|at| resources(cx, at)).unwrap_or_default())
}

/// `requests`; a resource that only has a limit is asked for up to it.
fn resources(cx: &mut Context, at: At<'_>) -> Option<Amounts> {
    let fields = Fields::open(cx, at, &[])?;
    let mut amounts = fields.get("limits").map(|at| at.amounts(cx, Rounding::Up)).unwrap_or_default();
    if let Some(requests) = fields.get("requests") {
        amounts.extend(requests.amounts(cx, Rounding::Up));
    }
    Some(amounts)
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = sum.entry(name.clone()).or_insert(0);
        *entry = entry.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = most.entry(name.clone()).or_insert(0);
        *entry = (*entry).max(*amount);
    }
}

/// The host ports that the containers of a pod ask for.
pub(super) fn host_ports(cx: &mut Context, spec: &Fields<'_>) -> Vec<u16> {
    let mut ports: Vec<u16> = Vec::new();
    let of_container = |cx: &mut Context, at: At<'_>| {
        let fields = Fields::open(cx, at, &[])?;
        let ports = fields.list(cx, "ports", |cx, at| {
            let fields = Fields::open(cx, at, &[])?;
            fields.whole(cx, "hostPort", 0..=i64::from(u16::MAX))
        });
        Some(ports)
    };
    spec.list(cx, "containers", of_container).into_iter().flatten().for_each(|port: u16| {
        if port != 0 && !ports.contains(&port) {
            ports.push(port);
        }
    });
    ports
}
