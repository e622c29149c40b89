//! Appends on their way: sent, sent again, and answered once.
//!
//! ```text
//!   Waiting ─▶ Sent ─▶ Landed ─▶ (seen in the watch) Committed
//!      ▲────────┴─ no answer, or a guard did not hold; never after it was given up
//! ```

use super::call::{Guard, Op, Pair, Request, Response, Txn};
use super::calls::Purpose;
use super::config::EtcdConfig;
use super::keys::EntryId;
use super::marks::{Expected, Marks};
use super::records;
use super::session::Session;
use super::shared::Shared;
use bytes::Bytes;
use ohm_log::{LogEvent, Refusal};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Appends {
    pending: BTreeMap<u64, Pending>,
    /// Those that are to be sent, in order.
    waiting: BTreeSet<u64>,
    in_flight: usize,
    next: u64,
}

#[derive(Debug)]
struct Pending {
    token: u64,
    value: Bytes,
    since_ms: u64,
    was_sent: bool,
    /// Not sent again before the copy has come to this revision.
    not_before: u64,
    landed: Option<u64>,
}

impl Appends {
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn add(&mut self, now_ms: u64, token: u64, bytes: &[u8]) {
        self.next += 1;
        let value = records::entry_value(bytes);
        let pending = Pending { token, value, since_ms: now_ms, was_sent: false, not_before: 0, landed: None };
        self.pending.insert(self.next, pending);
        self.waiting.insert(self.next);
    }

    /// An own entry has come through the watch: the token of the append, if it was not given up.
    pub(super) fn committed(&mut self, sequence: u64) -> Option<u64> {
        self.waiting.remove(&sequence);
        self.pending.remove(&sequence).map(|pending| pending.token)
    }

    /// The copy has jumped to `index`: what may have landed before it can't be seen any more.
    pub(super) fn skipped(&mut self, index: u64) -> Vec<u64> {
        let is_lost = |pending: &Pending| pending.was_sent && pending.landed.is_none_or(|landed| landed <= index);
        let lost: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| is_lost(pending)).map(|(sequence, _)| *sequence).collect();
        lost.into_iter().filter_map(|sequence| self.committed(sequence)).collect()
    }

    /// When the oldest is given up, or the next one sent.
    pub(super) fn due_ms(&self, config: &EtcdConfig) -> Option<u64> {
        self.pending.values().next().map(|pending| pending.since_ms + config.give_up_ms)
    }

    /// Gives up what waits for too long; sends what may be sent, if the copy watches the log, to where it says.
    pub(super) fn tick(
        &mut self,
        now_ms: u64,
        session: &Session,
        watched_to: Option<u64>,
        marks: &Marks,
        shared: &mut Shared,
    ) {
        self.give_up(now_ms, shared);
        let Some((session, _)) = session.held() else { return };
        let Some(position) = watched_to.filter(|_| shared.calls.may_send(now_ms)) else { return };
        let room = shared.config.appends_in_flight.saturating_sub(self.in_flight);
        let is_ready = |sequence: &&u64| {
            let pending = self.pending.get(*sequence);
            pending.is_some_and(|pending| pending.not_before <= position)
        };
        let ready: Vec<u64> = self.waiting.iter().filter(is_ready).take(room).copied().collect();
        for sequence in ready {
            self.send(sequence, session, marks, shared);
        }
    }

    fn send(&mut self, sequence: u64, session: u64, marks: &Marks, shared: &mut Shared) {
        let Some(pending) = self.pending.get_mut(&sequence) else { return };
        pending.was_sent = true;
        self.waiting.remove(&sequence);
        self.in_flight += 1;
        let key = shared.keys.entry(EntryId { proposer: shared.config.proposer, sequence });
        let server = shared.own_key();
        let guards = vec![
            Guard::Absent(key.clone()),
            Guard::Modified(shared.keys.trim(), marks.trim_revision),
            Guard::Modified(server.clone(), session),
        ];
        let put = |key: String, value: Bytes| Op::Put { key, value, lease: 0 };
        let then = vec![put(key.clone(), pending.value.clone()), put(shared.keys.head(), Bytes::new())];
        let otherwise = vec![Op::Get(key), Op::Get(shared.keys.trim()), Op::Get(server)];
        shared.calls.call(Purpose::Append(sequence), Request::Txn(Txn { guards, then, otherwise }));
    }

    /// What the watch should show because of it; `applied` is what the copy has taken in.
    pub(super) fn answered(
        &mut self,
        sequence: u64,
        answer: Option<Response>,
        applied: u64,
        session: &mut Session,
        marks: &Marks,
        shared: &mut Shared,
    ) -> Option<Expected> {
        self.in_flight -= 1;
        let pending = self.pending.get_mut(&sequence)?;
        match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => {
                pending.landed = Some(revision);
                if revision <= applied {
                    shared.told.was_restored();
                    return None;
                }
                Some(Expected::Entry(revision))
            }
            Some(Response::Txn { found, .. }) => self.held_back(sequence, &found, session, marks, shared),
            _ => {
                self.waiting.insert(sequence);
                None
            }
        }
    }

    /// A guard did not hold: it is there already, entries were trimmed meanwhile, or the session is over.
    fn held_back(
        &mut self,
        sequence: u64,
        found: &[Pair],
        session: &mut Session,
        marks: &Marks,
        shared: &Shared,
    ) -> Option<Expected> {
        let key = shared.keys.entry(EntryId { proposer: shared.config.proposer, sequence });
        let modified = |key: &str| found.iter().find(|pair| pair.key == *key).map_or(0, |pair| pair.modified);
        let (landed, trim) = (modified(&key), modified(&shared.keys.trim()));
        let server = modified(&shared.own_key());
        if session.held().is_some_and(|(session, _)| server != session) && landed == 0 {
            session.end();
        }
        let pending = self.pending.get_mut(&sequence)?;
        if landed > 0 {
            pending.landed = Some(landed);
            return Some(Expected::Entry(landed));
        }
        pending.not_before = pending.not_before.max(trim);
        self.waiting.insert(sequence);
        Some(Expected::Mark(trim, marks.trim_revision))
    }

    /// Nobody waits for ever. What was never sent is not in the log; the rest is unknown, and not sent again.
    fn give_up(&mut self, now_ms: u64, shared: &mut Shared) {
        let give_up_ms = shared.config.give_up_ms;
        while let Some(first) = self.pending.first_entry()
            && first.get().since_ms + give_up_ms <= now_ms
        {
            let (sequence, pending) = first.remove_entry();
            self.waiting.remove(&sequence);
            let token = pending.token;
            shared.told.tell(match (pending.was_sent, shared.calls.is_full()) {
                (true, _) => LogEvent::Unknown { token },
                (false, true) => LogEvent::Refused { token, reason: Refusal::DiskFull },
                (false, false) => LogEvent::Refused { token, reason: Refusal::NoMajority },
            });
        }
    }
}
