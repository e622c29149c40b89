//! The write-ahead log: what raft must not forget, in segments that only ever grow at their end.

use crate::identity::{Identity, segment_file};
use crate::record::{Batch, COUNT_MAX, Position, SegmentHeader};
use crate::replay::{Replay, Segment};
use ohm_log::{Disk, DiskError};
use raft::eraftpb::HardState;
use std::collections::VecDeque;

/// The open end of the log.
pub(crate) struct Wal {
    cell: u64,
    member: u64,
    segment_bytes: u64,
    /// Oldest first, never empty; the last one is written to.
    segments: VecDeque<Segment>,
    file: String,
    length: u64,
    batch: Batch,
}

impl Wal {
    /// Goes on where `replay` ended. What a crash left unfinished is cut, and the rest made durable: bytes that were
    /// read back may never have been synced.
    pub(crate) fn open(
        disk: &mut (impl Disk + ?Sized),
        identity: &Identity,
        segment_bytes: u64,
        replay: &Replay,
    ) -> Result<Self, DiskError> {
        let newest = replay.segments.back().cloned().unwrap_or(Segment { sequence: 1, base_index: 0, bytes: 0 });
        let file = segment_file(newest.sequence);
        if let Some(unfinished) = &replay.unfinished {
            disk.remove(unfinished)?;
        }
        if replay.torn_bytes > 0 && replay.unfinished.is_none() {
            disk.truncate(&file, newest.bytes)?;
        }
        disk.sync(&file)?;
        disk.sync_folder()?;
        Ok(Wal {
            cell: identity.cell,
            member: identity.member,
            segment_bytes,
            segments: replay.segments.clone(),
            file,
            length: newest.bytes,
            batch: Batch::default(),
        })
    }

    /// Makes what `fill` writes durable with one sync. `last` and `state` are those before it: a new segment starts
    /// with them. After [`DiskError::Full`] nothing has changed and the same may be tried again.
    pub(crate) fn append(
        &mut self,
        disk: &mut (impl Disk + ?Sized),
        last: Position,
        state: &HardState,
        fill: impl FnOnce(&mut Batch),
    ) -> Result<(), DiskError> {
        if self.length >= self.segment_bytes {
            self.rotate(disk, last, state)?;
        }
        self.batch.begin(self.length);
        fill(&mut self.batch);
        let bytes = self.batch.finish();
        disk.append(&self.file, bytes)?;
        if !ohm_stdx::bug::is_planted(ohm_stdx::bug::Bug::AnswerBeforeSync) {
            disk.sync(&self.file)?;
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Removes the segments that hold nothing above `bound`, oldest first, each of them durably before the next, so
    /// that a crash leaves no hole.
    pub(crate) fn trim(&mut self, disk: &mut (impl Disk + ?Sized), bound: u64) -> Result<(), DiskError> {
        while self.segments.get(1).is_some_and(|second| second.base_index <= bound) {
            disk.remove(&segment_file(self.segments[0].sequence))?;
            disk.sync_folder()?;
            self.segments.pop_front();
        }
        Ok(())
    }

    /// Starts a new segment.
    fn rotate(&mut self, disk: &mut (impl Disk + ?Sized), last: Position, state: &HardState) -> Result<(), DiskError> {
        let sequence = self.segments.back().map_or(1, |newest| newest.sequence + 1);
        let file = segment_file(sequence);
        if sequence > COUNT_MAX {
            let reason = format!("no segment has a number above {COUNT_MAX}");
            return Err(DiskError::Failed { operation: "append", file, reason });
        }
        self.batch.begin(0);
        let header =
            SegmentHeader { cell: self.cell, member: self.member, sequence, base: last, previous_bytes: self.length };
        self.batch.segment(&header);
        self.batch.state(state);
        let bytes = self.batch.finish();
        disk.append(&file, bytes)?;
        disk.sync(&file)?;
        disk.sync_folder()?;
        self.length = bytes.len() as u64;
        self.segments.push_back(Segment { sequence, base_index: last.index, bytes: self.length });
        self.file = file;
        Ok(())
    }
}
