//! Admissions as HTTP shows them.

use ohm_model::EventKind;
use ohm_wire::api::EventView;

/// An event about an admission.
pub(super) fn of_admission(kind: &EventKind, view: EventView) -> EventView {
    match kind {
        EventKind::QuotaReserved { name, round, checks, .. } => EventView {
            kind: "quotaReserved".into(),
            message: format!("job {name} has its quota; round {round} asks {}", checks.join(", ")),
            job: name.clone(),
            ..view
        },
        EventKind::CheckChanged { name, class, attempt, state, message, wait_ms, .. } => {
            let separator = if message.is_empty() { "" } else { ": " };
            let wait = match wait_ms {
                0 => String::new(),
                wait_ms => format!("; again in {} s", wait_ms.div_ceil(1000)),
            };
            let what = match state.as_str() {
                "retry" => "failed",
                state => state,
            };
            EventView {
                kind: "checkChanged".into(),
                message: format!("check {class} of job {name} {what}, attempt {attempt}{separator}{message}{wait}"),
                job: name.clone(),
                state: state.clone(),
                reason: message.clone(),
                ..view
            }
        }
        EventKind::ChecksReady { name, .. } => EventView {
            kind: "checksReady".into(),
            message: format!("job {name} is ready to be placed: all its checks are"),
            job: name.clone(),
            ..view
        },
        _ => view,
    }
}
