//! What the copy is told, and how the log ends.

use ohm_log::{LogEvent, LogFailure};
use std::collections::VecDeque;

/// Entries that one poll yields at most, and their bytes.
const POLL_ENTRIES_MAX: usize = 256;
const POLL_BYTES_MAX: usize = 4 << 20;

/// What the copy is to be told, oldest first.
#[derive(Default)]
pub(super) struct Told {
    ready: VecDeque<LogEvent>,
    ready_bytes: usize,
    /// The last index that the copy was told.
    yielded: u64,
    failure: Option<LogFailure>,
}

impl Told {
    pub(super) fn tell(&mut self, event: LogEvent) {
        self.ready_bytes += size_of(&event);
        self.ready.push_back(event);
    }

    pub(super) fn fail(&mut self, failure: LogFailure) {
        self.failure.get_or_insert(failure);
    }

    pub(super) fn broken(&mut self, what: &str, reason: &dyn std::fmt::Display) {
        self.fail(LogFailure::Engine(format!("{what} in etcd can't be read: {reason}")));
    }

    /// Etcd has forgotten what it had acknowledged.
    pub(super) fn was_restored(&mut self) {
        self.fail(LogFailure::Engine(RESTORED.into()));
    }

    /// Whether the log is over.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether nothing is to be told.
    pub(super) fn is_quiet(&self) -> bool {
        self.ready.is_empty() && self.failure.is_none()
    }

    /// The last index that the copy was told.
    pub(super) fn yielded(&self) -> u64 {
        self.yielded
    }

    /// Bytes that wait for the copy. The shell stops hearing watches while they are too many.
    pub(super) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Moves what the copy is to be told to `out`: a bounded amount of bytes, snapshots apart.
    ///
    /// # Errors
    /// Once the log is over, and everything before that was told.
    pub(super) fn poll(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let (mut entries, mut bytes) = (0, 0);
        while entries < POLL_ENTRIES_MAX && bytes < POLL_BYTES_MAX {
            let Some(event) = self.ready.pop_front() else {
                return self.failure.clone().map_or(Ok(()), Err);
            };
            entries += 1;
            let size = size_of(&event);
            bytes += size;
            self.ready_bytes -= size;
            if let LogEvent::Committed { index, .. } | LogEvent::InstallSnapshot { index, .. } = &event {
                self.yielded = index.0;
            }
            out.push(event);
        }
        Ok(())
    }
}

fn size_of(event: &LogEvent) -> usize {
    match event {
        LogEvent::Committed { bytes, .. } => bytes.len(),
        LogEvent::InstallSnapshot { pieces, .. } => pieces.iter().map(bytes::Bytes::len).sum(),
        _ => 0,
    }
}

/// What is said when etcd has forgotten what it had acknowledged.
const RESTORED: &str = "etcd holds another state than before, as after a restore from a backup: start this \
                                   server again, and it goes on from what is there";
