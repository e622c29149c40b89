//! Which call is about what, and what to do about those that fail.

use super::EtcdCore;
use super::call::{CallError, CallId, Command, Request, Response};
use ohm_log::{Alarm, LogEvent};

/// The first pause after a failure; it doubles with each further one.
const PAUSE_MS_MIN: u64 = 20;
/// No pause is longer.
const PAUSE_MS_MAX: u64 = 1_000;
/// Failures for so long are worth a word to the operator.
const SILENT_MS: u64 = 3_000;

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Grant,
    Register,
    KeepAlive,
    ReadMarks(u64),
    ReadChunk(u64, usize),
    ReadEntries(u64),
    ListServers,
    Append(u64),
    Read,
    TakeSaving,
    WriteChunk(u64, usize),
    FlipPointer(u64),
    EndSaving,
    MarkTrim,
    DeleteEntries,
    Compact,
}

/// How etcd fares, as far as calls tell.
#[derive(Debug, Default)]
pub(super) struct Health {
    failures: u32,
    since_ms: Option<u64>,
    paused_until_ms: Option<u64>,
    is_said: bool,
    is_full: bool,
}

impl Health {
    pub(super) fn paused_until_ms(&self) -> Option<u64> {
        self.paused_until_ms
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }
}

impl EtcdCore {
    /// Whether something may be sent, or must wait for the end of a pause.
    pub(super) fn may_send(&self, now_ms: u64) -> bool {
        self.health.paused_until_ms.is_none_or(|until_ms| until_ms <= now_ms)
    }

    pub(super) fn call(&mut self, purpose: Purpose, request: Request) -> CallId {
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, purpose);
        self.commands.push(Command::Call(call, request));
        call
    }

    pub(super) fn answered(&mut self, now_ms: u64, call: CallId, answer: Result<Response, CallError>) {
        let Some(purpose) = self.calls.remove(&call) else { return };
        match &answer {
            Ok(_) => self.went_well(purpose),
            Err(error) => self.went_wrong(now_ms, error),
        }
        let answer = answer.ok();
        match purpose {
            Purpose::Grant => self.granted(now_ms, answer),
            Purpose::Register => self.registered(answer),
            Purpose::KeepAlive => self.kept_alive(answer),
            Purpose::ReadMarks(attempt) => self.marks_read(attempt, answer),
            Purpose::ReadChunk(attempt, number) => self.chunk_read(attempt, number, answer),
            Purpose::ReadEntries(attempt) => self.entries_read(attempt, answer),
            Purpose::ListServers => self.servers_listed(answer),
            Purpose::Append(sequence) => self.append_answered(now_ms, sequence, answer),
            Purpose::Read => self.read_answered(now_ms, answer),
            Purpose::TakeSaving => self.saving_taken(now_ms, answer),
            Purpose::WriteChunk(attempt, number) => self.chunk_written(attempt, number, answer),
            Purpose::FlipPointer(attempt) => self.pointer_flipped(attempt, answer),
            Purpose::EndSaving => {}
            Purpose::MarkTrim => self.trim_marked(answer),
            Purpose::DeleteEntries => self.entries_deleted(answer),
            Purpose::Compact => {}
        }
    }

    fn went_well(&mut self, purpose: Purpose) {
        (self.health.failures, self.health.since_ms, self.health.paused_until_ms) = (0, None, None);
        if std::mem::take(&mut self.health.is_said) {
            self.tell(LogEvent::Alarm(Alarm::EngineBack));
        }
        let writes = matches!(purpose, Purpose::Append(_) | Purpose::Register | Purpose::WriteChunk(..));
        if writes && std::mem::take(&mut self.health.is_full) {
            self.tell(LogEvent::Alarm(Alarm::DiskRoom));
        }
    }

    fn went_wrong(&mut self, now_ms: u64, error: &CallError) {
        // Compacting what is compacted already, and reading what just was, are no signs of trouble.
        if matches!(error, CallError::Compacted) {
            return;
        }
        if matches!(error, CallError::NoSpace) && !self.health.is_full {
            self.health.is_full = true;
            self.tell(LogEvent::Alarm(Alarm::DiskFull { file: "the database of etcd".into() }));
        }
        self.health.failures = self.health.failures.saturating_add(1);
        let pause_ms = (PAUSE_MS_MIN << self.health.failures.min(10)).min(PAUSE_MS_MAX);
        self.health.paused_until_ms = Some(now_ms + pause_ms / 2 + self.dice.below(pause_ms / 2 + 1));
        let since_ms = *self.health.since_ms.get_or_insert(now_ms);
        // What is refused will not become better by itself.
        let is_worth_it = now_ms >= since_ms + SILENT_MS || matches!(error, CallError::Refused(_));
        if is_worth_it && !std::mem::replace(&mut self.health.is_said, true) {
            self.tell(LogEvent::Alarm(Alarm::EngineLost { reason: error.to_string() }));
        }
    }

    /// A watch that broke is a failure, too: the next one waits a little.
    pub(super) fn watch_went_wrong(&mut self, now_ms: u64, reason: &str) {
        self.went_wrong(now_ms, &CallError::Lost(reason.into()));
    }
}
