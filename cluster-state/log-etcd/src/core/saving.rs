//! Saving a snapshot: one server at a time, in chunks, and nothing of it counts before the pointer is flipped.
//!
//! ```text
//!   Idle ─▶ Taking (the key `saving`; remains of others are deleted) ─▶ Writing ─▶ Flipping ─▶ Idle
//! ```
//! Each chunk and the flip are guarded by `saving`, which goes with the lease of its holder: whoever lost it writes
//! nothing more. The flip puts the pointer, deletes the chunks of the former snapshot and gives `saving` back, at once.

use super::EtcdCore;
use super::call::{Guard, Op, Pair, Request, Response, Txn, after_prefix};
use super::calls::Purpose;
use super::records::{self, CHUNK_BYTES, Manifest};
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

impl EtcdCore {
    pub(super) fn save(&mut self, at: Index, pieces: Vec<Bytes>) {
        let newest = self.following.pointer.as_ref().map_or(0, |manifest| manifest.index);
        let refuse = |reason: String| LogEvent::SnapshotFailed { index: at, reason };
        if at.0 > self.yielded || at.0 <= newest {
            let yielded = self.yielded;
            let reason = format!("index {at} is not above the newest snapshot, {newest}, and yielded, {yielded}");
            return self.tell(refuse(reason));
        }
        if self.saving.job.is_some() {
            return self.tell(refuse("another snapshot is being saved".into()));
        }
        self.saving.jobs += 1;
        let attempt = self.saving.jobs;
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let chunks = bytes.div_ceil(CHUNK_BYTES);
        let mut digest = hash::Digest::new();
        pieces.iter().for_each(|piece| digest.update(piece));
        let manifest = Manifest {
            id: format!("{:016x}-{:016x}-{attempt}", at.0, self.config.proposer),
            index: at.0,
            previous: newest,
            pieces: pieces.iter().map(|piece| piece.len() as u64).collect(),
            chunks: chunks as u64,
            checksum: digest.finish(),
        };
        let unwritten = (0..chunks).collect();
        self.saving.job =
            Some(Job { index: at, manifest, pieces, attempt, held: None, is_open: false, unwritten, writing: 0 });
    }

    pub(super) fn tick_saving(&mut self, now_ms: u64) {
        let Some(job) = &mut self.saving.job else { return };
        let may_send = self.health.paused_until_ms().is_none_or(|until_ms| until_ms <= now_ms);
        let Some((_, lease)) = self.session.held() else { return };
        if job.is_open || !may_send {
            return;
        }
        match job.held {
            None => self.take_saving(lease),
            Some(held) if !job.unwritten.is_empty() => self.write_chunks(held),
            Some(held) if job.writing == 0 => self.flip_pointer(held),
            Some(_) => {}
        }
    }

    fn take_saving(&mut self, lease: u64) {
        let newest = self.following.pointer.as_ref().map_or(0, |manifest| manifest.index);
        match &mut self.saving.job {
            Some(job) if job.index.0 > newest => job.manifest.previous = newest,
            _ => return self.saving_failed("another server was faster"),
        }
        let pointer = Guard::Modified(self.keys.pointer(), self.following.pointer_revision);
        let guards = vec![Guard::Absent(self.keys.saving()), pointer];
        let (all, end) = (self.keys.snapshots(), after_prefix(&self.keys.snapshots()));
        let value = Bytes::from(self.holder());
        let mut then = vec![Op::Put { key: self.keys.saving(), value, lease }];
        // Whatever is not of the newest snapshot was left by somebody who died over it.
        match &self.following.pointer {
            Some(manifest) => {
                let kept = self.keys.snapshot(&manifest.id);
                let after = after_prefix(&kept);
                then.extend([Op::Delete(all, Some(kept)), Op::Delete(after, Some(end))]);
            }
            None => then.push(Op::Delete(all, Some(end))),
        }
        let otherwise = vec![Op::Get(self.keys.saving()), Op::Get(self.keys.pointer())];
        self.call(Purpose::TakeSaving, Request::Txn(Txn { guards, then, otherwise }));
        if let Some(job) = &mut self.saving.job {
            job.is_open = true;
        }
    }

    pub(super) fn saving_taken(&mut self, now_ms: u64, answer: Option<Response>) {
        let Some(job) = &mut self.saving.job else { return };
        job.is_open = false;
        match answer {
            Some(Response::Txn { succeeded: true, revision, .. }) => job.held = Some(revision),
            Some(Response::Txn { found, .. }) => self.saving_is_held(now_ms, &found),
            _ => {}
        }
    }

    fn saving_is_held(&mut self, now_ms: u64, found: &[Pair]) {
        let holder = found.iter().find(|pair| pair.key == self.keys.saving());
        let pointer = found.iter().find(|pair| pair.key == self.keys.pointer());
        let newest = pointer.map_or(0, |pair| pair.modified);
        let is_current = newest == self.following.pointer_revision;
        self.expect_mark(now_ms, newest, self.following.pointer_revision);
        let own = self.holder();
        let server = &own[..own.len() - 16];
        match holder {
            // An attempt whose answer was lost has taken it.
            Some(pair) if pair.value == own.as_bytes() && is_current => {
                if let Some(job) = &mut self.saving.job {
                    job.held = Some(pair.modified);
                }
            }
            // The process before this one died over it: it is given back for that one, then taken.
            Some(pair) if pair.value.starts_with(server.as_bytes()) && pair.value != own.as_bytes() => {
                let guards = vec![Guard::Modified(self.keys.saving(), pair.modified)];
                let then = vec![Op::Delete(self.keys.saving(), None)];
                self.call(Purpose::EndSaving, Request::Txn(Txn { guards, then, otherwise: Vec::new() }));
            }
            Some(pair) if pair.value != own.as_bytes() => self.saving_failed("another server saves one"),
            // The pointer has moved and the watch has not said so yet: then it is tried again.
            _ => {}
        }
    }

    /// Who saves: the server, then the process.
    fn holder(&self) -> String {
        format!("{} {:016x}", self.config.note.server, self.config.proposer)
    }

    fn write_chunks(&mut self, held: u64) {
        let Some(job) = &mut self.saving.job else { return };
        let mut calls = Vec::new();
        while job.writing < CHUNKS_AT_ONCE
            && let Some(number) = job.unwritten.pop_first()
        {
            job.writing += 1;
            let key = self.keys.chunk(&job.manifest.id, number);
            let value = records::chunk_value(&chunk(&job.pieces, number));
            let guards = vec![Guard::Modified(self.keys.saving(), held)];
            let then = vec![Op::Put { key, value, lease: 0 }];
            let txn = Txn { guards, then, otherwise: Vec::new() };
            calls.push((Purpose::WriteChunk(job.attempt, number), Request::Txn(txn)));
        }
        for (purpose, request) in calls {
            self.call(purpose, request);
        }
    }

    pub(super) fn chunk_written(&mut self, attempt: u64, number: usize, answer: Option<Response>) {
        let Some(job) = self.saving.job.as_mut().filter(|job| job.attempt == attempt) else { return };
        job.writing -= 1;
        match answer {
            Some(Response::Txn { succeeded: true, .. }) => {}
            Some(_) => self.save_again(),
            None if self.health.is_full() => self.saving_failed("etcd has no space left"),
            None => drop(job.unwritten.insert(number)),
        }
    }

    fn flip_pointer(&mut self, held: u64) {
        let Some(job) = &mut self.saving.job else { return };
        job.is_open = true;
        let attempt = job.attempt;
        let guards = vec![
            Guard::Modified(self.keys.saving(), held),
            Guard::Modified(self.keys.pointer(), self.following.pointer_revision),
        ];
        let put = Op::Put { key: self.keys.pointer(), value: job.manifest.value(), lease: 0 };
        let mut then = vec![put, Op::Delete(self.keys.saving(), None)];
        if let Some(former) = &self.following.pointer {
            let chunks = self.keys.snapshot(&former.id);
            let end = after_prefix(&chunks);
            then.push(Op::Delete(chunks, Some(end)));
        }
        let otherwise = vec![Op::Get(self.keys.pointer())];
        self.call(Purpose::FlipPointer(attempt), Request::Txn(Txn { guards, then, otherwise }));
    }

    pub(super) fn pointer_flipped(&mut self, attempt: u64, answer: Option<Response>) {
        let Some(job) = self.saving.job.as_mut().filter(|job| job.attempt == attempt) else { return };
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
        let Some(revision) = flipped else { return self.save_again() };
        self.saving.job = None;
        if revision > self.following.pointer_revision {
            self.following.pointer = Some(manifest);
            self.following.pointer_revision = revision;
        }
        self.tell(LogEvent::SnapshotSaved { index });
    }

    /// The session was over, and `saving` went with it: all chunks are written again in the next one, unless somebody
    /// else has saved a newer snapshot.
    fn save_again(&mut self) {
        let newest = self.following.pointer.as_ref().map_or(0, |manifest| manifest.index);
        let Some(job) = &mut self.saving.job else { return };
        if job.index.0 <= newest {
            return self.saving_failed("another server was faster");
        }
        self.saving.jobs += 1;
        job.attempt = self.saving.jobs;
        (job.held, job.is_open, job.writing) = (None, false, 0);
        job.unwritten = (0..job.manifest.chunks as usize).collect();
    }

    /// Gives up, and gives back what is held, so that others need not wait for the end of the lease.
    fn saving_failed(&mut self, reason: &str) {
        let Some(job) = self.saving.job.take() else { return };
        if let Some(held) = job.held {
            let chunks = self.keys.snapshot(&job.manifest.id);
            let end = after_prefix(&chunks);
            let then = vec![Op::Delete(chunks, Some(end)), Op::Delete(self.keys.saving(), None)];
            let guards = vec![Guard::Modified(self.keys.saving(), held)];
            self.call(Purpose::EndSaving, Request::Txn(Txn { guards, then, otherwise: Vec::new() }));
        }
        self.tell(LogEvent::SnapshotFailed { index: job.index, reason: reason.into() });
    }
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
