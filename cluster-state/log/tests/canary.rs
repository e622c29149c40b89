//! The contract suite must find planted bugs, else it proves nothing.

use ohm_log::contract::{self, Engine};
use ohm_log::{
    DeliverError, Delivery, Log, LogEvent, LogFailure, LogRequest, MemFaults, MemLog, MemStore, SubmitError,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    /// A restart begins with an empty log.
    ForgetsAll,
    /// The tenth committed entry is not shown.
    LeavesOneOut,
    /// Two entries are shown in the wrong order.
    Swaps,
    /// An answer comes twice.
    AnswersTwice,
    /// An answer never comes.
    NeverAnswers,
    /// An unknown outcome is called a refusal.
    CallsUnknownRefused,
    /// Trim forgets entries that no snapshot covers: shown as a restart that skips the first entries.
    TrimsTooMuch,
    /// The queue has no end.
    NeverBusy,
    /// An old snapshot comes back as if it were the newest.
    ForgetsSnapshots,
    /// A read is answered with what was there long ago.
    ReadsStale,
}

struct Buggy {
    store: MemStore,
    bug: Bug,
    starts: u64,
}

struct BuggyLog {
    inner: MemLog,
    bug: Bug,
    restarted: bool,
    committed: u64,
    held: Vec<LogRequest>,
}

impl Engine for Buggy {
    type Log = BuggyLog;

    fn start(&mut self) -> BuggyLog {
        self.starts += 1;
        if self.bug == Bug::ForgetsAll && self.starts > 1 {
            self.store = MemStore::new(self.starts, MemFaults::default());
        }
        BuggyLog { inner: self.store.open(), bug: self.bug, restarted: self.starts > 1, committed: 0, held: Vec::new() }
    }

    fn stop(&mut self, log: BuggyLog) {
        drop(log);
    }
}

impl BuggyLog {
    fn spoil(&mut self, event: LogEvent, out: &mut Vec<LogEvent>) {
        let token = match &event {
            LogEvent::Committed { token, .. } => {
                self.committed += 1;
                *token
            }
            _ => None,
        };
        match (self.bug, event) {
            (Bug::LeavesOneOut, LogEvent::Committed { .. }) if self.committed == 10 => {}
            (Bug::TrimsTooMuch, LogEvent::Committed { token: None, .. }) if self.restarted && self.committed < 5 => {}
            (Bug::Swaps, event @ LogEvent::Committed { .. }) if self.committed == 10 => {
                let last = out.iter().rposition(|other| matches!(other, LogEvent::Committed { .. }));
                out.insert(last.unwrap_or(out.len()), event);
            }
            (Bug::AnswersTwice, event) => {
                out.push(event);
                out.extend(token.filter(|_| self.committed == 10).map(|token| LogEvent::Unknown { token }));
            }
            (Bug::NeverAnswers, LogEvent::Committed { index, bytes, .. }) if self.committed == 10 => {
                out.push(LogEvent::Committed { index, bytes, token: None });
            }
            (Bug::CallsUnknownRefused, LogEvent::Unknown { token }) => {
                out.push(LogEvent::Refused { token, reason: ohm_log::Refusal::Overloaded });
            }
            (Bug::ForgetsSnapshots, LogEvent::InstallSnapshot { .. }) => {}
            (Bug::ReadsStale, LogEvent::Readable { token, .. }) => {
                out.push(LogEvent::Readable { token, index: ohm_model::Index(0) });
            }
            (_, event) => out.push(event),
        }
    }
}

impl Log for BuggyLog {
    fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        match self.inner.submit(now_ms, request.clone()) {
            Err(SubmitError::Busy { .. }) if self.bug == Bug::NeverBusy => {
                self.held.push(request);
                Ok(())
            }
            answer => answer,
        }
    }

    fn deliver(&mut self, now_ms: u64, delivery: Delivery) -> Result<(), DeliverError> {
        self.inner.deliver(now_ms, delivery)
    }

    fn poll(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let mut events = Vec::new();
        self.inner.poll(now_ms, &mut events)?;
        events.into_iter().for_each(|event| self.spoil(event, out));
        Ok(())
    }

    fn wake_ms(&self) -> Option<u64> {
        self.inner.wake_ms()
    }
}

fn found(bug: Bug) -> bool {
    let faults = MemFaults { delay_ms_max: 5, gap_max: 2, unknown_permille: 100, ..MemFaults::default() };
    catch_unwind(AssertUnwindSafe(|| {
        contract::check(0..3, |seed| Buggy { store: MemStore::new(seed, faults), bug, starts: 0 });
    }))
    .is_err()
}

#[test]
fn every_planted_bug_is_found_and_nothing_else() {
    let bugs = [
        Bug::ForgetsAll,
        Bug::LeavesOneOut,
        Bug::Swaps,
        Bug::AnswersTwice,
        Bug::NeverAnswers,
        Bug::CallsUnknownRefused,
        Bug::TrimsTooMuch,
        Bug::NeverBusy,
        Bug::ForgetsSnapshots,
        Bug::ReadsStale,
    ];
    assert!(!found(Bug::None), "the engine without a bug must pass");
    for bug in bugs {
        assert!(found(bug), "{bug:?} was not found");
    }
}
