//! Room that is owed to repairs, and room that is held on nodes: what people are told of it on both sides.

use ohm_cell::{Cell, Held, Job};
use ohm_model::{EventKind, GroupIndex, JobId, NodeId, Purpose};
use ohm_wire::api::{EventView, HeldView, OwedView};
use std::collections::BTreeMap;

/// So many nodes are told of by name.
const NODES_TOLD: usize = 3;

/// What is owed to `job`, by group.
pub(crate) fn owed(cell: &Cell, job: &Job) -> Vec<OwedView> {
    let groups = job.spec.groups.iter().enumerate().map(|(at, spec)| (GroupIndex(at as u16), spec));
    let claimed = groups.filter(|(group, _)| cell.nominations().claim(job.id, *group).is_some());
    let view = |(group, spec): (GroupIndex, &ohm_model::GroupSpec)| {
        let earmarks = cell.nominations().of_job(job.id).filter(|(_, held)| held.is_earmark() && held.group == group.0);
        let mut nodes: BTreeMap<String, u64> = BTreeMap::new();
        for (node, held) in earmarks {
            *nodes.entry(cell.nodes().name(node).to_string()).or_insert(0) += u64::from(held.count);
        }
        let (lost, held) = (u64::from(job.owed(group).len()), nodes.values().sum::<u64>());
        let until_ms = job.owed_until_ms().unwrap_or(0);
        OwedView { group: spec.name.clone(), lost, held, missing: lost.saturating_sub(held), nodes, until_ms }
    };
    claimed.map(view).collect()
}

/// The same in sentences.
pub(crate) fn owed_text(owed: &[OwedView], now_ms: u64) -> Vec<String> {
    let line = |owed: &OwedView| {
        let tasks = if owed.lost == 1 { "the task".to_string() } else { format!("the {} tasks", owed.lost) };
        let nodes = names(owed.nodes.keys().map(String::as_str).collect());
        let held = match owed.held {
            0 => "no room is held yet".to_string(),
            held => format!("room for {held} is held on {nodes}"),
        };
        let missing = match owed.missing {
            0 => String::new(),
            missing => format!("; room for {missing} is missing, and goes to it where and when it becomes free"),
        };
        let seconds = owed.until_ms.saturating_sub(now_ms).div_ceil(1000);
        let group = &owed.group;
        format!("Room is owed to it, for another {seconds} s: for {tasks} that group {group} lost {held}{missing}.")
    };
    owed.iter().map(line).collect()
}

/// The other jobs for whose repairs room is held, each with where.
pub(crate) fn held_for_repairs(cell: &Cell, job: JobId) -> BTreeMap<String, Vec<String>> {
    let mut held_for: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, held) in cell.nominations().iter().filter(|(_, held)| held.is_earmark() && held.job != job) {
        let nodes = held_for.entry(name_of(cell, held)).or_default();
        let node = cell.nodes().name(node).to_string();
        if nodes.last() != Some(&node) {
            nodes.push(node);
        }
    }
    held_for
}

/// The same in sentences.
pub(crate) fn held_text(held_for: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let line = |(job, nodes): (&String, &Vec<String>)| {
        format!("Room on {} is held for the repair of job {job}.", names(nodes.iter().map(String::as_str).collect()))
    };
    held_for.iter().map(line).collect()
}

/// What is held on a node, and for whom.
pub(crate) fn held_on(cell: &Cell, node: NodeId) -> Vec<HeldView> {
    let view = |held: &Held| {
        let job = cell.jobs().get(held.job);
        let group = job.and_then(|job| job.spec.groups.get(usize::from(held.group)));
        let purpose = match held.purpose {
            Purpose::Preemptor { .. } => "preemptor",
            Purpose::Move => "move",
            Purpose::Spare => "spare",
            Purpose::Repair => "repair",
            Purpose::Head { .. } => "head",
        };
        let group = group.map_or_else(String::new, |group| group.name.clone());
        HeldView { job: name_of(cell, held), group, tasks: held.count.into(), purpose: purpose.to_string() }
    };
    cell.nominations().on_node(node).iter().map(view).collect()
}

/// What is told of room that is owed.
pub(crate) fn of_claim(cell: &Cell, kind: &EventKind, view: EventView) -> EventView {
    let (word, id, name, group, node, count, why) = match kind {
        EventKind::RoomClaimed { job, name, group, tasks } => ("roomClaimed", job, name, group, None, *tasks, ""),
        EventKind::RoomEarmarked { job, name, group, node, count } => {
            ("roomEarmarked", job, name, group, Some(*node), *count, "")
        }
        EventKind::EarmarkGone { job, name, group, node, count, reason } => {
            ("earmarkGone", job, name, group, Some(*node), *count, reason.as_str())
        }
        EventKind::ClaimOver { job, name, group, reason } => ("claimOver", job, name, group, None, 0, reason.as_str()),
        _ => return view,
    };
    let found = cell.jobs().get(*id).and_then(|job| job.spec.groups.get(usize::from(*group)));
    let group = found.map_or_else(String::new, |group| group.name.clone());
    let node = node.map_or_else(String::new, |node| cell.nodes().name(node).to_string());
    let tasks = if count == 1 { "1 task".to_string() } else { format!("{count} tasks") };
    let of = if group.is_empty() { String::new() } else { format!(" of group {group}") };
    let message = match word {
        "roomClaimed" => format!("job {name}: claims the next room for {tasks}{of} that it lost"),
        "roomEarmarked" => format!("job {name}: room on node {node} is held to repair {tasks}{of}"),
        "earmarkGone" => format!("job {name}: room on node {node} for {tasks}{of} is held no more: {why}"),
        _ => format!("job {name}: claims no room{of} any more: {why}"),
    };
    EventView { kind: word.into(), message, job: name.clone(), group, node, count, ..view }
}

fn name_of(cell: &Cell, held: &Held) -> String {
    cell.jobs().get(held.job).map_or_else(String::new, |job| job.spec.name.clone())
}

pub(super) fn names(nodes: Vec<&str>) -> String {
    match nodes.len() {
        0..=NODES_TOLD => nodes.join(", "),
        more => format!("{} and {} other nodes", nodes[..NODES_TOLD].join(", "), more - NODES_TOLD),
    }
}
