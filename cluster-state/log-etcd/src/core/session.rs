//! The lease of this server, and the key that goes with it.
//!
//! ```text
//!   Absent ─▶ Granting ─▶ Registering ─▶ Held ──renewed, renewed …──┐
//!      ▲──────────┴────────────┴──────────┴── lost, run out ◀───────┘
//! ```
//! The own clock counts from the sending of the last renewal that was answered: it ends the session no later than etcd
//! does.

use super::call::{Op, Request, Response, Txn};
use super::calls::Purpose;
use super::shared::Shared;
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

    pub(super) fn tick(&mut self, now_ms: u64, shared: &mut Shared) {
        let may_send = shared.calls.may_send(now_ms);
        match self {
            Session::Absent if may_send => {
                *self = Session::Granting { sent_ms: now_ms };
                let ttl_s = shared.config.session_ms.div_ceil(1000);
                shared.calls.call(Purpose::Grant, Request::Grant { ttl_s });
            }
            Session::Held { ends_ms, .. } if *ends_ms <= now_ms => self.end(),
            Session::Held { lease, renewed_ms, ends_ms, renewing_ms, .. } => {
                let due_ms = *renewed_ms + (*ends_ms - *renewed_ms) / RENEWALS;
                let lease = *lease;
                if renewing_ms.is_none() && due_ms <= now_ms && may_send {
                    *renewing_ms = Some(now_ms);
                    shared.calls.call(Purpose::KeepAlive, Request::KeepAlive { lease });
                }
            }
            _ => {}
        }
    }

    /// The lease is gone, or may be: a new one is needed before anything is appended.
    pub(super) fn end(&mut self) {
        *self = Session::Absent;
    }

    pub(super) fn granted(&mut self, answer: Option<Response>, shared: &mut Shared) {
        let Session::Granting { sent_ms } = *self else { return };
        match answer {
            Some(Response::Lease { lease, ttl_s }) if ttl_s > 0 => {
                *self = Session::Registering { lease, granted_ms: sent_ms };
                let (key, value) = (shared.own_key(), shared.config.address.clone());
                let put = Op::Put { key, value: Bytes::from(value), lease };
                shared.calls.call(Purpose::Register, Request::Txn(Txn { then: vec![put], ..Txn::default() }));
            }
            _ => self.end(),
        }
    }

    pub(super) fn registered(&mut self, answer: Option<Response>, shared: &Shared) {
        let Session::Registering { lease, granted_ms } = *self else { return };
        *self = match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => Session::Held {
                lease,
                revision,
                renewed_ms: granted_ms,
                ends_ms: granted_ms + shared.config.session_ms,
                renewing_ms: None,
            },
            _ => Session::Absent,
        };
    }

    pub(super) fn kept_alive(&mut self, answer: Option<Response>, shared: &Shared) {
        let Session::Held { lease: own, renewed_ms, ends_ms, renewing_ms, .. } = self else { return };
        let Some(sent_ms) = renewing_ms.take() else { return };
        match answer {
            Some(Response::Lease { lease, ttl_s: 0 }) if lease == *own => self.end(),
            Some(Response::Lease { lease, .. }) if lease == *own => {
                *renewed_ms = sent_ms;
                *ends_ms = sent_ms + shared.config.session_ms;
            }
            // Asked again at once, or after the pause, until the lease has run out.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::call::Command;
    use crate::core::config::EtcdConfig;
    use crate::core::records::{CellRecord, Note};

    fn shared() -> Shared {
        let cell = CellRecord { cell: 1, incarnation: 1 };
        Shared::new(EtcdConfig::new("/ohm", Note { cell, server: 1, key: 1, last: None }, "", 9))
    }

    /// Answers the one lease call that is open.
    fn answer(session: &mut Session, shared: &mut Shared, ttl_s: u64) -> Option<()> {
        let call = shared.calls.find(|purpose| matches!(purpose, Purpose::Grant | Purpose::KeepAlive))?;
        let answer = Some(Response::Lease { lease: 5, ttl_s });
        match shared.calls.settle(call)? {
            Purpose::Grant => session.granted(answer, shared),
            _ => session.kept_alive(answer, shared),
        }
        Some(())
    }

    #[test]
    fn a_session_is_renewed_and_ends_with_its_lease() {
        let (mut session, mut shared) = (Session::default(), shared());
        session.tick(1_000, &mut shared);
        answer(&mut session, &mut shared, 10).unwrap();
        assert!(shared.calls.find(|purpose| purpose == Purpose::Register).is_some());
        session.registered(Some(Response::Txn { succeeded: true, revision: 7, found: Vec::new() }), &shared);
        assert_eq!(session.held(), Some((7, 5)));
        session.tick(3_400, &mut shared);
        assert!(answer(&mut session, &mut shared, 10).is_none(), "not due yet");
        session.tick(3_500, &mut shared);
        answer(&mut session, &mut shared, 10).unwrap();
        session.tick(13_499, &mut shared);
        assert!(session.is_held(), "it counts from the sending of the renewal");
        session.tick(13_500, &mut shared);
        assert!(!session.is_held());
        shared.calls.take_commands();
        session.tick(13_500, &mut shared);
        let commands = shared.calls.take_commands();
        assert!(commands.iter().any(|command| matches!(command, Command::Call(_, Request::Grant { .. }))));
    }

    #[test]
    fn a_lease_that_etcd_has_forgotten_is_over() {
        let mut shared = shared();
        let mut session = Session::Held { lease: 5, revision: 7, renewed_ms: 0, ends_ms: 10_000, renewing_ms: None };
        session.tick(3_000, &mut shared);
        answer(&mut session, &mut shared, 0).unwrap();
        assert!(!session.is_held());
    }
}
