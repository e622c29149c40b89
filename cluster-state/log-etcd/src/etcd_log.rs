//! The seam of the log around the core.

use crate::core::call::{Command, Heard};
use crate::core::{EtcdConfig, EtcdCore, Note};
use ohm_log::{DeliverError, Delivery, Log, LogEvent, LogFailure, LogRequest, SubmitError};

/// Bytes that may wait for the copy before watches are heard again.
const READY_BYTES_MAX: usize = 8 << 20;

/// A way to etcd: real, or of a test.
pub trait Line {
    /// Does it, some time.
    fn send(&mut self, now_ms: u64, command: Command);

    /// What was heard, oldest first; without what watches have seen unless `watches`.
    fn receive(&mut self, now_ms: u64, watches: bool) -> Option<Heard>;

    /// Keeps what the next start must know. Called now and then; the last word may be lost.
    fn keep(&mut self, now_ms: u64, note: &dyn Fn() -> Note);
}

/// The log of one server over etcd.
pub struct EtcdLog<L> {
    core: EtcdCore,
    line: L,
    now_ms: u64,
}

impl<L: Line> EtcdLog<L> {
    /// The log of the server that `config` names.
    pub fn new(config: EtcdConfig, line: L) -> Self {
        EtcdLog { core: EtcdCore::new(config), line, now_ms: 0 }
    }

    /// The core, to look at.
    pub fn core(&self) -> &EtcdCore {
        &self.core
    }

    fn work(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        loop {
            let watches = self.core.ready_bytes() < READY_BYTES_MAX;
            let Some(heard) = self.line.receive(now_ms, watches) else { break };
            self.core.hear(now_ms, heard);
        }
        self.core.tick(now_ms);
        for command in self.core.take_commands() {
            self.line.send(now_ms, command);
        }
        let core = &self.core;
        self.line.keep(now_ms, &|| core.note());
    }
}

impl<L: Line> Log for EtcdLog<L> {
    fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        self.core.submit(now_ms, request)
    }

    fn deliver(&mut self, _now_ms: u64, _delivery: Delivery) -> Result<(), DeliverError> {
        Err(DeliverError::Ended)
    }

    fn poll(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        self.work(now_ms);
        self.core.poll(out)
    }

    fn wake_ms(&self) -> Option<u64> {
        self.core.wake_ms(self.now_ms)
    }
}
