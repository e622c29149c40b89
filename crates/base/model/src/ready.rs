//! Ready timeouts: a queue gives what is placed of its jobs a time to run, and takes back what does not.

use crate::ids::JobId;
use serde::{Deserialize, Serialize};

/// The first back-off unless the queue says otherwise.
pub const BACKOFF_BASE_SECONDS: u64 = 60;
/// No back-off is longer unless the queue says otherwise.
pub const BACKOFF_MAX_SECONDS: u64 = 3600;

/// By when what is placed of a job must run, and how long it waits where it did not (`readyTimeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyTimeout {
    /// From when the first of its tasks is placed until it is ready. At least 1.
    pub timeout_seconds: u64,
    /// From when it is ready no more until it is ready again. At least 1.
    pub recovery_timeout_seconds: u64,
    /// How long it waits after the first time-out; twice as long after each one more.
    pub backoff_base_seconds: u64,
    /// It never waits longer.
    pub backoff_max_seconds: u64,
    /// After so many time-outs in a row the next one suspends it; nothing is no bound.
    pub backoff_limit: Option<u32>,
}

impl ReadyTimeout {
    /// One with this time, and all else as where nothing is said.
    pub fn of(timeout_seconds: u64) -> Self {
        ReadyTimeout {
            timeout_seconds,
            recovery_timeout_seconds: timeout_seconds,
            backoff_base_seconds: BACKOFF_BASE_SECONDS,
            backoff_max_seconds: BACKOFF_MAX_SECONDS,
            backoff_limit: None,
        }
    }

    /// The time that a job has, by whether it was ready since it was placed.
    pub fn seconds(&self, was_ready: bool) -> u64 {
        if was_ready { self.recovery_timeout_seconds } else { self.timeout_seconds }
    }

    /// How long a job waits after time-out number `times`, from 1.
    pub fn backoff_ms(&self, times: u32) -> u64 {
        let doubled = 1u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
        let seconds = self.backoff_base_seconds.saturating_mul(doubled).min(self.backoff_max_seconds);
        seconds.saturating_mul(1000)
    }

    /// Whether time-out number `times` is the one that suspends a job.
    pub fn is_last(&self, times: u32) -> bool {
        self.backoff_limit.is_some_and(|limit| times > limit)
    }

    /// The first of its times that is zero and may not be, by its field.
    pub fn zero_field(&self) -> Option<&'static str> {
        let times = [
            ("timeoutSeconds", self.timeout_seconds),
            ("recoveryTimeoutSeconds", self.recovery_timeout_seconds),
            ("backoffBaseSeconds", self.backoff_base_seconds),
            ("backoffMaxSeconds", self.backoff_max_seconds),
        ];
        times.into_iter().find(|(_, seconds)| *seconds == 0).map(|(field, _)| field)
    }
}

/// A job was not ready in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyTimeoutEvent {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// The time that it had.
    pub seconds: u64,
    /// Which time-out it is since the job was ready last, from 1.
    pub attempt: u32,
    /// How many there may be before it is suspended, if that is bounded.
    pub limit: Option<u32>,
    /// Nothing of it is placed before this stamped time; 0 where it is suspended.
    pub until_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_back_off_is_twice_as_long_up_to_the_most() {
        let timeout = ReadyTimeout::of(300);
        let waits: Vec<u64> = (1..9).map(|times| timeout.backoff_ms(times) / 1000).collect();
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(timeout.backoff_ms(u32::MAX), 3_600_000);
        assert!(!timeout.is_last(u32::MAX), "nothing bounds them");
        let bounded = ReadyTimeout { backoff_limit: Some(2), ..timeout };
        assert_eq!((bounded.is_last(2), bounded.is_last(3)), (false, true));
    }
}
