//! Reports on their way to the log: kept until they are accepted, sent in batches, one batch at a time.

use ohm_model::{RunReport, RunReportKind};
use std::collections::VecDeque;

/// A batch is one command, and an entry of the log holds 1 MiB of them.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// About how many bytes `report` takes.
fn bytes_of(report: &RunReport) -> usize {
    32 + match &report.kind {
        RunReportKind::Ended { message, .. } | RunReportKind::Ready { message, .. } => message.len(),
        RunReportKind::Started { .. } => 0,
    }
}

/// A batch that was sent and not accepted yet.
#[derive(Clone, Debug)]
struct Batch {
    number: u64,
    reports: Vec<RunReport>,
    due_ms: u64,
}

/// Reports in the order in which things happened. While a batch is under way, later reports gather for the next one.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    waiting: VecDeque<RunReport>,
    oldest_ms: u64,
    batch: Option<Batch>,
    number: u64,
    attempt: u32,
    batch_max: usize,
    delay_ms: u64,
    resend_ms: u64,
}

impl Outbox {
    pub(crate) fn new(batch_max: usize, delay_ms: u64, resend_ms: u64) -> Self {
        let (batch_max, resend_ms) = (batch_max.max(1), resend_ms.max(1));
        let waiting = VecDeque::new();
        Outbox { waiting, oldest_ms: 0, batch: None, number: 0, attempt: 0, batch_max, delay_ms, resend_ms }
    }

    pub(crate) fn push(&mut self, now_ms: u64, report: RunReport) {
        if self.waiting.is_empty() {
            self.oldest_ms = now_ms;
        }
        self.waiting.push_back(report);
    }

    /// When something has to be sent (again).
    pub(crate) fn due_ms(&self) -> Option<u64> {
        match &self.batch {
            Some(batch) => Some(batch.due_ms),
            None if self.waiting.is_empty() => None,
            None if self.waiting.len() >= self.batch_max => Some(self.oldest_ms),
            None => Some(self.oldest_ms.saturating_add(self.delay_ms)),
        }
    }

    /// What was sent may be lost with the connection: everything is due now.
    pub(crate) fn hurry(&mut self, now_ms: u64) {
        self.attempt = 0;
        match &mut self.batch {
            Some(batch) => batch.due_ms = now_ms,
            None => self.oldest_ms = self.oldest_ms.min(now_ms.saturating_sub(self.delay_ms)),
        }
    }

    /// The batch to send now. An unanswered one goes out again under a new number, with the time-out doubled up to 16
    /// times.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<(u64, Vec<RunReport>)> {
        if self.due_ms()? > now_ms {
            return None;
        }
        let mut reports = match self.batch.take() {
            Some(batch) => {
                self.attempt = (self.attempt + 1).min(4);
                batch.reports
            }
            None => Vec::new(),
        };
        let mut bytes: usize = reports.iter().map(bytes_of).sum();
        while reports.len() < self.batch_max
            && let Some(next) = self.waiting.front()
            && (reports.is_empty() || bytes + bytes_of(next) <= BATCH_BYTES_MAX)
        {
            bytes += bytes_of(next);
            reports.extend(self.waiting.pop_front());
        }
        self.oldest_ms = now_ms;
        self.number += 1;
        let due_ms = now_ms.saturating_add(self.resend_ms.saturating_mul(1 << self.attempt));
        self.batch = Some(Batch { number: self.number, reports: reports.clone(), due_ms });
        Some((self.number, reports))
    }

    /// A number for something else that is sent beside the batches and accepted like one.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// What the accepted batch held; empty for any other batch than the one under way.
    pub(crate) fn accept(&mut self, number: u64) -> Vec<RunReport> {
        match self.batch.take_if(|batch| batch.number == number) {
            Some(batch) => {
                self.attempt = 0;
                batch.reports
            }
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::{Exit, JobId, RunRef};

    fn report(task: u32) -> RunReport {
        RunReport { run: RunRef::new(JobId(1), 0, task, 1), kind: RunReportKind::Started { pid: task } }
    }

    #[test]
    fn reports_gather_behind_the_batch_under_way_and_come_again_until_accepted() {
        let mut outbox = Outbox::new(3, 10, 100);
        outbox.push(0, report(1));
        assert_eq!(outbox.next(9), None, "a little patience makes a batch");
        let (first, reports) = outbox.next(10).unwrap();
        assert_eq!(reports, [report(1)]);
        (2..=5).for_each(|task| outbox.push(20, report(task)));
        assert_eq!(outbox.next(20), None, "one batch at a time");
        let (second, reports) = outbox.next(110).unwrap();
        assert_eq!(reports, [report(1), report(2), report(3)]);
        assert_eq!(outbox.accept(first), [], "its number is not current any more");
        assert_eq!(outbox.next(309), None, "the second wait is longer");
        assert_eq!(outbox.accept(second).len(), 3);
        assert_eq!(outbox.next(120).unwrap().1, [report(4), report(5)]);
    }

    #[test]
    fn a_batch_is_bounded_in_bytes() {
        let mut outbox = Outbox::new(1024, 0, 100);
        let message = "x".repeat(40_000);
        let ended = |task| RunReport {
            run: RunRef::new(JobId(1), 0, task, 1),
            kind: RunReportKind::Ended { exit: Exit::StartFailed, message: message.clone() },
        };
        (0..20).for_each(|task| outbox.push(0, ended(task)));
        let mut told = 0;
        while told < 20 {
            let (number, reports) = outbox.next(0).expect("more is waiting");
            assert!(reports.iter().map(bytes_of).sum::<usize>() <= BATCH_BYTES_MAX && !reports.is_empty());
            told += outbox.accept(number).len();
        }
    }
}
