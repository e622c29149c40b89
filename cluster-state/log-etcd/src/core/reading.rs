//! Reading what is there: at the start, and when the watch can't go on because its past is compacted or an entry was
//! missed. Everything is read as of one revision, which etcd keeps apart from whatever is written meanwhile.
//!
//! marks (cell, pointer, trim, head, the last entry seen) → chunks of the snapshot, if the copy is older than what was
//! trimmed → entries that are still there → watch from the next revision

use super::call::{Op, Range, Request, Response, Txn, after_prefix};
use super::calls::Purpose;
use super::keys::EntryId;
use super::records::{self, Manifest};
use super::shared::Shared;
use bytes::Bytes;
use ohm_stdx::hash;
use std::collections::BTreeMap;

/// Chunks that are read at once.
const CHUNKS_AT_ONCE: usize = 4;
/// Entries in one answer: first, at most, and how many bytes are about right.
const PAGE_FIRST: u64 = 16;
const PAGE_MAX: u64 = 4096;
const PAGE_BYTES: usize = 2 << 20;

/// What is being read.
#[derive(Debug)]
pub(super) struct Reading {
    attempt: u64,
    /// Whether a call is open, if the step has just one.
    is_open: bool,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Marks,
    Snapshot { revision: u64, manifest: Manifest, open: usize, next: usize, chunks: BTreeMap<usize, Bytes> },
    Entries { revision: u64, from: String, page: u64, found: Vec<(u64, EntryId, Bytes)> },
}

/// What an answer has brought.
#[derive(Debug)]
pub(super) enum Brought {
    /// There is more to read.
    More,
    /// Nothing: all is read again.
    Nothing,
    /// What this is can't be read, for this reason.
    Broken(String, String),
    /// A snapshot that is whole. The entries after it come next.
    Snapshot(u64, Vec<Bytes>),
    /// Entries that the copy has applied already.
    Applied(Vec<(u64, EntryId)>),
    /// The last of the entries, and what was read, in order; everything is as of the revision.
    Everything { revision: u64, applied: Vec<(u64, EntryId)>, entries: Vec<(u64, EntryId, Bytes)> },
}

impl Reading {
    /// Begins with the marks, and with the entry that was `seen` last.
    pub(super) fn begin(attempt: u64, seen: Option<EntryId>, shared: &mut Shared) -> Self {
        let keys = &shared.keys;
        let mut wanted = vec![keys.cell(), keys.pointer(), keys.trim(), keys.head()];
        wanted.extend(seen.map(|id| keys.entry(id)));
        let txn = Txn { then: wanted.into_iter().map(Op::Get).collect(), ..Txn::default() };
        shared.calls.call(Purpose::ReadMarks(attempt), Request::Txn(txn));
        Reading { attempt, is_open: true, step: Step::Marks }
    }

    /// Whether it is this attempt.
    pub(super) fn is(&self, attempt: u64) -> bool {
        self.attempt == attempt
    }

    /// The marks are read: a snapshot is next, if one is needed, else the entries.
    pub(super) fn go_to(&mut self, revision: u64, snapshot: Option<Manifest>, shared: &mut Shared) {
        self.is_open = false;
        self.step = match snapshot {
            Some(manifest) => Step::Snapshot { revision, manifest, open: 0, next: 0, chunks: BTreeMap::new() },
            None => Step::Entries { revision, from: shared.keys.entries(), page: PAGE_FIRST, found: Vec::new() },
        };
        self.go_on(shared);
    }

    /// Asks for what is to be read next.
    pub(super) fn go_on(&mut self, shared: &mut Shared) {
        let attempt = self.attempt;
        match &mut self.step {
            Step::Snapshot { revision, manifest, open, next, .. } => {
                while *open < CHUNKS_AT_ONCE && (*next as u64) < manifest.chunks {
                    let range = Range { revision: *revision, ..Range::one(shared.keys.chunk(&manifest.id, *next)) };
                    shared.calls.call(Purpose::ReadChunk(attempt, *next), Request::Range(range));
                    *next += 1;
                    *open += 1;
                }
            }
            Step::Entries { revision, from, page, .. } if !self.is_open => {
                let end = Some(after_prefix(&shared.keys.entries()));
                let range = Range { key: from.clone(), end, revision: *revision, limit: *page };
                shared.calls.call(Purpose::ReadEntries(attempt), Request::Range(range));
                self.is_open = true;
            }
            _ => {}
        }
    }

    pub(super) fn chunk_read(&mut self, number: usize, answer: Option<Response>) -> Brought {
        let Step::Snapshot { open, chunks, manifest, .. } = &mut self.step else { return Brought::More };
        *open -= 1;
        let Some(Response::Range { pairs, .. }) = answer else { return Brought::Nothing };
        let chunk = match pairs.first().map(|pair| records::chunk_of(&pair.value)) {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => return Brought::Broken(format!("chunk {number} of the snapshot"), error.to_string()),
            None => {
                let what = format!("chunk {number} of snapshot {}", manifest.id);
                return Brought::Broken(what, "it is not there".into());
            }
        };
        chunks.insert(number, chunk);
        if (chunks.len() as u64) < manifest.chunks {
            return Brought::More;
        }
        match joined(manifest, std::mem::take(chunks)) {
            Some(pieces) => Brought::Snapshot(manifest.index, pieces),
            None => {
                let why = "its bytes are not those that were saved";
                Brought::Broken(format!("snapshot {}", manifest.id), why.into())
            }
        }
    }

    /// The snapshot was installed: the entries after it are next.
    pub(super) fn installed(&mut self, shared: &mut Shared) {
        if let Step::Snapshot { revision, .. } = self.step {
            self.go_to(revision, None, shared);
        }
    }

    pub(super) fn entries_read(&mut self, applied: u64, answer: Option<Response>, shared: &Shared) -> Brought {
        let Step::Entries { revision, from, page, found } = &mut self.step else { return Brought::More };
        let Some(Response::Range { pairs, more, .. }) = answer else { return Brought::Nothing };
        let bytes: usize = pairs.iter().map(|pair| pair.value.len()).sum();
        *page = if bytes < PAGE_BYTES { (*page * 2).min(PAGE_MAX) } else { (*page / 2).max(1) };
        if let Some(last) = pairs.last() {
            *from = format!("{}\u{0}", last.key);
        }
        let mut old = Vec::new();
        for pair in pairs {
            match shared.keys.entry_of(&pair.key) {
                Some(id) if pair.modified > applied => found.push((pair.modified, id, pair.value)),
                Some(id) => old.push((pair.modified, id)),
                None => {}
            }
        }
        self.is_open = false;
        if more {
            return Brought::Applied(old);
        }
        let mut entries = std::mem::take(found);
        entries.sort_unstable_by_key(|(revision, ..)| *revision);
        Brought::Everything { revision: *revision, applied: old, entries }
    }
}

/// The pieces of a snapshot from its chunks, if they are the bytes that were saved.
fn joined(manifest: &Manifest, chunks: BTreeMap<usize, Bytes>) -> Option<Vec<Bytes>> {
    let mut digest = hash::Digest::new();
    let mut chunks = chunks.into_values();
    let mut rest = Bytes::new();
    let mut pieces = Vec::with_capacity(manifest.pieces.len());
    for length in &manifest.pieces {
        let length = usize::try_from(*length).ok()?;
        let mut piece = Vec::with_capacity(length.min(ohm_log::SNAPSHOT_PIECE_BYTES_MAX));
        while piece.len() < length {
            if rest.is_empty() {
                rest = chunks.next()?;
            }
            let take = rest.len().min(length - piece.len());
            piece.extend_from_slice(&rest.split_to(take));
        }
        digest.update(&piece);
        pieces.push(Bytes::from(piece));
    }
    let is_whole = rest.is_empty() && chunks.next().is_none() && digest.finish() == manifest.checksum;
    is_whole.then_some(pieces)
}
