//! Which call is about what, and what to do about those that fail.

use super::call::{CallError, CallId, Command, Request};
use super::told::Told;
use ohm_log::{Alarm, LogEvent};
use ohm_stdx::Prng;
use std::collections::BTreeMap;

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
struct Health {
    failures: u32,
    since_ms: Option<u64>,
    paused_until_ms: Option<u64>,
    is_said: bool,
    is_full: bool,
}

/// Calls that wait for their answers, and what the shell is to do, in order.
pub(super) struct Calls {
    open: BTreeMap<CallId, Purpose>,
    next_call: CallId,
    next_watch: u64,
    commands: Vec<Command>,
    health: Health,
    /// What the pauses between attempts are drawn from.
    dice: Prng,
}

impl Calls {
    pub(super) fn new(dice: Prng) -> Self {
        let (open, commands, health) = (BTreeMap::new(), Vec::new(), Health::default());
        Calls { open, next_call: 1, next_watch: 1, commands, health, dice }
    }

    /// Whether something may be sent, or must wait for the end of a pause.
    pub(super) fn may_send(&self, now_ms: u64) -> bool {
        self.health.paused_until_ms.is_none_or(|until_ms| until_ms <= now_ms)
    }

    /// Until when nothing is sent after a failure.
    pub(super) fn paused_until_ms(&self) -> Option<u64> {
        self.health.paused_until_ms
    }

    /// Whether etcd has no space left.
    pub(super) fn is_full(&self) -> bool {
        self.health.is_full
    }

    pub(super) fn call(&mut self, purpose: Purpose, request: Request) -> CallId {
        let call = self.next_call;
        self.next_call += 1;
        self.open.insert(call, purpose);
        self.commands.push(Command::Call(call, request));
        call
    }

    /// Begins to watch what lies below `prefix`, and names the watch.
    pub(super) fn watch(&mut self, prefix: String, from: u64, deletions: bool) -> u64 {
        let watch = self.next_watch;
        self.next_watch += 1;
        self.commands.push(Command::Watch { watch, prefix, from, deletions });
        watch
    }

    pub(super) fn unwatch(&mut self, watch: u64) {
        self.commands.push(Command::Unwatch(watch));
    }

    /// What `call` was about, if it still waited for its answer; it does no more.
    pub(super) fn settle(&mut self, call: CallId) -> Option<Purpose> {
        self.open.remove(&call)
    }

    pub(super) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// A call was answered.
    pub(super) fn went_well(&mut self, purpose: Purpose, told: &mut Told) {
        (self.health.failures, self.health.since_ms, self.health.paused_until_ms) = (0, None, None);
        if std::mem::take(&mut self.health.is_said) {
            told.tell(LogEvent::Alarm(Alarm::EngineBack));
        }
        let writes = matches!(purpose, Purpose::Append(_) | Purpose::Register | Purpose::WriteChunk(..));
        if writes && std::mem::take(&mut self.health.is_full) {
            told.tell(LogEvent::Alarm(Alarm::DiskRoom));
        }
    }

    /// A call failed.
    pub(super) fn went_wrong(&mut self, now_ms: u64, error: &CallError, told: &mut Told) {
        // Compacting what is compacted already, and reading what just was, are no signs of trouble.
        if matches!(error, CallError::Compacted) {
            return;
        }
        if matches!(error, CallError::NoSpace) && !self.health.is_full {
            self.health.is_full = true;
            told.tell(LogEvent::Alarm(Alarm::DiskFull {
                file: "the database of etcd".into(),
                reason: "the disk is full".into(),
            }));
        }
        self.health.failures = self.health.failures.saturating_add(1);
        let pause_ms = (PAUSE_MS_MIN << self.health.failures.min(10)).min(PAUSE_MS_MAX);
        self.health.paused_until_ms = Some(now_ms + pause_ms / 2 + self.dice.below(pause_ms / 2 + 1));
        let since_ms = *self.health.since_ms.get_or_insert(now_ms);
        // What is refused will not become better by itself.
        let is_worth_it = now_ms >= since_ms + SILENT_MS || matches!(error, CallError::Refused(_));
        if is_worth_it && !std::mem::replace(&mut self.health.is_said, true) {
            told.tell(LogEvent::Alarm(Alarm::EngineLost { reason: error.to_string() }));
        }
    }

    /// A watch that broke is a failure, too: the next one waits a little.
    pub(super) fn watch_went_wrong(&mut self, now_ms: u64, reason: &str, told: &mut Told) {
        self.went_wrong(now_ms, &CallError::Lost(reason.into()), told);
    }

    /// The call about what `is_meant`, if one is open.
    #[cfg(test)]
    pub(super) fn find(&self, is_meant: impl Fn(Purpose) -> bool) -> Option<CallId> {
        self.open.iter().find(|(_, purpose)| is_meant(**purpose)).map(|(call, _)| *call)
    }
}
