//! Ready timeouts: what a queue gives, and how a job stands under it.

use super::times::{length, utc};
use super::{Style, counted};
use ohm_wire::api::{ReadinessView, ReadyTimeoutView};

/// What a queue gives its jobs, in one line.
pub(super) fn timeout_line(timeout: &ReadyTimeoutView) -> String {
    let ReadyTimeoutView { timeout_seconds, recovery_timeout_seconds, .. } = timeout;
    let (base, most) = (timeout.backoff_base_seconds, timeout.backoff_max_seconds);
    let end = match timeout.backoff_limit {
        None => String::new(),
        Some(limit) => format!(", suspended after {}", counted(limit.into(), "attempt")),
    };
    format!(
        "within {timeout_seconds} s, again within {recovery_timeout_seconds} s, \
         else stopped to wait for {base} to {most} s{end} (readyTimeout)"
    )
}

/// How a job stands under it, in one line; empty where nothing is to be told.
pub(super) fn readiness_line(readiness: &ReadinessView, style: &Style) -> String {
    let limit = readiness.backoff_limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    let attempt = match readiness.timeouts {
        0 => String::new(),
        times => format!(", attempt {times}{limit}"),
    };
    if readiness.until_ms > 0 {
        let left = length(readiness.until_ms.saturating_sub(style.now_ms));
        return format!("was not in time; waits until {} UTC ({left}){attempt}", utc(readiness.until_ms));
    }
    if readiness.due_ms > 0 {
        let (since, left) = (readiness.unready_since_ms, readiness.due_ms.saturating_sub(style.now_ms));
        let so_far = length(style.now_ms.saturating_sub(since));
        let before = if readiness.timeouts > 0 { format!(", was not in time before{attempt}") } else { String::new() };
        return format!("not for {so_far}; stopped in {} unless it is (readyTimeout){before}", length(left));
    }
    if readiness.timeouts > 0 { format!("was not in time{attempt}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;

    #[test]
    fn a_job_says_how_long_it_has_and_waits() {
        let style = Style { now_ms: 100_000, ..PLAIN };
        let line = |readiness: ReadinessView| readiness_line(&readiness, &style);
        assert_eq!(line(ReadinessView::default()), "");
        let late = ReadinessView { unready_since_ms: 80_000, due_ms: 110_000, ..ReadinessView::default() };
        assert_eq!(line(late.clone()), "not for 20s; stopped in 10s unless it is (readyTimeout)");
        let again = ReadinessView { timeouts: 2, backoff_limit: Some(5), ..late };
        let told = "not for 20s; stopped in 10s unless it is (readyTimeout), was not in time before, attempt 2 of 5";
        assert_eq!(line(again.clone()), told);
        let waits = ReadinessView { unready_since_ms: 0, due_ms: 0, until_ms: 160_000, ..again };
        assert_eq!(line(waits), "was not in time; waits until 1970-01-01 00:02:40 UTC (60s), attempt 2 of 5");
    }

    #[test]
    fn a_queue_says_what_it_gives() {
        let timeout = ReadyTimeoutView {
            timeout_seconds: 300,
            recovery_timeout_seconds: 120,
            backoff_base_seconds: 60,
            backoff_max_seconds: 3600,
            backoff_limit: Some(5),
        };
        let told = "within 300 s, again within 120 s, else stopped to wait for 60 to 3600 s, suspended after 5 attempts \
                    (readyTimeout)";
        assert_eq!(timeout_line(&timeout), told);
    }
}
