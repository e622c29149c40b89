//! Appends on their way: sent, sent again, and answered once.
//!
//! ```text
//!   Waiting ─▶ Sent ─▶ Landed ─▶ (seen in the watch) Committed
//!      ▲────────┴─ no answer, or a guard did not hold; never after it was given up
//! ```

use super::call::{Guard, Op, Request, Response, Txn};
use super::calls::Purpose;
use super::following::RESTORED;
use super::keys::EntryId;
use super::{EtcdConfig, EtcdCore, records};
use bytes::Bytes;
use ohm_log::{LogEvent, LogFailure, Refusal};
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
}

impl EtcdCore {
    pub(super) fn tick_appends(&mut self, now_ms: u64) {
        self.give_up_appends(now_ms);
        let Some((session, _)) = self.session.held() else { return };
        if !self.following.is_watching() || !self.may_send(now_ms) {
            return;
        }
        let position = self.following.position;
        let room = self.config.appends_in_flight.saturating_sub(self.appends.in_flight);
        let is_ready = |sequence: &&u64| {
            let pending = self.appends.pending.get(*sequence);
            pending.is_some_and(|pending| pending.not_before <= position)
        };
        let ready: Vec<u64> = self.appends.waiting.iter().filter(is_ready).take(room).copied().collect();
        for sequence in ready {
            self.send_append(sequence, session);
        }
    }

    fn send_append(&mut self, sequence: u64, session: u64) {
        let Some(pending) = self.appends.pending.get_mut(&sequence) else { return };
        pending.was_sent = true;
        self.appends.waiting.remove(&sequence);
        self.appends.in_flight += 1;
        let key = self.keys.entry(EntryId { proposer: self.config.proposer, sequence });
        let server = self.keys.server(self.config.note.server);
        let guards = vec![
            Guard::Absent(key.clone()),
            Guard::Modified(self.keys.trim(), self.following.trim_revision),
            Guard::Modified(server.clone(), session),
        ];
        let put = |key: String, value: Bytes| Op::Put { key, value, lease: 0 };
        let then = vec![put(key.clone(), pending.value.clone()), put(self.keys.head(), Bytes::new())];
        let otherwise = vec![Op::Get(key), Op::Get(self.keys.trim()), Op::Get(server)];
        self.call(Purpose::Append(sequence), Request::Txn(Txn { guards, then, otherwise }));
    }

    pub(super) fn append_answered(&mut self, now_ms: u64, sequence: u64, answer: Option<Response>) {
        self.appends.in_flight -= 1;
        let applied = self.following.applied();
        let Some(pending) = self.appends.pending.get_mut(&sequence) else { return };
        match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => {
                pending.landed = Some(revision);
                if revision <= applied {
                    return self.fail(LogFailure::Engine(RESTORED.into()));
                }
                self.expect(now_ms, revision);
            }
            Some(Response::Txn { found, .. }) => self.append_held_back(now_ms, sequence, &found),
            _ => drop(self.appends.waiting.insert(sequence)),
        }
    }

    /// A guard did not hold: it is there already, entries were trimmed meanwhile, or the session is over.
    fn append_held_back(&mut self, now_ms: u64, sequence: u64, found: &[super::call::Pair]) {
        let key = self.keys.entry(EntryId { proposer: self.config.proposer, sequence });
        let modified = |key: &str| found.iter().find(|pair| pair.key == *key).map_or(0, |pair| pair.modified);
        let (landed, trim) = (modified(&key), modified(&self.keys.trim()));
        let server = modified(&self.keys.server(self.config.note.server));
        if self.session.held().is_some_and(|(session, _)| server != session) && landed == 0 {
            self.end_session();
        }
        let Some(pending) = self.appends.pending.get_mut(&sequence) else { return };
        if landed > 0 {
            pending.landed = Some(landed);
            return self.expect(now_ms, landed);
        }
        pending.not_before = pending.not_before.max(trim);
        self.appends.waiting.insert(sequence);
        self.expect_mark(now_ms, trim, self.following.trim_revision);
    }

    /// Nobody waits for ever. What was never sent is not in the log; the rest is unknown, and not sent again.
    fn give_up_appends(&mut self, now_ms: u64) {
        let give_up_ms = self.config.give_up_ms;
        while let Some(first) = self.appends.pending.first_entry()
            && first.get().since_ms + give_up_ms <= now_ms
        {
            let (sequence, pending) = first.remove_entry();
            self.appends.waiting.remove(&sequence);
            let token = pending.token;
            self.tell(match (pending.was_sent, self.health.is_full()) {
                (true, _) => LogEvent::Unknown { token },
                (false, true) => LogEvent::Refused { token, reason: Refusal::DiskFull },
                (false, false) => LogEvent::Refused { token, reason: Refusal::NoMajority },
            });
        }
    }
}
