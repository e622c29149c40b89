//! The filters by name, in the order they are asked. Each one knows one reason; a node is counted under the first that
//! keeps it out. They are the cell's own rules asked one by one, so none of them can be switched off: what they let
//! through wrongly would be refused at commit.

use crate::devices::DeviceRoom;
use crate::subject::Subject;
use ohm_cell::{CORDONED, ClassMiss, DRAINING, NOMINATED, SCHEDULABLE, STATE_MASK};
use ohm_framework::Miss;
use ohm_model::{NodeId, ResourceId};

/// One filter.
#[derive(Clone, Copy)]
pub struct Filter {
    /// Its name, in the field's words.
    pub name: &'static str,
    /// Why the node is out of question, if this filter says so.
    pub check: fn(&Subject<'_>, NodeId) -> Option<Miss>,
    /// Whether it compares amounts: what a nearest miss may fail.
    pub asks_amounts: bool,
}

/// All filters in order.
pub const FILTERS: &[Filter] = &[
    named("nodeReady", node_ready, false),
    named("nodeUnschedulable", node_cordoned, false),
    named("nodeDraining", node_draining, false),
    named("taintToleration", taints, false),
    named("nodeSelector", node_selector, false),
    named("nodeAffinity", node_affinity, false),
    named("topologyDomain", topology_domain, false),
    named("nodePorts", ports, false),
    named("limitPerNode", limit_per_node, false),
    named("nodeResources", resources, true),
    named("devices", devices, true),
    named("nominations", nominations, true),
];

const fn named(name: &'static str, check: fn(&Subject<'_>, NodeId) -> Option<Miss>, asks_amounts: bool) -> Filter {
    Filter { name, check, asks_amounts }
}

/// Ready, and not over its capacity since it came back with less: until what is too much has stopped.
fn node_ready(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let state = subject.view.cell().nodes().flags(node) & STATE_MASK & !(CORDONED | DRAINING);
    (state != SCHEDULABLE).then_some(Miss::NotReady)
}

fn node_cordoned(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    (subject.view.cell().nodes().flags(node) & CORDONED != 0).then_some(Miss::Cordoned)
}

fn node_draining(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    (subject.view.cell().nodes().flags(node) & DRAINING != 0).then_some(Miss::Draining)
}

/// The class's verdict is one rule of the cell with three reasons; each of the three filters reports its own.
fn class_miss(subject: &Subject<'_>, node: NodeId) -> Option<ClassMiss> {
    let record = subject.view.cell().nodes().get(node)?;
    subject.shape.admits(&record.spec.labels, &record.taints).err()
}

fn taints(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    class_miss(subject, node).filter(|miss| matches!(miss, ClassMiss::Taint(_))).map(Miss::from)
}

fn node_selector(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    class_miss(subject, node).filter(|miss| *miss == ClassMiss::NodeSelector).map(Miss::from)
}

fn node_affinity(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    class_miss(subject, node).map(Miss::from)
}

pub(crate) fn topology_domain(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let fence = subject.fence?;
    match fence.topology.key_of(node, fence.level) {
        None => Some(Miss::OutsideTopology),
        Some(key) => (fence.key.is_some_and(|fixed| fixed != key)).then_some(Miss::TopologyDomain),
    }
}

fn ports(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let (cell, job) = (subject.view.cell(), subject.job.id);
    let taken =
        |port: &&u16| subject.view.port_taken(node, **port) || cell.is_port_held(job, subject.group, node, **port);
    let taken = subject.shape.ports.iter().find(taken);
    taken.map(|port| Miss::Port(*port))
}

fn limit_per_node(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let limit = subject.shape.max_per_node;
    (limit > 0 && subject.limited(node, u32::MAX) == 0).then_some(Miss::LimitPerNode)
}

/// The resources `node` is short of for one task, as (resource, asked, free).
pub(crate) fn shortages<'s>(
    subject: &'s Subject<'_>,
    node: NodeId,
) -> impl Iterator<Item = (ResourceId, i64, i64)> + use<'s> {
    let requests = subject.shape.requests.iter();
    let amounts = requests.map(move |&(resource, asked)| (resource, asked, subject.view.free(node, resource)));
    amounts.filter(|(_, asked, free)| free < asked)
}

/// The shortage that counts: of several, the first by name. None of them leaves room for one task, so none is tighter.
pub(crate) fn tightest(
    subject: &Subject<'_>,
    short: impl Iterator<Item = (ResourceId, i64, i64)>,
) -> Option<(ResourceId, i64, i64)> {
    let names = subject.view.cell().resources();
    short.min_by_key(|(resource, _, _)| names.name(*resource))
}

/// A resource that even the empty node has too little of, or one that is taken.
fn resources(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let (resource, asked, _) = tightest(subject, shortages(subject, node))?;
    let never = subject.view.cell().nodes().capacity(node, resource) < asked;
    Some(if never { Miss::Capacity(resource) } else { Miss::Resource(resource) })
}

fn devices(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    if subject.shape.devices.is_empty() {
        return None;
    }
    match DeviceRoom::new(&subject.view, subject.shape, node).room() {
        (0, Some(resource)) => Some(Miss::Devices(resource)),
        _ => None,
    }
}

fn nominations(subject: &Subject<'_>, node: NodeId) -> Option<Miss> {
    let view = &subject.view;
    if view.cell().nodes().flags(node) & NOMINATED == 0 {
        return None;
    }
    let short =
        |(resource, asked): &(ResourceId, i64)| view.free_for(subject.job, subject.group, node, *resource) < *asked;
    subject.shape.requests.iter().any(short).then_some(Miss::Held)
}
