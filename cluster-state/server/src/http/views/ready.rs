//! Ready timeouts: what queues give, and how their jobs stand under them.

use ohm_cell::{Cell, Job};
use ohm_model::{ReadyTimeout, ReadyTimeoutEvent};
use ohm_wire::api::{EventView, ReadinessView, ReadyTimeoutView};

/// What a queue gives.
pub(super) fn ready_timeout(timeout: &ReadyTimeout) -> ReadyTimeoutView {
    ReadyTimeoutView {
        timeout_seconds: timeout.timeout_seconds,
        recovery_timeout_seconds: timeout.recovery_timeout_seconds,
        backoff_base_seconds: timeout.backoff_base_seconds,
        backoff_max_seconds: timeout.backoff_max_seconds,
        backoff_limit: timeout.backoff_limit,
    }
}

/// How a job stands under what its queue gives.
pub(super) fn readiness(cell: &Cell, job: &Job) -> ReadinessView {
    let (known, queue) = (&job.readiness, cell.quota().get(&job.spec.queue));
    let timeout = queue.and_then(|queue| queue.spec.ready_timeout.as_deref());
    if timeout.is_none() && known.timeouts == 0 {
        return ReadinessView::default();
    }
    ReadinessView {
        unready_since_ms: known.unready_since_ms,
        due_ms: known.due_ms,
        timeouts: known.timeouts,
        backoff_limit: timeout.and_then(|timeout| timeout.backoff_limit).filter(|_| known.timeouts > 0),
        until_ms: known.until_ms,
    }
}

/// An event about a job that was not ready in time.
pub(super) fn of_timeout(late: &ReadyTimeoutEvent, view: EventView) -> EventView {
    let ReadyTimeoutEvent { name, queue, seconds, attempt, .. } = late;
    let reason = format!("not ready within {seconds} s (readyTimeout of queue {queue})");
    let message = match (late.until_ms, late.limit) {
        (0, limit) => {
            let limit = limit.unwrap_or_default();
            format!(
                "job {name} is suspended: {reason}, attempt {attempt} and the last (backoffLimit {limit}); \
                 `ohm resume {name}` has it start again"
            )
        }
        (until_ms, limit) => {
            let wait = until_ms.saturating_sub(view.at_ms).div_ceil(1000);
            let attempts = limit.map(|limit| format!(" of {}", u64::from(limit) + 1)).unwrap_or_default();
            format!("job {name} is stopped and waits for {wait} s: {reason}, attempt {attempt}{attempts}")
        }
    };
    EventView { kind: "readyTimeout".into(), message, job: name.clone(), reason, ..view }
}
