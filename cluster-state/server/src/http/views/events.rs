//! Events.

use super::nodes::health;
use super::stop_cause;
use ohm_cell::Cell;
use ohm_model::{Event, EventKind, JobId, NodeId};
use ohm_wire::api::EventView;

/// Whether `event` is about the job called `name`.
pub(crate) fn is_event_of(cell: &Cell, event: &Event, name: &str) -> bool {
    let is_named = |job: JobId| cell.jobs().get(job).is_some_and(|job| job.spec.name == name);
    match &event.kind {
        EventKind::JobSubmitted { name: job, .. }
        | EventKind::JobState { name: job, .. }
        | EventKind::JobForgotten { name: job } => job == name,
        EventKind::Placed { job, .. }
        | EventKind::Stopping { job, .. }
        | EventKind::Started { job, .. }
        | EventKind::Ended { job, .. } => is_named(*job),
        EventKind::NodeRegistered { .. }
        | EventKind::NodeHealth { .. }
        | EventKind::NodeCordoned { .. }
        | EventKind::NodeRemoved { .. }
        | EventKind::Conflicted { .. }
        | EventKind::LeaseTaken { .. } => false,
    }
}

/// `event`, with the names that its numbers have in `cell`.
pub(crate) fn event(cell: &Cell, event: &Event) -> EventView {
    let view = EventView { index: event.index.0, at_ms: event.at_ms, ..EventView::default() };
    match &event.kind {
        EventKind::JobSubmitted { .. } | EventKind::JobState { .. } | EventKind::JobForgotten { .. } => {
            of_job(&event.kind, view)
        }
        EventKind::Placed { .. } | EventKind::Stopping { .. } | EventKind::Started { .. } | EventKind::Ended { .. } => {
            of_run(cell, event, view)
        }
        EventKind::NodeRegistered { .. }
        | EventKind::NodeHealth { .. }
        | EventKind::NodeCordoned { .. }
        | EventKind::NodeRemoved { .. } => of_node(&event.kind, view),
        EventKind::Conflicted { scheduler, reasons } => {
            let mut view = EventView { kind: "conflicted".into(), session: scheduler.clone(), ..view };
            for (reason, rows) in reasons {
                *view.conflicts.entry(reason.name().to_string()).or_insert(0) += rows;
            }
            let total: u32 = view.conflicts.values().sum();
            let reasons: Vec<String> = view.conflicts.iter().map(|(name, rows)| format!("{name} {rows}")).collect();
            view.message = format!("{scheduler}: {total} rows refused: {}", reasons.join(", "));
            view
        }
        EventKind::LeaseTaken { lease, holder } => EventView {
            kind: "leaseTaken".into(),
            message: format!("{holder} holds {lease}"),
            session: holder.clone(),
            lease: lease.clone(),
            ..view
        },
    }
}

fn of_job(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::JobSubmitted { name, .. } => EventView {
            kind: "jobSubmitted".into(),
            message: format!("job {name} submitted"),
            job: name.clone(),
            ..view
        },
        EventKind::JobState { name, state, reason, .. } => EventView {
            kind: "jobState".into(),
            message: match reason.as_str() {
                "" => format!("job {name} is {state}"),
                reason if reason == state => format!("job {name} is {state}"),
                reason => format!("job {name} is {state}: {reason}"),
            },
            job: name.clone(),
            state: state.clone(),
            reason: reason.clone(),
            ..view
        },
        EventKind::JobForgotten { name } => EventView {
            kind: "jobForgotten".into(),
            message: format!("job {name} is forgotten"),
            job: name.clone(),
            ..view
        },
        _ => view,
    }
}

fn of_node(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::NodeRegistered { name, incarnation, .. } => EventView {
            kind: "nodeRegistered".into(),
            message: format!("node {name} registered"),
            node: name.clone(),
            incarnation: incarnation.0,
            ..view
        },
        EventKind::NodeHealth { name, health: held, .. } => EventView {
            kind: "nodeHealth".into(),
            message: format!("node {name} is {}", health(*held)),
            node: name.clone(),
            state: health(*held).to_string(),
            ..view
        },
        EventKind::NodeCordoned { name, cordoned, .. } => EventView {
            kind: "nodeCordoned".into(),
            message: format!("node {name} is {}", if *cordoned { "cordoned" } else { "uncordoned" }),
            node: name.clone(),
            state: if *cordoned { "cordoned" } else { "uncordoned" }.to_string(),
            ..view
        },
        EventKind::NodeRemoved { name } => EventView {
            kind: "nodeRemoved".into(),
            message: format!("node {name} removed"),
            node: name.clone(),
            ..view
        },
        _ => view,
    }
}

fn of_run(cell: &Cell, event: &Event, view: EventView) -> EventView {
    match &event.kind {
        EventKind::Placed { job, group, first, count, node } => {
            let view = placed(cell, event, view, (*job, *group, *first, *node));
            let tasks = match count {
                1 => format!("task {first}"),
                _ => format!("tasks {first} to {}", u64::from(*first) + u64::from(*count) - 1),
            };
            let message = format!("{tasks} of {} placed on {}", view.job, view.node);
            EventView { kind: "placed".into(), message, count: *count, ..view }
        }
        EventKind::Started { job, group, task, incarnation, node } => {
            let view = placed(cell, event, view, (*job, *group, *task, *node));
            let message = format!("task {task} of {} runs on {}", view.job, view.node);
            EventView { kind: "started".into(), message, incarnation: incarnation.0, ..view }
        }
        EventKind::Stopping { job, group, task, incarnation, node, cause } => {
            let view = placed(cell, event, view, (*job, *group, *task, *node));
            let cause = stop_cause(*cause).to_string();
            let message = format!("task {task} of {} on {} is to stop: {cause}", view.job, view.node);
            EventView { kind: "stopping".into(), message, incarnation: incarnation.0, stop_cause: cause, ..view }
        }
        EventKind::Ended { job, group, task, incarnation, node, exit, cause } => {
            let view = placed(cell, event, view, (*job, *group, *task, *node));
            let stop_cause = cause.map_or("", stop_cause).to_string();
            let why = if stop_cause.is_empty() { String::new() } else { format!(" ({stop_cause})") };
            let message = format!("task {task} of {} on {} ended: {exit}{why}", view.job, view.node);
            let (incarnation, exit) = (incarnation.0, exit.to_string());
            EventView { kind: "ended".into(), message, incarnation, exit, stop_cause, ..view }
        }
        _ => view,
    }
}

/// `view` with the names of a task and its node. A job that is forgotten and a node that is gone have no name left.
fn placed(cell: &Cell, event: &Event, view: EventView, of: (JobId, u16, u32, NodeId)) -> EventView {
    let (job_id, group, task, node) = of;
    let job = cell.jobs().get(job_id);
    let group = job.and_then(|job| job.spec.groups.get(usize::from(group)));
    let record = cell.nodes().get(node).filter(|record| record.registered <= event.index);
    EventView {
        job: job.map_or_else(|| format!("#{job_id}"), |job| job.spec.name.clone()),
        group: group.map_or_else(String::new, |group| group.name.clone()),
        task: Some(task),
        node: record.map_or_else(|| format!("#{node}"), |record| record.spec.name.clone()),
        ..view
    }
}
