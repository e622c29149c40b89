//! The documents that describe a cell: nodes, topologies, priority classes, and what runs already.

use super::selectors::EFFECTS;
use super::{At, Context, Fields};
use crate::defaults;
use crate::document::{Allocation, NodeDocument};
use crate::limits::COUNT_RANGE;
use crate::quantity::Rounding;
use ohm_model::resources::Amounts;
use ohm_model::selector::Labels;
use ohm_model::{NodeSpec, PriorityClass, Taint, TopologySpec};

/// Reads `spec` and `status` of a node; either may be missing.
pub(crate) fn node(
    cx: &mut Context,
    name: String,
    labels: Labels,
    spec: Option<At<'_>>,
    status: Option<At<'_>>,
) -> Option<NodeDocument> {
    let spec = spec.and_then(|at| Fields::open(cx, at, &[&["taints", "unschedulable"]]));
    let taints = spec.as_ref().map_or_else(Vec::new, |fields| fields.list(cx, "taints", taint));
    let unschedulable = spec.as_ref().and_then(|fields| fields.boolean(cx, "unschedulable")).unwrap_or(false);
    let known: &[&str] = &["capacity", "allocatable", "used", "conditions", "addresses"];
    let status = status.and_then(|at| Fields::open(cx, at, &[known]));
    let (mut amounts, mut used, mut ready, mut address) = (Amounts::new(), Amounts::new(), true, String::new());
    if let Some(fields) = &status {
        let capacity = fields.get("capacity").map(|at| at.amounts(cx, Rounding::Down));
        let allocatable = fields.get("allocatable").map(|at| at.amounts(cx, Rounding::Down));
        amounts = allocatable.or(capacity).unwrap_or_default();
        used = fields.get("used").map(|at| at.amounts(cx, Rounding::Up)).unwrap_or_default();
        ready = fields.list(cx, "conditions", condition).into_iter().all(|ready| ready);
        address = fields.list(cx, "addresses", internal_address).into_iter().next().unwrap_or_default();
    }
    let spec = NodeSpec { name, labels, taints, capacity: amounts, address };
    Some(NodeDocument { spec, unschedulable, ready, used })
}

pub(super) fn taint(cx: &mut Context, at: At<'_>) -> Option<Taint> {
    let fields = Fields::open(cx, at, &[&["key", "value", "effect"]])?;
    let key = fields.require(cx, "key", "the taint's key")?.text(cx);
    let effect = fields.require(cx, "effect", "NoSchedule, PreferNoSchedule or NoExecute")?;
    let effect = effect.choice(cx, &EFFECTS);
    Some(Taint { key: key?, value: fields.text(cx, "value").unwrap_or_default(), effect: effect? })
}

/// Whether a condition leaves the node ready. Only `Ready` is looked at; other types are for people.
fn condition(cx: &mut Context, at: At<'_>) -> Option<bool> {
    let known: &[&str] = &["type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime"];
    let fields = Fields::open(cx, at, &[known])?;
    let kind = fields.require(cx, "type", "the condition's name, such as `Ready`")?.text(cx)?;
    let status = fields.require(cx, "status", "`True`, `False` or `Unknown`")?;
    let holds = match status.boolean_word() {
        Some(holds) => holds,
        None => status.choice(cx, &[("True", true), ("False", false), ("Unknown", false)])?,
    };
    Some(kind != "Ready" || holds)
}

fn internal_address(cx: &mut Context, at: At<'_>) -> Option<String> {
    let fields = Fields::open(cx, at, &[&["type", "address"]])?;
    let kind = fields.require(cx, "type", "`InternalIP`, or another type, which is not used")?.text(cx)?;
    let address = fields.require(cx, "address", "the address")?.text(cx)?;
    (kind == "InternalIP").then_some(address)
}

/// Reads the `spec` of a topology.
pub(crate) fn topology(cx: &mut Context, name: String, spec: At<'_>) -> Option<TopologySpec> {
    let fields = Fields::open(cx, spec, &[&["levels"]])?;
    let levels = fields.require(cx, "levels", "a list of `{nodeLabel: KEY}`, coarse to fine")?.list(cx, |cx, at| {
        let fields = Fields::open(cx, at, &[&["nodeLabel"]])?;
        fields.require(cx, "nodeLabel", "the label key of this level")?.text(cx)
    });
    Some(TopologySpec { name, levels })
}

/// Whether others may be stopped for a job, in the words of Kubernetes.
pub(crate) const PREEMPTION_POLICIES: [(&str, bool); 2] = [("PreemptLowerPriority", true), ("Never", false)];

/// Reads a priority class. As in Kubernetes its `value` stands beside `metadata`, not in a `spec`.
pub(crate) fn priority_class(cx: &mut Context, name: String, fields: &Fields<'_>) -> Option<PriorityClass> {
    let value = fields.require(cx, "value", "the priority, higher is placed first")?;
    let value = value.whole(cx, i64::from(i32::MIN)..=i64::from(i32::MAX))?;
    let description = fields.text(cx, "description").unwrap_or_default();
    let preempts = fields.get("preemptionPolicy").and_then(|at| at.choice(cx, &PREEMPTION_POLICIES)).unwrap_or(true);
    let global_default = fields.boolean(cx, "globalDefault").unwrap_or(false);
    Some(PriorityClass { name, value, preempts, description, global_default })
}

/// Reads the `spec` of an allocation.
pub(crate) fn allocation(cx: &mut Context, spec: At<'_>) -> Option<Allocation> {
    let known: &[&str] = &["job", "group", "node", "count", "flavors", "reservedAt", "evicting"];
    let fields = Fields::open(cx, spec, &[known])?;
    let job = fields.require(cx, "job", "the name of the job")?.text(cx);
    let node = fields.require(cx, "node", "the name of the node")?.text(cx);
    let count = fields.require(cx, "count", "how many tasks run there")?.whole(cx, COUNT_RANGE);
    let group = fields.text(cx, "group").unwrap_or_else(|| defaults::GROUP_NAME.to_string());
    let flavors = fields.get("flavors").map(|at| {
        at.map(cx, "a map of resources, such as `{cpu: spot}`", |cx, _, at| at.text(cx)).into_iter().collect()
    });
    let reserved_us = fields.get("reservedAt").and_then(|at| at.time_us(cx));
    let evicting = fields.boolean(cx, "evicting").unwrap_or(false);
    let flavors = flavors.unwrap_or_default();
    Some(Allocation { job: job?, group, node: node?, count: count?, flavors, reserved_us, evicting })
}
