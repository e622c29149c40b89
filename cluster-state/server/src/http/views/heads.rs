//! Heads of lines: what people are told of the room that is kept for them.

use super::owed::names;
use ohm_cell::{Cell, Held, Job};
use ohm_model::{Event, EventKind, JobId, Purpose};
use ohm_wire::api::EventView;
use std::collections::{BTreeMap, BTreeSet};

/// What is kept for `job` as for the head of its line, as a sentence.
pub(crate) fn head_text(cell: &Cell, job: &Job) -> Option<String> {
    let kept: Vec<_> = cell.nominations().of_job(job.id).filter(|(_, held)| held.is_head()).collect();
    let (_, held) = kept.first()?;
    let Purpose::Head { until_ms } = held.purpose else { return None };
    let tasks: u32 = kept.iter().map(|(_, held)| held.count).sum();
    let nodes: BTreeSet<&str> = kept.iter().map(|(node, _)| cell.nodes().name(*node)).collect();
    let seconds = until_ms.saturating_sub(cell.now_ms()).div_ceil(1000);
    let tasks = counted(tasks, "task");
    let nodes = names(nodes.into_iter().collect());
    Some(format!(
        "It is the head of its line: what becomes free on {nodes} is kept for {tasks} of it, for another {seconds} s."
    ))
}

/// Other jobs, heads of their lines, for which room is kept that `job` may not take, each in a sentence.
pub(crate) fn heads_text(cell: &Cell, job: &Job) -> Vec<String> {
    let mut kept: BTreeMap<JobId, BTreeSet<&str>> = BTreeMap::new();
    for head in cell.nominations().heads().filter(|head| *head != job.id) {
        let binds = |held: &Held| held.is_head() && held.binds(job.id, job.spec.priority);
        let rooms = cell.nominations().of_job(head).filter(|(_, held)| binds(held));
        let nodes: BTreeSet<&str> = rooms.map(|(node, _)| cell.nodes().name(node)).collect();
        if !nodes.is_empty() {
            kept.insert(head, nodes);
        }
    }
    let line = |(head, nodes): (JobId, BTreeSet<&str>)| {
        let name = cell.jobs().get(head).map_or("?", |job| job.spec.name.as_str());
        format!("Room on {} is kept for job {name}, the head of its line.", names(nodes.into_iter().collect()))
    };
    kept.into_iter().map(line).collect()
}

/// What is told of the head of a line.
pub(crate) fn of_head(event: &Event, view: EventView) -> EventView {
    match &event.kind {
        EventKind::HeadWaits { name, tasks, nodes, until_ms, .. } => {
            let seconds = until_ms.saturating_sub(event.at_ms).div_ceil(1000);
            let (tasks_text, nodes) = (counted(*tasks, "task"), counted(*nodes, "node"));
            let message = format!(
                "job {name}: is the head of its line; what becomes free on {nodes} is kept for {tasks_text} of it, for \
                 {seconds} s at most"
            );
            EventView { kind: "headWaits".into(), message, job: name.clone(), count: *tasks, ..view }
        }
        EventKind::HeadOver { name, reason, .. } => {
            let message = format!("job {name}: no room is kept for it as for the head of its line any more: {reason}");
            EventView { kind: "headOver".into(), message, job: name.clone(), ..view }
        }
        _ => view,
    }
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
