//! Ready timeouts: what a queue gives, and how a job stands under it.

use super::Style;
use super::times::{length, utc};
use ohm_wire::api::{ReadinessView, ReadyTimeoutView};

/// What a queue gives its jobs, in one line.
pub(super) fn timeout_line(timeout: &ReadyTimeoutView) -> String {
    let ReadyTimeoutView { timeout_seconds, recovery_timeout_seconds, .. } = timeout;
    let (base, most) = (timeout.backoff_base_seconds, timeout.backoff_max_seconds);
    let waits = format!("stopped to wait for {base} to {most} s");
    let late = match timeout.backoff_limit {
        None => waits,
        Some(0) => "suspended until `ohm resume NAME`".to_string(),
        Some(limit) => {
            format!("{waits}, and suspended by time-out {} in a row until `ohm resume NAME`", u64::from(limit) + 1)
        }
    };
    format!("within {timeout_seconds} s, again within {recovery_timeout_seconds} s, else {late} (readyTimeout)")
}

/// How the job `name` stands under it, in one line; empty where nothing is to be told.
pub(super) fn readiness_line(name: &str, state: &str, readiness: &ReadinessView, style: &Style) -> String {
    let times = readiness.timeouts;
    let attempts = readiness.backoff_limit.map(|limit| u64::from(limit) + 1);
    let number = attempts.map_or(format!("{times}"), |attempts| format!("{times} of {attempts}"));
    if readiness.until_ms > 0 {
        let left = length(readiness.until_ms.saturating_sub(style.now_ms));
        return format!("not in time on attempt {number}; waits until {} UTC ({left})", utc(readiness.until_ms));
    }
    if readiness.due_ms > 0 {
        let (since, left) = (readiness.unready_since_ms, readiness.due_ms.saturating_sub(style.now_ms));
        let so_far = length(style.now_ms.saturating_sub(since));
        let before = if times > 0 { format!("; not in time on attempt {number}") } else { String::new() };
        return format!(
            "no, for {so_far} now; stopped in {} unless it is by then (readyTimeout){before}",
            length(left)
        );
    }
    match attempts {
        _ if times == 0 => String::new(),
        Some(attempts) if u64::from(times) >= attempts && state == "suspended" => {
            let end = format!("`ohm resume {name}` has it start again");
            format!("not in time on attempt {times}, the last (readyTimeout, backoffLimit {}); {end}", attempts - 1)
        }
        _ => format!("not in time on attempt {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::PLAIN;

    #[test]
    fn a_job_says_how_long_it_has_and_waits() {
        let style = Style { now_ms: 100_000, ..PLAIN };
        let line = |readiness: ReadinessView| readiness_line("j", "pending", &readiness, &style);
        assert_eq!(line(ReadinessView::default()), "");
        let late = ReadinessView { unready_since_ms: 80_000, due_ms: 110_000, ..ReadinessView::default() };
        let first = "no, for 20s now; stopped in 10s unless it is by then (readyTimeout)";
        assert_eq!(line(late.clone()), first);
        let again = ReadinessView { timeouts: 2, backoff_limit: Some(5), ..late };
        assert_eq!(line(again.clone()), format!("{first}; not in time on attempt 2 of 6"));
        let waits = ReadinessView { unready_since_ms: 0, due_ms: 0, until_ms: 160_000, ..again };
        assert_eq!(line(waits.clone()), "not in time on attempt 2 of 6; waits until 1970-01-01 00:02:40 UTC (60s)");
        let turn = ReadinessView { until_ms: 0, ..waits };
        assert_eq!(line(turn.clone()), "not in time on attempt 2 of 6");
        let last = ReadinessView { timeouts: 1, backoff_limit: Some(0), ..turn };
        assert_eq!(
            readiness_line("j", "suspended", &last, &style),
            "not in time on attempt 1, the last (readyTimeout, backoffLimit 0); `ohm resume j` has it start again"
        );
    }

    #[test]
    fn a_queue_says_what_it_gives() {
        let line = |backoff_limit| {
            timeout_line(&ReadyTimeoutView {
                timeout_seconds: 300,
                recovery_timeout_seconds: 120,
                backoff_base_seconds: 60,
                backoff_max_seconds: 3600,
                backoff_limit,
            })
        };
        let waits = "within 300 s, again within 120 s, else stopped to wait for 60 to 3600 s";
        assert_eq!(line(None), format!("{waits} (readyTimeout)"));
        let ends = "and suspended by time-out 2 in a row until `ohm resume NAME` (readyTimeout)";
        assert_eq!(line(Some(1)), format!("{waits}, {ends}"));
        let never = "within 300 s, again within 120 s, else suspended until `ohm resume NAME` (readyTimeout)";
        assert_eq!(line(Some(0)), never);
    }
}
