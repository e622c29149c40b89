//! Saving a snapshot: one server at a time, in chunks, and nothing of it counts before the pointer is flipped.
//!
//! ```text
//!   Idle ─▶ Taking (the key `saving`; remains of others are deleted) ─▶ Writing ─▶ Flipping ─▶ Idle
//! ```
//! Each chunk and the flip are guarded by `saving`, which goes with the lease of its holder: whoever lost it writes
//! nothing more. The flip puts the pointer, deletes the chunks of the former snapshot and gives `saving` back, at once.

use super::call::{Guard, Op, Pair, Request, Response, Txn, after_prefix};
use super::calls::Purpose;
use super::marks::{Expected, Marks};
use super::records::{self, CHUNK_BYTES, Manifest};
use super::session::Session;
use super::shared::Shared;
use bytes::Bytes;
use ohm_log::LogEvent;
use ohm_model::Index;
use ohm_stdx::hash;
use std::collections::BTreeSet;

/// Chunks that are written at once: appends go between them.
const CHUNKS_AT_ONCE: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Saving {
    job: Option<Job>,
    jobs: u64,
}

#[derive(Debug)]
struct Job {
    index: Index,
    manifest: Manifest,
    pieces: Vec<Bytes>,
    attempt: u64,
    /// The revision of `saving`, once it is ours.
    held: Option<u64>,
    is_open: bool,
    unwritten: BTreeSet<usize>,
    writing: usize,
}

impl Saving {
    pub(super) fn save(&mut self, at: Index, pieces: Vec<Bytes>, marks: &Marks, shared: &mut Shared) {
        let (newest, yielded) = (marks.newest(), shared.told.yielded());
        let refuse = |reason: String| LogEvent::SnapshotFailed { index: at, reason };
        if at.0 > yielded || at.0 <= newest {
            let reason = format!("index {at} is not above the newest snapshot, {newest}, and yielded, {yielded}");
            return shared.told.tell(refuse(reason));
        }
        if self.job.is_some() {
            return shared.told.tell(refuse("another snapshot is being saved".into()));
        }
        self.jobs += 1;
        let attempt = self.jobs;
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        let mut digest = hash::Digest::new();
        pieces.iter().for_each(|piece| digest.update(piece));
        let manifest = Manifest {
            id: format!("{:016x}-{:016x}-{attempt}", at.0, shared.config.proposer),
            index: at.0,
            previous: newest,
            pieces: pieces.iter().map(|piece| piece.len() as u64).collect(),
            chunks: chunks as u64,
            checksum: digest.finish(),
        };
        let unwritten = (0..chunks).collect();
        self.job =
            Some(Job { index: at, manifest, pieces, attempt, held: None, is_open: false, unwritten, writing: 0 });
    }

    pub(super) fn tick(&mut self, now_ms: u64, session: &Session, marks: &Marks, shared: &mut Shared) {
        let Some(job) = &mut self.job else { return };
        let Some((_, lease)) = session.held() else { return };
        if job.is_open || !shared.calls.may_send(now_ms) {
            return;
        }
        match job.held {
            None => self.take(lease, marks, shared),
            Some(held) if !job.unwritten.is_empty() => self.write_chunks(held, shared),
            Some(held) if job.writing == 0 => self.flip_pointer(held, marks, shared),
            Some(_) => {}
        }
    }

    fn take(&mut self, lease: u64, marks: &Marks, shared: &mut Shared) {
        let newest = marks.newest();
        match &mut self.job {
            Some(job) if job.index.0 > newest => job.manifest.previous = newest,
            _ => return self.fail("another server was faster", shared),
        }
        let pointer = Guard::Modified(shared.keys.pointer(), marks.pointer_revision);
        let guards = vec![Guard::Absent(shared.keys.saving()), pointer];
        let (all, end) = (shared.keys.snapshots(), after_prefix(&shared.keys.snapshots()));
        let value = Bytes::from(holder(shared));
        let mut then = vec![Op::Put { key: shared.keys.saving(), value, lease }];
        // Whatever is not of the newest snapshot was left by somebody who died over it.
        match &marks.pointer {
            Some(manifest) => {
                let kept = shared.keys.snapshot(&manifest.id);
                let after = after_prefix(&kept);
                then.extend([Op::Delete(all, Some(kept)), Op::Delete(after, Some(end))]);
            }
            None => then.push(Op::Delete(all, Some(end))),
        }
        let otherwise = vec![Op::Get(shared.keys.saving()), Op::Get(shared.keys.pointer())];
        shared.calls.call(Purpose::TakeSaving, Request::Txn(Txn { guards, then, otherwise }));
        if let Some(job) = &mut self.job {
            job.is_open = true;
        }
    }

    /// What the watch should show, if somebody else has saved.
    pub(super) fn taken(&mut self, answer: Option<Response>, marks: &Marks, shared: &mut Shared) -> Option<Expected> {
        let job = self.job.as_mut()?;
        job.is_open = false;
        match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => {
                job.held = Some(revision);
                None
            }
            Some(Response::Txn { found, .. }) => Some(self.is_taken(&found, marks, shared)),
            _ => None,
        }
    }

    fn is_taken(&mut self, found: &[Pair], marks: &Marks, shared: &mut Shared) -> Expected {
        let held_by = found.iter().find(|pair| pair.key == shared.keys.saving());
        let pointer = found.iter().find(|pair| pair.key == shared.keys.pointer());
        let newest = pointer.map_or(0, |pair| pair.modified);
        let is_current = newest == marks.pointer_revision;
        let own = holder(shared);
        let server = &own[..own.len() - 16];
        match held_by {
            // An attempt whose answer was lost has taken it.
            Some(pair) if pair.value == own.as_bytes() && is_current => {
                if let Some(job) = &mut self.job {
                    job.held = Some(pair.modified);
                }
            }
            // The process before this one died over it: it is given back for that one, then taken.
            Some(pair) if pair.value.starts_with(server.as_bytes()) && pair.value != own.as_bytes() => {
                let guards = vec![Guard::Modified(shared.keys.saving(), pair.modified)];
                let then = vec![Op::Delete(shared.keys.saving(), None)];
                shared.calls.call(Purpose::EndSaving, Request::Txn(Txn { guards, then, otherwise: Vec::new() }));
            }
            Some(pair) if pair.value != own.as_bytes() => self.fail("another server saves one", shared),
            // The pointer has moved and the watch has not said so yet: then it is tried again.
            _ => {}
        }
        Expected::Mark(newest, marks.pointer_revision)
    }

    fn write_chunks(&mut self, held: u64, shared: &mut Shared) {
        let Some(job) = &mut self.job else { return };
        let mut calls = Vec::new();
        while job.writing < CHUNKS_AT_ONCE
            && let Some(number) = job.unwritten.pop_first()
        {
            job.writing += 1;
            let key = shared.keys.chunk(&job.manifest.id, number);
            let value = records::chunk_value(&chunk(&job.pieces, number));
            let guards = vec![Guard::Modified(shared.keys.saving(), held)];
            let then = vec![Op::Put { key, value, lease: 0 }];
            let txn = Txn { guards, then, otherwise: Vec::new() };
            calls.push((Purpose::WriteChunk(job.attempt, number), Request::Txn(txn)));
        }
        for (purpose, request) in calls {
            shared.calls.call(purpose, request);
        }
    }

    pub(super) fn chunk_written(
        &mut self,
        attempt: u64,
        number: usize,
        answer: Option<Response>,
        marks: &Marks,
        shared: &mut Shared,
    ) {
        let Some(job) = self.job.as_mut().filter(|job| job.attempt == attempt) else { return };
        job.writing -= 1;
        match answer {
            Some(Response::Txn { succeeded: true, .. }) => {}
            Some(_) => self.begin_again(marks, shared),
            None if shared.calls.is_full() => self.fail("etcd has no space left", shared),
            None => drop(job.unwritten.insert(number)),
        }
    }

    fn flip_pointer(&mut self, held: u64, marks: &Marks, shared: &mut Shared) {
        let Some(job) = &mut self.job else { return };
        job.is_open = true;
        let attempt = job.attempt;
        let guards = vec![
            Guard::Modified(shared.keys.saving(), held),
            Guard::Modified(shared.keys.pointer(), marks.pointer_revision),
        ];
        let put = Op::Put { key: shared.keys.pointer(), value: job.manifest.value(), lease: 0 };
        let mut then = vec![put, Op::Delete(shared.keys.saving(), None)];
        if let Some(former) = &marks.pointer {
            let chunks = shared.keys.snapshot(&former.id);
            let end = after_prefix(&chunks);
            then.push(Op::Delete(chunks, Some(end)));
        }
        let otherwise = vec![Op::Get(shared.keys.pointer())];
        shared.calls.call(Purpose::FlipPointer(attempt), Request::Txn(Txn { guards, then, otherwise }));
    }

    pub(super) fn flipped(&mut self, attempt: u64, answer: Option<Response>, marks: &mut Marks, shared: &mut Shared) {
        let Some(job) = self.job.as_mut().filter(|job| job.attempt == attempt) else { return };
        job.is_open = false;
        let (index, manifest) = (job.index, job.manifest.clone());
        let flipped = match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => Some(revision),
            Some(Response::Txn { found, .. }) => {
                // An attempt whose answer was lost may have flipped it, and the watch may have said so.
                let own = |pair: &&Pair| Manifest::of(&pair.value).as_ref() == Ok(&manifest);
                found.iter().find(own).map(|pair| pair.modified)
            }
            _ => return,
        };
        let Some(revision) = flipped else { return self.begin_again(marks, shared) };
        self.job = None;
        if revision > marks.pointer_revision {
            marks.pointer = Some(manifest);
            marks.pointer_revision = revision;
        }
        shared.told.tell(LogEvent::SnapshotSaved { index });
    }

    /// The session was over, and `saving` went with it: all chunks are written again in the next one, unless somebody
    /// else has saved a newer snapshot.
    fn begin_again(&mut self, marks: &Marks, shared: &mut Shared) {
        let newest = marks.newest();
        let Some(job) = &mut self.job else { return };
        if job.index.0 <= newest {
            return self.fail("another server was faster", shared);
        }
        self.jobs += 1;
        job.attempt = self.jobs;
        (job.held, job.is_open, job.writing) = (None, false, 0);
        job.unwritten = (0..job.manifest.chunks as usize).collect();
    }

    /// Gives up, and gives back what is held, so that others need not wait for the end of the lease.
    fn fail(&mut self, reason: &str, shared: &mut Shared) {
        let Some(job) = self.job.take() else { return };
        if let Some(held) = job.held {
            let chunks = shared.keys.snapshot(&job.manifest.id);
            let end = after_prefix(&chunks);
            let then = vec![Op::Delete(chunks, Some(end)), Op::Delete(shared.keys.saving(), None)];
            let guards = vec![Guard::Modified(shared.keys.saving(), held)];
            shared.calls.call(Purpose::EndSaving, Request::Txn(Txn { guards, then, otherwise: Vec::new() }));
        }
        shared.told.tell(LogEvent::SnapshotFailed { index: job.index, reason: reason.into() });
    }
}

/// Who saves: the server, then the process.
fn holder(shared: &Shared) -> String {
    format!("{} {:016x}", shared.config.note.server, shared.config.proposer)
}

/// One chunk of all pieces in a row.
fn chunk(pieces: &[Bytes], number: usize) -> Vec<u8> {
    let (start, end) = (number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES);
    let mut bytes = Vec::new();
    let mut at = 0;
    for piece in pieces {
        let (from, to) = (start.max(at), end.min(at + piece.len()));
        if from < to {
            bytes.extend_from_slice(&piece[from - at..to - at]);
        }
        at += piece.len();
    }
    bytes
}
