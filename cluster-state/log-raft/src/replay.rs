//! Reads the segments of the write-ahead log back and changes nothing.

use crate::error::OpenError;
use crate::identity::{Identity, segment_file, segment_sequence};
use crate::record::{self, FORMAT, Position, Record, SegmentHeader};
use bytes::Bytes;
use ohm_log::Disk;
use ohm_stdx::codec::{self, DecodeError};
use raft::eraftpb::{Entry, HardState};
use std::collections::VecDeque;

/// What the segments say, put together.
#[derive(Default)]
pub(crate) struct Replay {
    /// The place before the first entry.
    pub(crate) base: Position,
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) state: HardState,
    pub(crate) segments: VecDeque<Segment>,
    /// Bytes of an unfinished write at the end of the last segment.
    pub(crate) torn_bytes: u64,
    /// A segment after the last one, whose creation was cut short.
    pub(crate) unfinished: Option<String>,
    header_due: bool,
}

/// A file of the write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) sequence: u64,
    /// The last index before it.
    pub(crate) base_index: u64,
    /// How much of it is whole.
    pub(crate) bytes: u64,
}

/// Reads all segments in order.
pub(crate) fn replay(disk: &mut (impl Disk + ?Sized), identity: &Identity) -> Result<Replay, OpenError> {
    let mut files: Vec<(u64, usize)> = Vec::new();
    for status in disk.list()? {
        let length = usize::try_from(status.bytes).unwrap_or(usize::MAX);
        files.extend(segment_sequence(&status.name).map(|sequence| (sequence, length)));
    }
    files.sort_unstable();
    let Some(&(newest, _)) = files.last() else {
        return Err(OpenError::damaged(&segment_file(1), 0, "it is missing, and so are all other segments"));
    };
    let mut replay = Replay::default();
    for (place, &(sequence, length)) in files.iter().enumerate() {
        let file = segment_file(sequence);
        if place > 0 && files[place - 1].0 + 1 != sequence {
            return Err(OpenError::damaged(&file, 0, "the segment before it is missing"));
        }
        let bytes = Bytes::from(disk.read(&file, 0, length)?);
        replay.read_segment(&file, sequence, &bytes, sequence == newest, identity)?;
    }
    Ok(replay)
}

impl Replay {
    /// The place of the last entry.
    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.base, |entry| Position { index: entry.index, term: entry.term })
    }

    /// The term at `index`, if it is known.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        match index.checked_sub(self.base.index)? {
            0 => Some(self.base.term),
            distance => self.entries.get(distance as usize - 1).map(|entry| entry.term),
        }
    }

    fn read_segment(
        &mut self,
        file: &str,
        sequence: u64,
        bytes: &Bytes,
        newest: bool,
        identity: &Identity,
    ) -> Result<(), OpenError> {
        self.header_due = true;
        let mut offset = 0;
        while offset < bytes.len() {
            match codec::unframe(FORMAT, &bytes[offset..]) {
                Ok((body, taken)) => {
                    self.read_frame(file, sequence, offset, bytes.slice_ref(body), identity)?;
                    offset += taken;
                }
                Err(DecodeError::Format { found, expected }) => {
                    return Err(OpenError::Newer { file: file.into(), found, known: expected });
                }
                Err(_) if newest && !was_durable(bytes, offset) => break,
                Err(error) => return Err(OpenError::damaged(file, offset as u64, error.to_string())),
            }
        }
        if offset > 0 && self.header_due {
            return Err(OpenError::damaged(file, 0, "it has no header"));
        }
        if offset > 0 {
            self.torn_bytes = (bytes.len() - offset) as u64;
            self.segments.back_mut().into_iter().for_each(|segment| segment.bytes = offset as u64);
        } else if newest && !self.segments.is_empty() {
            self.unfinished = Some(file.into());
        } else {
            return Err(OpenError::damaged(file, 0, "it has no header"));
        }
        Ok(())
    }

    fn read_frame(
        &mut self,
        file: &str,
        sequence: u64,
        offset: usize,
        body: Bytes,
        identity: &Identity,
    ) -> Result<(), OpenError> {
        let damaged = |reason: String| OpenError::damaged(file, offset as u64, reason);
        for record in record::read_body(body).map_err(damaged)? {
            match record {
                Record::Segment(header) => self.begin_segment(&header, sequence, identity).map_err(damaged)?,
                _ if self.header_due => return Err(damaged("it has no header".into())),
                record => self.apply(record).map_err(damaged)?,
            }
        }
        Ok(())
    }

    fn begin_segment(&mut self, header: &SegmentHeader, sequence: u64, identity: &Identity) -> Result<(), String> {
        if !std::mem::take(&mut self.header_due) {
            return Err("a second header".into());
        }
        if (header.cell, header.member, header.sequence) != (identity.cell, identity.member, sequence) {
            return Err(format!("it is segment {} of member {}", header.sequence, header.member));
        }
        if let Some(previous) = self.segments.back() {
            if previous.bytes != header.previous_bytes {
                return Err(format!("{} bytes expected before it, found {}", header.previous_bytes, previous.bytes));
            }
            if self.last() != header.base {
                return Err(format!("it goes on after {:?}, the log before it ends at {:?}", header.base, self.last()));
            }
        } else {
            self.base = header.base;
        }
        self.segments.push_back(Segment { sequence, base_index: header.base.index, bytes: 0 });
        Ok(())
    }

    fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Segment(_) => {}
            Record::State(state) => self.state = state,
            Record::Entry(entry) => {
                if entry.index != self.last().index + 1 {
                    return Err(format!("entry {} after entry {}", entry.index, self.last().index));
                }
                self.entries.push_back(entry);
            }
            Record::Truncate { from } => {
                let trimmed = self.segments.front().is_some_and(|first| first.sequence > 1);
                match from.checked_sub(self.base.index + 1) {
                    Some(kept) => self.entries.truncate(kept as usize),
                    // Entries that a newer leader had others for stood in a segment that was trimmed since. A snapshot
                    // covers what stands in their place, so nobody asks for the term before it.
                    None if trimmed && from > 0 => {
                        self.entries.clear();
                        self.base = Position { index: from - 1, term: 0 };
                    }
                    None => return Err(format!("a cut at {from}, the log begins after {}", self.base.index)),
                }
            }
            Record::Restart(position) => {
                self.entries.clear();
                self.base = position;
            }
        }
        Ok(())
    }
}

/// Whether something after `broken` proves that `broken` was durable once: a whole frame that says so.
fn was_durable(bytes: &[u8], broken: usize) -> bool {
    (broken + 1..bytes.len()).any(|place| {
        let stated = record::stated_durable(&bytes[place..]);
        stated.is_some_and(|durable| durable > broken as u64 && durable <= place as u64)
            && codec::unframe(FORMAT, &bytes[place..]).is_ok()
    })
}
