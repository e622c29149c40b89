//! P10, the other half: what waits says why, and what it says is true. The numbers of an explanation are counted again
//! here, node by node, from the state alone.

use crate::history::Broken;
use crate::p10_liveness::{Used, used_by_runs};
use ohm_cell::{Cell, Job, Shape};
use ohm_model::{GroupIndex, NodeId, ResourceId};

/// Why a node does not take a task of a group, as far as it is counted again here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It takes no new work at all.
    Closed,
    /// Taints, labels or affinity keep the group away.
    Class,
    /// Even empty it would have too little of this.
    Capacity(ResourceId),
    /// Too little of this is free.
    Resource(ResourceId),
    /// This port is taken.
    Port(u16),
    /// Something that is not counted again.
    Other,
}

/// What a person is told about a job that waits.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The group that it is about.
    pub group: GroupIndex,
    /// Other groups of the job whose tasks are counted as placed.
    pub beside: Vec<GroupIndex>,
    /// In words.
    pub text: String,
    /// How many tasks (or slices) would find room, and how many must, where room is what is missing.
    pub short: Option<(u32, u32)>,
    /// All nodes, if they were counted at all.
    pub total_nodes: u32,
    /// Nodes that can take a task.
    pub open_nodes: u32,
    /// All others.
    pub misses: Vec<(Why, u32)>,
    /// Too little quota: of what, how much is asked for, and how much there is.
    pub quota: Option<(ResourceId, i64, i64)>,
}

/// Says what is not true about the reason that `job` was given for waiting.
pub fn judge_reason(cell: &Cell, job: &Job, reason: &Reason) -> Option<Broken> {
    let wrong = |what: String| {
        let name = &job.spec.name;
        Some(Broken::new("P10", format!("job {name} waits and is told \"{}\", but {what}", reason.text.trim())))
    };
    if reason.text.trim().is_empty() {
        return wrong("that is nothing".into());
    }
    if let Some((fit, of)) = reason.short.filter(|(fit, of)| fit >= of) {
        return wrong(format!("{fit} of {of} would fit"));
    }
    if let Some((resource, asked, available)) = reason.quota {
        let name = cell.resources().name(resource);
        let found = cell.quota().available(&job.spec.queue, resource);
        if found != Some(available) || asked <= available {
            return wrong(format!("{asked} of {name} are asked for and {found:?} are left"));
        }
    }
    if reason.total_nodes == 0 {
        return None;
    }
    let nodes = cell.nodes().iter().count() as u32;
    let told: u32 = reason.open_nodes + reason.misses.iter().map(|(_, nodes)| nodes).sum::<u32>();
    if reason.total_nodes != nodes || told != nodes {
        return wrong(format!("of {nodes} nodes it accounts for {told}"));
    }
    let shape = cell.shape_of(job, usize::from(reason.group.0))?;
    let used = used_by_runs(cell);
    for kind in reason.misses.iter().map(|(why, _)| *why).filter(|why| *why != Why::Other) {
        let told: u32 = reason.misses.iter().filter(|(why, _)| *why == kind).map(|(_, nodes)| nodes).sum();
        let all = cell.nodes().iter();
        let holds = all.filter(|(node, _)| is_true(cell, (job, reason, shape), *node, kind, &used)).count();
        if told > holds as u32 {
            return wrong(format!("{kind:?} holds for {holds} nodes, not for {told}"));
        }
    }
    None
}

type Subject<'a> = (&'a Job, &'a Reason, &'a Shape);

fn is_true(cell: &Cell, (job, reason, shape): Subject<'_>, node: NodeId, why: Why, used: &Used) -> bool {
    let (group, asked) = (reason.group, |resource: ResourceId| requested(shape, resource));
    // Where the other groups' tasks were put is not told: at most all that wait stand here.
    let beside = || reason.beside.iter().filter_map(|group| job.groups.get(usize::from(group.0)).zip(Some(*group)));
    let shape_of = |group: GroupIndex| cell.shape_of(job, usize::from(group.0));
    match why {
        Why::Closed => !cell.nodes().is_schedulable(node),
        Why::Class => !cell.admits(job.groups[usize::from(group.0)].shape, node),
        Why::Capacity(resource) => cell.nodes().capacity(node, resource) < asked(resource),
        Why::Resource(resource) => {
            let taken = used.get(&(node, resource)).copied().unwrap_or(0);
            let held = cell.held_from(job, group, node, resource);
            let put = beside().map(|(found, group)| {
                let request = shape_of(group).map_or(0, |shape| requested(shape, resource));
                request * i64::from(found.pending.len())
            });
            cell.nodes().capacity(node, resource) - taken - held - put.sum::<i64>() < asked(resource)
        }
        Why::Port(port) => {
            let asks = |(_, group)| shape_of(group).is_some_and(|shape| shape.ports.contains(&port));
            let is_taken = cell.nodes().get(node).is_some_and(|record| record.ports.contains(&port));
            is_taken || cell.is_port_held(job.id, group, node, port) || beside().any(asks)
        }
        Why::Other => true,
    }
}

fn requested(shape: &Shape, resource: ResourceId) -> i64 {
    shape.requests.iter().find(|(known, _)| *known == resource).map_or(0, |(_, request)| *request)
}
