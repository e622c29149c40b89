//! Reading what is there: at the start, and when the watch can't go on because its past is compacted or an entry was
//! missed. Everything is read as of one revision, which etcd keeps apart from whatever is written meanwhile.
//!
//! marks (cell, pointer, trim, head, the last entry seen) → chunks of the snapshot, if the copy is older than what was
//! trimmed → entries that are still there → watch from the next revision

use super::call::{CallId, Op, Pair, Range, Request, Response, Txn, after_prefix};
use super::calls::Purpose;
use super::following::{RESTORED, Stage};
use super::keys::EntryId;
use super::records::{self, Manifest};
use super::{EtcdCore, index};
use bytes::Bytes;
use ohm_log::{LogEvent, LogFailure};
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
    /// The call that is open, if the step has just one.
    open: Option<CallId>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Marks,
    Snapshot { revision: u64, manifest: Manifest, open: usize, next: usize, chunks: BTreeMap<usize, Bytes> },
    Entries { revision: u64, from: String, page: u64, found: Vec<(u64, EntryId, Bytes)> },
}

impl EtcdCore {
    pub(super) fn begin_reading(&mut self) {
        self.following.attempts += 1;
        let attempt = self.following.attempts;
        let mut keys = vec![self.keys.cell(), self.keys.pointer(), self.keys.trim(), self.keys.head()];
        keys.extend(self.seen().map(|(_, id)| self.keys.entry(id)));
        let txn = Txn { then: keys.into_iter().map(Op::Get).collect(), ..Txn::default() };
        let open = Some(self.call(Purpose::ReadMarks(attempt), Request::Txn(txn)));
        self.following.stage = Stage::Reading(Reading { attempt, open, step: Step::Marks });
    }

    /// The last entry that this server knows to be in the log.
    fn seen(&self) -> Option<(u64, EntryId)> {
        self.following.last().or(self.following.noted)
    }

    /// The reading of this attempt, if it still goes on.
    fn reading(&mut self, attempt: u64) -> Option<&mut Reading> {
        match &mut self.following.stage {
            Stage::Reading(reading) if reading.attempt == attempt => Some(reading),
            _ => None,
        }
    }

    /// Begins again: what was read so far is of a revision that is gone, or an answer was lost.
    fn read_again(&mut self) {
        self.following.stage = Stage::Idle;
    }

    pub(super) fn marks_read(&mut self, attempt: u64, answer: Option<Response>) {
        if self.reading(attempt).is_none() {
            return;
        }
        let Some(Response::Txn { revision, found, .. }) = answer else { return self.read_again() };
        let head = found.iter().find(|pair| pair.key == self.keys.head());
        let (count, newest) = head.map_or((0, 0), |pair| (pair.version, pair.modified));
        found.iter().for_each(|pair| self.take_mark(pair));
        if !self.is_the_same_log(&found, newest) {
            self.fail(LogFailure::Engine(RESTORED.into()));
        }
        if self.failure.is_some() {
            return;
        }
        self.following.count = count;
        let applied = self.following.applied();
        let pointer = self.following.pointer.clone().filter(|manifest| manifest.index > applied);
        // A copy that just starts takes the snapshot; one that runs only if entries that it lacks are gone.
        let starts = applied == 0;
        let step = match pointer {
            Some(manifest) if starts || applied + 1 < self.following.trimmed_below => {
                Step::Snapshot { revision, manifest, open: 0, next: 0, chunks: BTreeMap::new() }
            }
            _ => self.entries_step(revision),
        };
        if let Some(reading) = self.reading(attempt) {
            (reading.step, reading.open) = (step, None);
        }
        self.go_on_reading();
    }

    fn entries_step(&self, revision: u64) -> Step {
        Step::Entries { revision, from: self.keys.entries(), page: PAGE_FIRST, found: Vec::new() }
    }

    /// Whether etcd still holds the last entry that was seen here, or has trimmed it.
    fn is_the_same_log(&mut self, found: &[Pair], newest: u64) -> bool {
        let Some((index, id)) = self.seen() else { return newest >= self.following.applied() };
        self.following.noted = None;
        let key = self.keys.entry(id);
        let is_there = found.iter().any(|pair| pair.key == key && pair.modified == index);
        newest >= index && (is_there || index < self.following.trimmed_below)
    }

    pub(super) fn go_on_reading(&mut self) {
        let Stage::Reading(reading) = &mut self.following.stage else { return };
        let attempt = reading.attempt;
        match &mut reading.step {
            Step::Snapshot { revision, manifest, open, next, .. } => {
                let mut wanted = Vec::new();
                while *open < CHUNKS_AT_ONCE && (*next as u64) < manifest.chunks {
                    wanted.push((*next, self.keys.chunk(&manifest.id, *next)));
                    *next += 1;
                    *open += 1;
                }
                let revision = *revision;
                for (number, key) in wanted {
                    let range = Range { revision, ..Range::one(key) };
                    self.call(Purpose::ReadChunk(attempt, number), Request::Range(range));
                }
            }
            Step::Entries { revision, from, page, .. } if reading.open.is_none() => {
                let end = Some(after_prefix(&self.keys.entries()));
                let range = Range { key: from.clone(), end, revision: *revision, limit: *page };
                let open = self.call(Purpose::ReadEntries(attempt), Request::Range(range));
                if let Stage::Reading(reading) = &mut self.following.stage {
                    reading.open = Some(open);
                }
            }
            _ => {}
        }
    }

    pub(super) fn chunk_read(&mut self, attempt: u64, number: usize, answer: Option<Response>) {
        let Some(reading) = self.reading(attempt) else { return };
        let Step::Snapshot { open, chunks, manifest, .. } = &mut reading.step else { return };
        *open -= 1;
        let Some(Response::Range { pairs, .. }) = answer else { return self.read_again() };
        let chunk = match pairs.first().map(|pair| records::chunk_of(&pair.value)) {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => return self.broken(&format!("chunk {number} of the snapshot"), &error),
            None => {
                let id = manifest.id.clone();
                return self.broken(&format!("chunk {number} of snapshot {id}"), &"it is not there");
            }
        };
        chunks.insert(number, chunk);
        if chunks.len() as u64 == manifest.chunks {
            return self.install();
        }
        self.go_on_reading();
    }

    fn install(&mut self) {
        let Stage::Reading(reading) = &mut self.following.stage else { return };
        let Step::Snapshot { revision, manifest, chunks, .. } = &mut reading.step else { return };
        let (revision, manifest, chunks) = (*revision, manifest.clone(), std::mem::take(chunks));
        let Some(pieces) = joined(&manifest, chunks) else {
            return self.broken(&format!("snapshot {}", manifest.id), &"its bytes are not those that were saved");
        };
        self.following.installed = manifest.index;
        self.appends.skipped(manifest.index).into_iter().for_each(|token| self.tell(LogEvent::Unknown { token }));
        self.tell(LogEvent::InstallSnapshot { index: index(manifest.index), pieces });
        let step = self.entries_step(revision);
        if let Stage::Reading(reading) = &mut self.following.stage {
            (reading.step, reading.open) = (step, None);
        }
        self.go_on_reading();
    }

    pub(super) fn entries_read(&mut self, attempt: u64, answer: Option<Response>) {
        let applied = self.following.applied();
        let keys = self.keys.clone();
        let Some(reading) = self.reading(attempt) else { return };
        let Step::Entries { revision, from, page, found } = &mut reading.step else { return };
        let Some(Response::Range { pairs, more, .. }) = answer else { return self.read_again() };
        let bytes: usize = pairs.iter().map(|pair| pair.value.len()).sum();
        *page = if bytes < PAGE_BYTES { (*page * 2).min(PAGE_MAX) } else { (*page / 2).max(1) };
        if let Some(last) = pairs.last() {
            *from = format!("{}\u{0}", last.key);
        }
        let mut old = Vec::new();
        for pair in pairs {
            match keys.entry_of(&pair.key) {
                Some(id) if pair.modified > applied => found.push((pair.modified, id, pair.value)),
                Some(id) => old.push((pair.modified, id)),
                None => {}
            }
        }
        let done = (!more).then(|| (*revision, std::mem::take(found)));
        reading.open = None;
        old.into_iter().for_each(|(revision, id)| self.trimming.keep(revision, id));
        match done {
            Some((revision, found)) => self.all_read(revision, found),
            None => self.go_on_reading(),
        }
    }

    fn all_read(&mut self, revision: u64, mut found: Vec<(u64, EntryId, Bytes)>) {
        found.sort_unstable_by_key(|(revision, ..)| *revision);
        for (revision, id, value) in found {
            self.yield_entry(revision, id, &value);
        }
        self.following.position = revision;
        self.watch_on();
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
