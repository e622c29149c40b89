//! Nodes that repairs ask for, as HTTP shows them.

use ohm_cell::{Cell, Job, RepairRequest, RequestState, repair_request_id};
use ohm_model::{EventKind, RequestChange};
use ohm_wire::api::{EventView, NodeRequestView};

/// What the repair of `job` that is under way has asked for.
pub(crate) fn node_requests(job: &Job) -> Vec<NodeRequestView> {
    let view = |request: &RepairRequest| NodeRequestView {
        class: request.class.clone(),
        state: match request.state {
            RequestState::Pending => "pending",
            RequestState::Ready => "ready",
            RequestState::Failed => "failed",
        }
        .to_string(),
        attempt: request.attempt,
        request: repair_request_id(job, &request.class, request.number),
        tasks: request.count(),
        message: request.message.clone(),
        since_ms: request.since_ms,
    };
    job.repairs.open.iter().flat_map(|open| &open.requests).map(view).collect()
}

/// The same in sentences; where nobody is asked although the job wants it, why not.
pub(crate) fn node_requests_text(cell: &Cell, job: &Job, requests: &[NodeRequestView]) -> Vec<String> {
    let waits = job.groups.iter().any(|group| !group.lost.is_empty());
    if requests.is_empty() && waits && job.spec.repair.provision {
        return why_nobody_is_asked(job).into_iter().collect();
    }
    let now_ms = cell.now_ms();
    let line = |request: &NodeRequestView| {
        let NodeRequestView { class, attempt, request: name, message, .. } = request;
        let seconds = now_ms.saturating_sub(request.since_ms) / 1000;
        let lost = lost_tasks(request.tasks);
        let separator = if message.is_empty() { "" } else { ": " };
        match request.state.as_str() {
            "pending" => format!(
                "{class} is asked for nodes for {lost}, for {seconds} s, attempt {attempt} ({name}){separator}{message}."
            ),
            "ready" => {
                format!("{class} has nodes for {lost}, for {seconds} s; they join ({name}){separator}{message}.")
            }
            _ => {
                let class_of = cell.provisioning_classes().get(class);
                let is_last = class_of.is_none_or(|class| *attempt > class.retry.limit);
                let next = if is_last { "It is not asked again before another loss" } else { "It is asked again" };
                format!("{class} has no nodes for {lost}, attempt {attempt} ({name}){separator}{message}. {next}.")
            }
        }
    };
    requests.iter().map(line).collect()
}

/// Why the repair of a job that wants nodes to be asked for asks nobody, if that is to stay so.
fn why_nobody_is_asked(job: &Job) -> Option<String> {
    let open = job.repairs.open.as_ref()?;
    let why = match job.admission.round {
        None => "its queue had no admission checks when it started",
        Some(_) if open.without_room.is_empty() => "no scheduler has said that there is no room",
        Some(_) => return None,
    };
    Some(format!("Nobody is asked for nodes (repair.provision): {why}."))
}

/// What is told of a request.
pub(super) fn of_request(kind: &EventKind, view: EventView) -> EventView {
    let EventKind::RepairRequest { name, change, .. } = kind else { return view };
    let RequestChange { class, attempt, state, tasks, message, wait_ms, .. } = change;
    let lost = lost_tasks(*tasks);
    let separator = if message.is_empty() { "" } else { ": " };
    let text = match state.as_str() {
        "asked" => format!("job {name} asks {class} for nodes for {lost}, attempt {attempt}"),
        "ready" => format!("{class} has nodes for {lost} of job {name}{separator}{message}"),
        "retry" => {
            let seconds = wait_ms.div_ceil(1000);
            format!("{class} has no nodes for {lost} of job {name}{separator}{message}; again in {seconds} s")
        }
        _ => format!("{class} has no nodes for {lost} of job {name}{separator}{message}; it is not asked again"),
    };
    EventView {
        kind: "repairRequest".into(),
        message: text,
        job: name.clone(),
        state: state.clone(),
        reason: message.clone(),
        ..view
    }
}

fn lost_tasks(count: u32) -> String {
    format!("{count} lost task{}", if count == 1 { "" } else { "s" })
}
