//! Forgetting entries that a snapshot covers: first the mark that says so, then the keys, then the history.
//!
//! A key is deleted only if its entry was seen: an append that is still on its way lies between others by its name and
//! may land after the mark, so what is deleted are runs of names without a gap.

use super::call::{Guard, Op, Request, Response, Txn, after_prefix};
use super::calls::Purpose;
use super::keys::EntryId;
use super::marks::Marks;
use super::records;
use super::shared::Shared;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Entries that one transaction deletes at most: etcd does nothing else meanwhile.
const DELETED_AT_ONCE: u64 = 1000;
/// Runs in one transaction; etcd takes 128 operations.
const RUNS_AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Trimming {
    /// Every entry that is, as far as is known, still there.
    kept: BTreeMap<u64, EntryId>,
    wanted_below: u64,
    marking: Option<u64>,
    /// Runs to delete: first and last of each.
    runs: VecDeque<(EntryId, EntryId)>,
    is_deleting: bool,
    /// The revision after the last deletion or mark: the history up to the one before can be compacted.
    deleted_at: u64,
    compact_to: Option<u64>,
}

impl Trimming {
    pub(super) fn keep(&mut self, revision: u64, id: EntryId) {
        self.kept.insert(revision, id);
    }

    /// Another server has trimmed again, so what it trimmed before is deleted.
    pub(super) fn somebody_trimmed(&mut self, formerly_below: u64) {
        self.kept = self.kept.split_off(&formerly_below);
    }

    /// Takes out what is below and gives it as runs of one proposer without a gap.
    fn take_below(&mut self, below: u64) -> VecDeque<(EntryId, EntryId)> {
        let kept = self.kept.split_off(&below);
        let ids: BTreeSet<EntryId> = std::mem::replace(&mut self.kept, kept).into_values().collect();
        let mut runs: VecDeque<(EntryId, EntryId)> = VecDeque::new();
        for id in ids {
            match runs.back_mut() {
                Some((first, last))
                    if last.proposer == id.proposer
                        && last.sequence.checked_add(1) == Some(id.sequence)
                        && id.sequence - first.sequence < DELETED_AT_ONCE =>
                {
                    *last = id;
                }
                _ => runs.push_back((id, id)),
            }
        }
        runs
    }

    pub(super) fn trim(&mut self, below: u64, marks: &Marks) {
        // The snapshot before the newest one covers what may go: whoever is a little behind finds the rest still there.
        let covered = marks.pointer.as_ref().map_or(0, |manifest| manifest.previous.saturating_add(1));
        self.wanted_below = self.wanted_below.max(below.min(covered));
    }

    /// Goes on, while this server has a session and the copy watches the log.
    pub(super) fn tick(&mut self, now_ms: u64, marks: &Marks, shared: &mut Shared) {
        if !shared.calls.may_send(now_ms) {
            return;
        }
        let below = self.wanted_below;
        let is_idle = self.marking.is_none() && self.runs.is_empty() && !self.is_deleting;
        if is_idle && below > marks.trimmed_below {
            let guards = vec![Guard::Modified(shared.keys.trim(), marks.trim_revision)];
            let then = vec![Op::Put { key: shared.keys.trim(), value: records::trim_value(below), lease: 0 }];
            self.marking = Some(below);
            shared.calls.call(Purpose::MarkTrim, Request::Txn(Txn { guards, then, otherwise: Vec::new() }));
        } else if !self.is_deleting && !self.runs.is_empty() {
            self.delete_some(shared);
        }
    }

    pub(super) fn marked(&mut self, answer: Option<Response>) {
        let Some(below) = self.marking.take() else { return };
        match answer {
            Some(Response::Txn { succeeded: true, .. }) => {
                self.compact_to = Some(self.deleted_at);
                self.runs = self.take_below(below);
            }
            // Somebody else did it, or it is not known: the next snapshot brings the next attempt.
            _ => self.wanted_below = 0,
        }
    }

    fn delete_some(&mut self, shared: &mut Shared) {
        let (mut then, mut count) = (Vec::new(), 0);
        while then.len() < RUNS_AT_ONCE
            && count < DELETED_AT_ONCE
            && let Some((first, last)) = self.runs.pop_front()
        {
            count += last.sequence - first.sequence + 1;
            then.push(Op::Delete(shared.keys.entry(first), Some(after_prefix(&shared.keys.entry(last)))));
        }
        self.is_deleting = true;
        shared.calls.call(Purpose::DeleteEntries, Request::Txn(Txn { then, ..Txn::default() }));
    }

    /// What was not deleted for lack of an answer stays until somebody starts and trims.
    pub(super) fn deleted(&mut self, answer: Option<Response>, shared: &mut Shared) {
        self.is_deleting = false;
        if let Some(Response::Txn { revision, .. }) = answer {
            self.deleted_at = revision;
        }
        let done = self.runs.is_empty();
        if let Some(revision) = self.compact_to.take_if(|revision| done && *revision > 0)
            && shared.config.compact
        {
            shared.calls.call(Purpose::Compact, Request::Compact { revision });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(proposer: u64, sequence: u64) -> EntryId {
        EntryId { proposer, sequence }
    }

    #[test]
    fn only_what_was_seen_is_deleted() {
        let mut trimming = Trimming::default();
        // Append 3 of proposer 1 has not landed yet, append 5 has landed late.
        for (revision, entry) in [(10, id(1, 1)), (11, id(1, 2)), (12, id(2, 1)), (13, id(1, 4)), (20, id(1, 5))] {
            trimming.keep(revision, entry);
        }
        let runs: Vec<_> = trimming.take_below(20).into();
        assert_eq!(runs, [(id(1, 1), id(1, 2)), (id(1, 4), id(1, 4)), (id(2, 1), id(2, 1))]);
        assert_eq!(trimming.kept.len(), 1);
    }

    #[test]
    fn long_runs_are_cut() {
        let mut trimming = Trimming::default();
        (1..=2_500).for_each(|number| trimming.keep(number, id(1, number)));
        let runs = trimming.take_below(u64::MAX);
        assert_eq!(runs.iter().map(|(first, last)| last.sequence - first.sequence + 1).max(), Some(1000));
        assert_eq!(runs.len(), 3);
    }
}
