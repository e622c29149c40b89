//! What is done with a cell as a whole: apply an entry, judge a transaction, write it down, look for what is broken.

use crate::apply::{Applied, apply_entry};
use crate::cell::Cell;
use crate::check::broken_invariants;
use crate::judge::judge_transaction;
use crate::judge::scratch::Scratch;
use crate::state::snapshot::write_snapshot;
use ohm_model::{Entry, Index, SessionId, Transaction, Verdict};
use ohm_stdx::hash::Digest;

impl Cell {
    /// Applies the entry at `index`. The same entries give the same state, outcomes and events on every copy (P9).
    ///
    /// # Panics
    /// When `index` is not above every index applied before: the caller broke the log's order.
    pub fn apply(&mut self, index: Index, entry: &Entry, applied: &mut Applied) {
        apply_entry(self, index, entry, applied);
    }

    /// What the log would say to `transaction` from `session` right now.
    pub fn judge(&self, session: SessionId, transaction: &Transaction, scratch: &mut Scratch) -> Verdict {
        judge_transaction(self, session, transaction, scratch)
    }

    /// Writes the state, frame by frame; false when one thing in it is so large that it could not be read back, so that
    /// the snapshot must not be kept.
    pub fn snapshot(&self, emit: impl FnMut(&[u8])) -> bool {
        write_snapshot(self, emit)
    }

    /// Hashes the whole state. Costs a sweep; [`Cell::chain`] is free and nearly as telling.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        let _ = self.snapshot(|frame| digest.update(frame));
        digest.finish()
    }

    /// The whole snapshot as one byte string.
    pub fn snapshot_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.snapshot(|frame| bytes.extend_from_slice(frame));
        bytes
    }

    /// Every broken invariant, in words; empty when all hold.
    pub fn invariants(&self) -> Vec<String> {
        broken_invariants(self)
    }
}
