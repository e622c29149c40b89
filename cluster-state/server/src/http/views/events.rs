//! Events.

use super::words::{health, stop_cause};
use ohm_cell::{Cell, FLAP_WINDOW_MS};
use ohm_model::{ConditionAction, ConflictReason, Event, EventKind, JobId, Move, NodeId, Subject};
use ohm_wire::api::EventView;
use std::collections::BTreeMap;

/// So many moves of one repair are told in a line.
const MOVES_TOLD: usize = 8;

/// Where the names are that events say as numbers.
pub(crate) struct Names<'n> {
    /// Jobs and nodes that are there.
    pub(crate) cell: &'n Cell,
    /// Jobs that are over or forgotten.
    pub(crate) jobs: &'n BTreeMap<JobId, String>,
}

impl Names<'_> {
    fn job(&self, job: JobId) -> Option<&str> {
        let known = self.cell.jobs().get(job).map(|job| job.spec.name.as_str());
        known.or_else(|| self.jobs.get(&job).map(String::as_str))
    }
}

/// Whether `event` is about the job called `name`.
pub(crate) fn is_event_of(names: &Names<'_>, event: &Event, name: &str) -> bool {
    match event.kind.subject() {
        Subject::Job { name: job, .. } => job == name,
        Subject::Run { job, .. } => names.job(job) == Some(name),
        Subject::Node { .. } | Subject::Cell => false,
    }
}

/// `event`, with the names that its numbers have.
pub(crate) fn event(names: &Names<'_>, event: &Event) -> EventView {
    let cell = names.cell;
    let view = EventView { index: event.index.0, at_ms: event.at_ms, ..EventView::default() };
    match &event.kind {
        EventKind::JobSubmitted { .. }
        | EventKind::JobUpdated { .. }
        | EventKind::JobState { .. }
        | EventKind::JobForgotten { .. } => of_job(&event.kind, view),
        EventKind::Placed { .. } | EventKind::Stopping { .. } | EventKind::Started { .. } | EventKind::Ended { .. } => {
            of_run(names, event, view)
        }
        EventKind::Rollout(told) => super::rollout::of_step(told, view),
        EventKind::Readiness(_) | EventKind::Unhealthy(_) => of_health(names, event, view),
        EventKind::TasksLost { .. }
        | EventKind::RepairCommitted { .. }
        | EventKind::Repaired { .. }
        | EventKind::RepairFailed { .. }
        | EventKind::SurvivorsRestart { .. } => of_repair(&event.kind, view),
        EventKind::QuotaReserved { .. }
        | EventKind::FlavorsAssigned { .. }
        | EventKind::CheckChanged { .. }
        | EventKind::ChecksReady { .. } => super::admission::of_admission(&event.kind, view),
        EventKind::Preemption(preemption) => super::preemption::of_preemption(preemption, view),
        EventKind::QueueStop(stop) => super::queues::of_stop(stop, view),
        EventKind::ReadyTimeout(late) => super::ready::of_timeout(late, view),
        EventKind::HeldByBudget(held) => super::budgets::of_held(held, view),
        EventKind::RepairRequest { .. } => super::node_requests::of_request(&event.kind, view),
        EventKind::MoveReserved { .. }
        | EventKind::NodeDraining { .. }
        | EventKind::NodeUndrained { .. }
        | EventKind::NodeDrained { .. }
        | EventKind::DrainDeadline { .. } => of_drain(event.at_ms, &event.kind, view),
        EventKind::Reconciled { .. } => of_reconciled(cell, &event.kind, view),
        EventKind::SpareHeld { .. } | EventKind::SpareGone { .. } => of_spare(cell, &event.kind, view),
        EventKind::RoomClaimed { .. }
        | EventKind::RoomEarmarked { .. }
        | EventKind::EarmarkGone { .. }
        | EventKind::ClaimOver { .. } => super::owed::of_claim(cell, &event.kind, view),
        EventKind::HeadWaits(_) | EventKind::HeadOver { .. } => super::heads::of_head(event, view),
        EventKind::NodeRegistered { .. }
        | EventKind::NodeHealth { .. }
        | EventKind::NodeCordoned { .. }
        | EventKind::NodeTainted { .. }
        | EventKind::NodeRemoved { .. } => of_node(&event.kind, view),
        EventKind::NodeCondition { .. }
        | EventKind::NodeHeldDown { .. }
        | EventKind::NodeReleased { .. }
        | EventKind::NodeReleasing { .. } => of_condition(&event.kind, view),
        EventKind::ConclusionsHeld { silent, brake_ms } => of_conclusions(*silent, *brake_ms, view),
        EventKind::NodeLeaseBound { lease_ms } => EventView {
            kind: "nodeLeaseBound".into(),
            message: format!("node leases last at most {lease_ms} ms"),
            ..view
        },
        EventKind::Conflicted { scheduler, reasons, .. } => of_conflicts(scheduler, reasons, view),
        EventKind::LeaseTaken { lease, holder } => EventView {
            kind: "leaseTaken".into(),
            message: format!("{holder} holds {lease}"),
            session: holder.clone(),
            lease: lease.clone(),
            ..view
        },
    }
}

fn of_conflicts(scheduler: &str, reasons: &[(ConflictReason, u32)], view: EventView) -> EventView {
    let mut view = EventView { kind: "conflicted".into(), session: scheduler.to_string(), ..view };
    for (reason, rows) in reasons {
        *view.conflicts.entry(reason.name().to_string()).or_insert(0) += rows;
    }
    let total: u32 = view.conflicts.values().sum();
    let reasons: Vec<String> = view.conflicts.iter().map(|(name, rows)| format!("{name} {rows}")).collect();
    view.message = format!("{scheduler}: {total} rows refused: {}", reasons.join(", "));
    view
}

fn of_conclusions(silent: u32, brake_ms: u64, view: EventView) -> EventView {
    let message = match silent {
        0 => "nodes that fall silent are judged again as usual".to_string(),
        _ => format!("{silent} nodes fell silent at once; none is declared lost for {} s", brake_ms / 1000),
    };
    EventView { kind: "conclusionsHeld".into(), message, count: silent, ..view }
}

fn of_job(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::JobSubmitted { name, .. } => EventView {
            kind: "jobSubmitted".into(),
            message: format!("job {name} submitted"),
            job: name.clone(),
            ..view
        },
        EventKind::JobUpdated { name, owner, fields, .. } => EventView {
            kind: "jobUpdated".into(),
            message: match owner.as_str() {
                "" => format!("job {name} updated: {}", fields.join(", ")),
                owner => format!("job {name} updated by {owner}: {}", fields.join(", ")),
            },
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

fn of_repair(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::TasksLost { name, tasks, standing, nodes, .. } => EventView {
            kind: "tasksLost".into(),
            message: format!("job {name} lost {} on {}; {standing} are left", some_tasks(*tasks), nodes.join(", ")),
            job: name.clone(),
            node: if let [node] = nodes.as_slice() { node.clone() } else { String::new() },
            count: *tasks,
            ..view
        },
        EventKind::RepairCommitted { name, moves, .. } => {
            let step = |step: &Move| {
                let tasks = match step.count {
                    1 => format!("task {}", step.first),
                    count => format!("tasks {} to {}", step.first, step.first + count - 1),
                };
                format!("{tasks} {} → {}", step.from, step.to)
            };
            let steps: Vec<String> = moves.iter().take(MOVES_TOLD).map(step).collect();
            let more = moves.len().saturating_sub(MOVES_TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            EventView {
                kind: "repairCommitted".into(),
                message: format!("job {name} is repaired: {}{more}", steps.join(", ")),
                job: name.clone(),
                count: moves.iter().map(|step| step.count).sum(),
                ..view
            }
        }
        EventKind::Repaired { name, tasks, took_ms, .. } => EventView {
            kind: "repaired".into(),
            message: format!(
                "job {name} is whole again after {}.{:03} s: {} placed anew",
                took_ms / 1000,
                took_ms % 1000,
                some_tasks(*tasks)
            ),
            job: name.clone(),
            count: *tasks,
            ..view
        },
        EventKind::SurvivorsRestart { name, tasks, .. } => EventView {
            kind: "survivorsRestart".into(),
            message: format!("{name} restarts {} where they are", some_tasks(*tasks)),
            job: name.clone(),
            count: *tasks,
            ..view
        },
        EventKind::RepairFailed { name, reason, .. } => EventView {
            kind: "repairFailed".into(),
            message: format!("job {name} could not be repaired and is evicted whole: {reason}"),
            job: name.clone(),
            reason: reason.clone(),
            ..view
        },
        _ => view,
    }
}

fn of_reconciled(cell: &Cell, kind: &EventKind, view: EventView) -> EventView {
    let EventKind::Reconciled { name, group, task, incarnation, node, lives, reason, .. } = kind else { return view };
    let node = cell.nodes().get(*node).map_or_else(String::new, |record| record.spec.name.clone());
    let becomes = if *lives { "lives on" } else { "is stopped" };
    EventView {
        kind: "reconciled".into(),
        message: format!(
            "node {node} is back: run {incarnation} of task {group}/{task} of job {name} {becomes}: {reason}"
        ),
        job: name.clone(),
        node,
        reason: reason.clone(),
        ..view
    }
}

fn some_tasks(count: u32) -> String {
    if count == 1 { "1 task".into() } else { format!("{count} tasks") }
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
        EventKind::NodeTainted { name, taint, tainted, .. } => EventView {
            kind: "nodeTainted".into(),
            message: format!("node {name} {} the taint {taint}", if *tainted { "has" } else { "no longer has" }),
            node: name.clone(),
            state: if *tainted { "tainted" } else { "untainted" }.to_string(),
            reason: taint.to_string(),
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

fn of_condition(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::NodeCondition { name, condition, action, message, .. } => {
            let follows = match action {
                None => "",
                Some(ConditionAction::Note) => "; it is only noted",
                Some(ConditionAction::NoNewWork | ConditionAction::Drain) => "; it takes no new work",
            };
            let verb = if action.is_some() { "has" } else { "no longer has" };
            let why = if message.is_empty() { String::new() } else { format!(" ({message})") };
            EventView {
                kind: "nodeCondition".into(),
                message: format!("node {name} {verb} {}{why}{follows}", condition.name()),
                node: name.clone(),
                state: action.map_or("ended", ConditionAction::name).to_string(),
                reason: condition.name().to_string(),
                ..view
            }
        }
        EventKind::NodeHeldDown { name, flaps, hold_down_ms, .. } => {
            let (seconds, minutes) = (hold_down_ms / 1000, FLAP_WINDOW_MS / 60_000);
            EventView {
                kind: "nodeHeldDown".into(),
                message: format!(
                    "node {name} was lost {flaps} times in {minutes} min; it takes no new work for {seconds} s"
                ),
                node: name.clone(),
                state: "held down".into(),
                count: *flaps,
                ..view
            }
        }
        EventKind::NodeReleased { name, by_hand, .. } => EventView {
            kind: "nodeReleased".into(),
            message: format!("node {name} is held down no more{}", if *by_hand { ": released by hand" } else { "" }),
            node: name.clone(),
            state: "released".into(),
            ..view
        },
        EventKind::NodeReleasing { name, class, idle_ms, .. } => EventView {
            kind: "nodeReleasing".into(),
            message: format!("nobody has used node {name} for {} s: it goes back to {class}", idle_ms / 1000),
            node: name.clone(),
            state: "releasing".into(),
            ..view
        },
        _ => view,
    }
}

fn of_drain(at_ms: u64, kind: &EventKind, view: EventView) -> EventView {
    let tasks = |count: u32| if count == 1 { "1 task".to_string() } else { format!("{count} tasks") };
    match kind {
        EventKind::NodeDraining { name, runs, deadline_ms, .. } => EventView {
            kind: "nodeDraining".into(),
            message: match deadline_ms.saturating_sub(at_ms) {
                0 => format!("node {name} is being drained: {} to leave", tasks(*runs)),
                left_ms => {
                    let seconds = left_ms.div_ceil(1000);
                    format!("node {name} is being drained: {} to leave within {seconds} s", tasks(*runs))
                }
            },
            node: name.clone(),
            state: "draining".into(),
            count: *runs,
            ..view
        },
        EventKind::NodeUndrained { name, .. } => EventView {
            kind: "nodeUndrained".into(),
            message: format!("node {name} is drained no more"),
            node: name.clone(),
            ..view
        },
        EventKind::NodeDrained { name, took_ms, .. } => EventView {
            kind: "nodeDrained".into(),
            message: format!(
                "node {name} is drained: nothing runs on it after {}.{} s",
                took_ms / 1000,
                took_ms / 100 % 10
            ),
            node: name.clone(),
            state: "drained".into(),
            ..view
        },
        EventKind::DrainDeadline { name, runs, .. } => EventView {
            kind: "drainDeadline".into(),
            message: format!("node {name} is past the deadline of its drain: {} stopped", tasks(*runs)),
            node: name.clone(),
            count: *runs,
            ..view
        },
        EventKind::MoveReserved { name, tasks: count, from, to, .. } => EventView {
            kind: "moveReserved".into(),
            message: format!(
                "job {name}: room on {} for {} to leave {}",
                shortened(to),
                tasks(*count),
                shortened(from)
            ),
            job: name.clone(),
            count: *count,
            ..view
        },
        _ => view,
    }
}

/// The first of `names`, and how many more there are.
fn shortened(names: &[String]) -> String {
    let told = names.iter().take(MOVES_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOVES_TOLD { format!("{told} and {} more", names.len() - MOVES_TOLD) } else { told }
}

fn of_run(names: &Names<'_>, event: &Event, view: EventView) -> EventView {
    match &event.kind {
        EventKind::Placed { job, group, first, count, node } => {
            let view = placed(names, event, view, (*job, *group, *first, *node));
            let tasks = match count {
                1 => format!("task {first}"),
                _ => format!("tasks {first} to {}", u64::from(*first) + u64::from(*count) - 1),
            };
            let message = format!("{tasks} of {} placed on {}", view.job, view.node);
            EventView { kind: "placed".into(), message, count: *count, ..view }
        }
        EventKind::Started { job, group, task, incarnation, node } => {
            let view = placed(names, event, view, (*job, *group, *task, *node));
            let message = format!("task {task} of {} runs on {}", view.job, view.node);
            EventView { kind: "started".into(), message, incarnation: incarnation.0, ..view }
        }
        EventKind::Stopping { job, group, task, incarnation, node, cause } => {
            let view = placed(names, event, view, (*job, *group, *task, *node));
            let cause = stop_cause(*cause).to_string();
            let message = format!("task {task} of {} on {} is to stop: {cause}", view.job, view.node);
            EventView { kind: "stopping".into(), message, incarnation: incarnation.0, stop_cause: cause, ..view }
        }
        EventKind::Ended { job, group, task, incarnation, node, exit, cause } => {
            let view = placed(names, event, view, (*job, *group, *task, *node));
            let stop_cause = cause.map_or("", stop_cause).to_string();
            let why = if stop_cause.is_empty() { String::new() } else { format!(" ({stop_cause})") };
            let message = format!("task {task} of {} on {} ended: {exit}{why}", view.job, view.node);
            let (incarnation, exit) = (incarnation.0, exit.to_string());
            EventView { kind: "ended".into(), message, incarnation, exit, stop_cause, ..view }
        }
        _ => view,
    }
}

/// What the probes of a run say.
fn of_health(names: &Names<'_>, event: &Event, view: EventView) -> EventView {
    match &event.kind {
        EventKind::Readiness(told) => {
            let view = placed(names, event, view, (told.job, told.group, told.task, told.node));
            let (kind, what) = if told.ready { ("ready", "is ready") } else { ("notReady", "is not ready") };
            let why = if told.message.is_empty() { String::new() } else { format!(": {}", told.message) };
            let message = format!("task {} of {} on {} {what}{why}", told.task, view.job, view.node);
            let (incarnation, reason) = (told.incarnation.0, told.message.clone());
            EventView { kind: kind.into(), message, incarnation, reason, ..view }
        }
        EventKind::Unhealthy(told) => {
            let view = placed(names, event, view, (told.job, told.group, told.task, told.node));
            let (task, seconds) = (told.task, told.back_off_ms.div_ceil(1000));
            let message = format!(
                "task {task} of {} on {} was unhealthy and starts again in place in {seconds} s: {}",
                view.job, view.node, told.message
            );
            let (incarnation, reason) = (told.incarnation.0, told.message.clone());
            EventView { kind: "unhealthy".into(), message, incarnation, reason, ..view }
        }
        _ => view,
    }
}

/// `view` with the names of a task and its node. A node that is gone has no name left.
fn placed(names: &Names<'_>, event: &Event, view: EventView, of: (JobId, u16, u32, NodeId)) -> EventView {
    let (job_id, group, task, node) = of;
    let job = names.cell.jobs().get(job_id);
    let group = job.and_then(|job| job.spec.groups.get(usize::from(group)));
    let record = names.cell.nodes().get(node).filter(|record| record.registered <= event.index);
    EventView {
        job: names.job(job_id).map_or_else(|| format!("#{job_id}"), str::to_string),
        group: group.map_or_else(String::new, |group| group.name.clone()),
        task: Some(task),
        node: record.map_or_else(|| format!("#{node}"), |record| record.spec.name.clone()),
        ..view
    }
}

fn of_spare(cell: &Cell, kind: &EventKind, view: EventView) -> EventView {
    let (word, id, name, group, node, count, why) = match kind {
        EventKind::SpareHeld { job, name, group, node, count } => ("spareHeld", job, name, group, node, count, ""),
        EventKind::SpareGone { job, name, group, node, count, reason } => {
            ("spareGone", job, name, group, node, count, reason.as_str())
        }
        _ => return view,
    };
    let found = cell.jobs().get(*id).and_then(|job| job.spec.groups.get(usize::from(*group)));
    let (group, node) = (found.map_or_else(String::new, |group| group.name.clone()), cell.nodes().name(*node));
    let room = if *count == 1 { "a spare".to_string() } else { format!("{count} spares") };
    let message = match (word, why) {
        ("spareHeld", _) => format!("job {name}: {room} of group {group} held on node {node}"),
        (_, "used") => format!("job {name}: {room} of group {group} on node {node} used"),
        (_, why) => format!("job {name}: {room} of group {group} on node {node} given back: {why}"),
    };
    let node = node.to_string();
    EventView { kind: word.into(), message, job: name.clone(), group, node, count: *count, ..view }
}
