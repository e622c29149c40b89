//! The lease of this server, and the key that goes with it.
//!
//! ```text
//!   Absent ─▶ Granting ─▶ Registering ─▶ Held ──renewed, renewed …──┐
//!      ▲──────────┴────────────┴──────────┴── lost, run out ◀───────┘
//! ```
//! The own clock counts from the sending of the last renewal that was answered: it ends the session no later than etcd
//! does.

use super::EtcdCore;
use super::call::{Op, Request, Response, Txn};
use super::calls::Purpose;
use bytes::Bytes;

/// A session is renewed this often in the time that its lease lasts.
const RENEWALS: u64 = 4;

#[derive(Debug, Default)]
pub(super) enum Session {
    #[default]
    Absent,
    /// There will be none.
    Never,
    Granting {
        sent_ms: u64,
    },
    Registering {
        lease: u64,
        granted_ms: u64,
    },
    Held {
        lease: u64,
        /// The revision of the server's key: it names the session in guards.
        revision: u64,
        renewed_ms: u64,
        ends_ms: u64,
        /// When a renewal that is under way was sent.
        renewing_ms: Option<u64>,
    },
}

impl Session {
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Session::Held { .. })
    }

    /// The revision of the server's key, and the lease.
    pub(super) fn held(&self) -> Option<(u64, u64)> {
        match self {
            Session::Held { lease, revision, .. } => Some((*revision, *lease)),
            _ => None,
        }
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        match self {
            Session::Absent => Some(0),
            Session::Held { renewed_ms, ends_ms, renewing_ms: None, .. } => {
                Some(renewed_ms + (ends_ms - renewed_ms) / RENEWALS)
            }
            Session::Held { ends_ms, .. } => Some(*ends_ms),
            _ => None,
        }
    }
}

impl EtcdCore {
    pub(super) fn tick_session(&mut self, now_ms: u64) {
        let may_send = self.may_send(now_ms);
        match &mut self.session {
            Session::Absent if may_send => {
                self.session = Session::Granting { sent_ms: now_ms };
                let ttl_s = self.config.session_ms.div_ceil(1000);
                self.call(Purpose::Grant, Request::Grant { ttl_s });
            }
            Session::Held { ends_ms, .. } if *ends_ms <= now_ms => self.end_session(),
            Session::Held { lease, renewed_ms, ends_ms, renewing_ms, .. } => {
                let due_ms = *renewed_ms + (*ends_ms - *renewed_ms) / RENEWALS;
                let lease = *lease;
                if renewing_ms.is_none() && due_ms <= now_ms && may_send {
                    *renewing_ms = Some(now_ms);
                    self.call(Purpose::KeepAlive, Request::KeepAlive { lease });
                }
            }
            _ => {}
        }
    }

    /// The lease is gone, or may be: a new one is needed before anything is appended.
    pub(super) fn end_session(&mut self) {
        self.session = Session::Absent;
    }

    pub(super) fn granted(&mut self, _now_ms: u64, answer: Option<Response>) {
        let Session::Granting { sent_ms } = self.session else { return };
        match answer {
            Some(Response::Lease { lease, ttl_s }) if ttl_s > 0 => {
                self.session = Session::Registering { lease, granted_ms: sent_ms };
                let (key, value) = (self.keys.server(self.config.note.server), self.config.address.clone());
                let put = Op::Put { key, value: Bytes::from(value), lease };
                self.call(Purpose::Register, Request::Txn(Txn { then: vec![put], ..Txn::default() }));
            }
            _ => self.end_session(),
        }
    }

    pub(super) fn registered(&mut self, answer: Option<Response>) {
        let Session::Registering { lease, granted_ms } = self.session else { return };
        self.session = match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => Session::Held {
                lease,
                revision,
                renewed_ms: granted_ms,
                ends_ms: granted_ms + self.config.session_ms,
                renewing_ms: None,
            },
            _ => Session::Absent,
        };
    }

    pub(super) fn kept_alive(&mut self, answer: Option<Response>) {
        let Session::Held { lease: own, renewed_ms, ends_ms, renewing_ms, .. } = &mut self.session else { return };
        let Some(sent_ms) = renewing_ms.take() else { return };
        match answer {
            Some(Response::Lease { lease, ttl_s: 0 }) if lease == *own => self.end_session(),
            Some(Response::Lease { lease, .. }) if lease == *own => {
                *renewed_ms = sent_ms;
                *ends_ms = sent_ms + self.config.session_ms;
            }
            // Asked again at once, or after the pause, until the lease has run out.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::call::{Command, Heard};
    use crate::core::{CellRecord, EtcdConfig, Note};

    fn core() -> EtcdCore {
        let cell = CellRecord { cell: 1, incarnation: 1 };
        EtcdCore::new(EtcdConfig::new("/ohm", Note { cell, server: 1, key: 1, last: None }, "", 9))
    }

    /// Answers the one lease call that is open.
    fn answer(core: &mut EtcdCore, now_ms: u64, ttl_s: u64) -> Option<()> {
        let call = core.calls.iter().find(|(_, purpose)| matches!(purpose, Purpose::Grant | Purpose::KeepAlive));
        let call = *call?.0;
        core.hear(now_ms, Heard::Answer(call, Ok(Response::Lease { lease: 5, ttl_s })));
        Some(())
    }

    #[test]
    fn a_session_is_renewed_and_ends_with_its_lease() {
        let mut core = core();
        core.tick(1_000);
        answer(&mut core, 1_500, 10).unwrap();
        let register = core.calls.iter().find(|(_, purpose)| **purpose == Purpose::Register).map(|(call, _)| *call);
        let done = Response::Txn { succeeded: true, revision: 7, found: Vec::new() };
        core.hear(1_600, Heard::Answer(register.unwrap(), Ok(done)));
        assert_eq!(core.session.held(), Some((7, 5)));
        core.tick(3_400);
        assert!(answer(&mut core, 3_400, 10).is_none(), "not due yet");
        core.tick(3_500);
        answer(&mut core, 4_000, 10).unwrap();
        core.tick(13_499);
        assert!(core.session.is_held(), "it counts from the sending of the renewal");
        core.tick(13_500);
        assert!(!core.session.is_held());
        core.tick(13_500);
        assert!(core.take_commands().iter().any(|c| matches!(c, Command::Call(_, Request::Grant { .. }))));
    }

    #[test]
    fn a_lease_that_etcd_has_forgotten_is_over() {
        let mut core = core();
        core.session = Session::Held { lease: 5, revision: 7, renewed_ms: 0, ends_ms: 10_000, renewing_ms: None };
        core.tick(3_000);
        answer(&mut core, 3_100, 0).unwrap();
        assert!(!core.session.is_held());
    }
}
