//! Heads of lines: what people are told of the room that is kept for them.

use super::owed::names;
use ohm_cell::{Cell, Held, Job};
use ohm_model::{Event, EventKind, HeadStart, JobId, Purpose};
use ohm_wire::api::EventView;
use std::collections::{BTreeMap, BTreeSet};

/// What is kept for `job` as for the head of its line, as a sentence.
pub(crate) fn head_text(cell: &Cell, job: &Job) -> Option<String> {
    let Start { ms, is_guess, until_ms } = start_of(cell, job)?;
    let kept: Vec<_> = cell.nominations().of_job(job.id).filter(|(_, held)| held.is_head()).collect();
    let tasks: u32 = kept.iter().map(|(_, held)| held.count).sum();
    let nodes: BTreeSet<&str> = kept.iter().map(|(node, _)| cell.nodes().name(*node)).collect();
    let seconds = |ms: u64| ms.saturating_sub(cell.now_ms()).div_ceil(1000);
    let start = match (seconds(ms), is_guess) {
        (0, _) => "was to start by now, and does not stand yet".to_string(),
        (left, true) => format!(
            "is expected to start in about {left} s: what it waits for is taken to run for as long again as it has"
        ),
        (left, false) => format!(
            "is expected to start within {left} s: by then what it waits for has reached its activeDeadlineSeconds, or \
             has stopped"
        ),
    };
    Some(format!(
        "It is the head of its line and {start}. What becomes free on {} is kept for {} of it, for another {} s; what \
         surely ends before may run there meanwhile.",
        names(nodes.into_iter().collect()),
        counted(tasks, "task"),
        seconds(until_ms)
    ))
}

/// When the head of a line is to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// In stamped time.
    pub(crate) ms: u64,
    pub(crate) is_guess: bool,
    /// So long room is kept for it at most.
    until_ms: u64,
}

/// When `job` is to start, if it is the head of its line.
pub(crate) fn start_of(cell: &Cell, job: &Job) -> Option<Start> {
    let (_, held) = cell.nominations().of_job(job.id).find(|(_, held)| held.is_head())?;
    let Purpose::Head { start_ms: ms, is_guess, until_ms } = held.purpose else { return None };
    Some(Start { ms, is_guess, until_ms })
}

/// Other jobs, heads of their lines, for which room is kept that `job` may not take, each in a sentence. What has ended
/// before a head starts may.
pub(crate) fn heads_text(cell: &Cell, job: &Job) -> Vec<String> {
    let mut kept: BTreeMap<JobId, BTreeSet<&str>> = BTreeMap::new();
    for head in cell.nominations().heads().filter(|head| *head != job.id) {
        let is_gone = |held: &Held| job.ends_by_ms(cell.now_ms()).is_some_and(|ends_ms| held.starts_after(ends_ms));
        let binds = |held: &Held| held.is_head() && held.binds(job.id, job.spec.priority) && !is_gone(held);
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
        EventKind::HeadWaits(HeadStart { name, tasks, nodes, start_ms, is_guess, until_ms, .. }) => {
            let seconds = |ms: &u64| ms.saturating_sub(event.at_ms).div_ceil(1000);
            let (tasks_text, nodes) = (counted(*tasks, "task"), counted(*nodes, "node"));
            let start = if *is_guess { "in about" } else { "within" };
            let message = format!(
                "job {name}: is the head of its line and expected to start {start} {} s; what becomes free on {nodes} \
                 is kept for {tasks_text} of it, for {} s at most",
                seconds(start_ms),
                seconds(until_ms)
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
