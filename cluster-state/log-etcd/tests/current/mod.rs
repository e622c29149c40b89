//! A log for the contract suite that has nothing more to tell only when that is proven: the suite counts polls, and etcd
//! takes time, so after some idle polls a read says how far the log must have come.

use ohm_log::{DeliverError, Delivery, Log, LogEvent, LogFailure, LogRequest, SubmitError};

/// Idle polls before a proof is asked for.
const IDLE: usize = 10;
/// Turns that a proof may take.
const TURNS_MAX: usize = 6_000;
/// Tokens of the suite are lower.
const PROOFS: u64 = 1 << 62;

/// Time of whichever kind.
pub(crate) trait Clock {
    fn now_ms(&self) -> u64;

    /// Lets some time pass, or something happen.
    fn pass(&mut self);
}

pub(crate) struct Current<L, C> {
    pub(crate) log: L,
    clock: C,
    applied: u64,
    idle: usize,
    proofs: u64,
    wanted: Wanted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Answer,
    Applied(u64),
}

impl<L: Log, C: Clock> Current<L, C> {
    pub(crate) fn new(log: L, clock: C) -> Self {
        Current { log, clock, applied: 0, idle: 0, proofs: PROOFS, wanted: Wanted::Nothing }
    }

    fn turn(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let mut events = Vec::new();
        let polled = self.log.poll(self.clock.now_ms(), &mut events);
        for event in events {
            match event {
                LogEvent::Readable { token, index } if token >= PROOFS => self.wanted = Wanted::Applied(index.0),
                LogEvent::Refused { token, .. } if token >= PROOFS => self.wanted = Wanted::Nothing,
                event => {
                    if let LogEvent::Committed { index, .. } | LogEvent::InstallSnapshot { index, .. } = &event {
                        self.applied = index.0;
                    }
                    out.push(event);
                }
            }
        }
        polled
    }
}

impl<L: Log, C: Clock> Log for Current<L, C> {
    fn submit(&mut self, _now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        self.log.submit(self.clock.now_ms(), request)
    }

    fn deliver(&mut self, _now_ms: u64, _delivery: Delivery) -> Result<(), DeliverError> {
        Err(DeliverError::Ended)
    }

    fn poll(&mut self, _now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        for _ in 0..TURNS_MAX {
            self.turn(out)?;
            self.idle = if out.is_empty() { self.idle + 1 } else { 0 };
            if self.idle < IDLE {
                self.clock.pass();
                return Ok(());
            }
            match self.wanted {
                Wanted::Applied(index) if self.applied >= index => {
                    self.wanted = Wanted::Nothing;
                    return Ok(());
                }
                Wanted::Nothing => {
                    self.proofs += 1;
                    let read = LogRequest::Read { token: self.proofs };
                    if self.log.submit(self.clock.now_ms(), read).is_ok() {
                        self.wanted = Wanted::Answer;
                    }
                }
                _ => {}
            }
            self.clock.pass();
        }
        panic!("the log neither tells anything nor proves that there is nothing to tell")
    }

    fn wake_ms(&self) -> Option<u64> {
        None
    }
}
