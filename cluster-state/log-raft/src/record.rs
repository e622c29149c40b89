//! How the write-ahead log looks on disk: records, gathered into batches that become durable by one sync.
//!
//! ```text
//! segment:  frame*                                       frames of ohm_stdx::codec
//! frame:    [ durable: u64 ] record*                     bytes of the segment that were durable before it was written
//! record:   [ kind: u8 ] fields                          integers are little-endian
//! ```
//! `durable` is what tells damage from a torn tail: a whole frame that follows a broken one, and that was written after
//! the broken one was durable, proves that the break is no unfinished write.

use bytes::Bytes;
use ohm_stdx::codec;
use raft::eraftpb::{Entry, EntryType, HardState};

/// The format byte of all files of this crate. The next format gets the next number. The first one is a byte that is
/// rare in text and in small integers, so that looking for a frame inside of damage is quick.
pub(crate) const FORMAT: u8 = 0xa1;
/// A frame is closed once its body is this long, so that one frame is never near the limit of the codec.
const FRAME_BYTES: usize = 4 << 20;
/// Bytes of the length that starts each body.
const DURABLE_BYTES: usize = 8;

/// No index, term or number of a segment is higher: what counts on from it stays a number, whatever a file says.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

const KIND_SEGMENT: u8 = 1;
const KIND_STATE: u8 = 2;
const KIND_ENTRY: u8 = 3;
const KIND_TRUNCATE: u8 = 4;
const KIND_RESTART: u8 = 5;

/// A place in the raft log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) index: u64,
    pub(crate) term: u64,
}

/// The first record of each segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cell: u64,
    pub(crate) member: u64,
    pub(crate) sequence: u64,
    /// The last entry before this segment.
    pub(crate) base: Position,
    /// How long the segment before this one is.
    pub(crate) previous_bytes: u64,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Segment(SegmentHeader),
    State(HardState),
    Entry(Entry),
    /// Entries from this index on are void: a newer leader had others.
    Truncate {
        from: u64,
    },
    /// All entries are void: a snapshot took their place, and the log goes on after it.
    Restart(Position),
}

/// Gathers records that become durable together. Its buffers are used again and again.
#[derive(Default)]
pub(crate) struct Batch {
    durable: u64,
    body: Vec<u8>,
    frames: Vec<u8>,
}

impl Batch {
    /// Starts a batch behind `durable` bytes.
    pub(crate) fn begin(&mut self, durable: u64) {
        self.durable = durable;
        self.frames.clear();
        self.open_frame();
    }

    /// The frames of the batch.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.close_frame();
        &self.frames
    }

    pub(crate) fn segment(&mut self, header: &SegmentHeader) {
        self.body.push(KIND_SEGMENT);
        self.numbers(&[header.cell, header.member, header.sequence]);
        self.numbers(&[header.base.index, header.base.term, header.previous_bytes]);
    }

    pub(crate) fn state(&mut self, state: &HardState) {
        self.body.push(KIND_STATE);
        self.numbers(&[state.term, state.vote, state.commit]);
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        if self.body.len() + entry.data.len() > FRAME_BYTES {
            self.close_frame();
            self.open_frame();
        }
        self.body.push(KIND_ENTRY);
        self.numbers(&[entry.index, entry.term]);
        self.body.push(entry.entry_type as u8);
        self.body.extend_from_slice(&(entry.data.len() as u32).to_le_bytes());
        self.body.extend_from_slice(&entry.data);
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        self.body.push(KIND_TRUNCATE);
        self.numbers(&[from]);
    }

    pub(crate) fn restart(&mut self, position: Position) {
        self.body.push(KIND_RESTART);
        self.numbers(&[position.index, position.term]);
    }

    fn open_frame(&mut self) {
        self.body.clear();
        self.body.extend_from_slice(&self.durable.to_le_bytes());
    }

    fn close_frame(&mut self) {
        if self.body.len() > DURABLE_BYTES {
            codec::frame(FORMAT, &self.body, &mut self.frames);
            self.body.clear();
        }
    }

    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.body.extend_from_slice(&number.to_le_bytes()));
    }
}

/// The records of a frame body, whose entries share its memory. The error says what is wrong with it.
pub(crate) fn read_body(mut body: Bytes) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    number(&mut body)?;
    while !body.is_empty() {
        let record = match byte(&mut body)? {
            KIND_SEGMENT => Record::Segment(SegmentHeader {
                cell: number(&mut body)?,
                member: number(&mut body)?,
                sequence: count(&mut body)?,
                base: position(&mut body)?,
                previous_bytes: number(&mut body)?,
            }),
            KIND_STATE => {
                let (term, vote, commit) = (count(&mut body)?, number(&mut body)?, count(&mut body)?);
                Record::State(HardState { term, vote, commit, ..HardState::default() })
            }
            KIND_ENTRY => Record::Entry(entry(&mut body)?),
            KIND_TRUNCATE => Record::Truncate { from: count(&mut body)? },
            KIND_RESTART => Record::Restart(position(&mut body)?),
            kind => return Err(format!("a record of kind {kind}, which format {FORMAT:#x} does not have")),
        };
        records.push(record);
    }
    Ok(records)
}

/// What the frame that seems to start at `bytes` says about how much was durable before it, without checking it.
pub(crate) fn stated_durable(bytes: &[u8]) -> Option<u64> {
    let stated = bytes.get(codec::HEADER_BYTES..codec::HEADER_BYTES + DURABLE_BYTES)?;
    (bytes[0] == FORMAT).then(|| u64::from_le_bytes(stated.try_into().unwrap_or_default()))
}

fn entry(body: &mut Bytes) -> Result<Entry, String> {
    let (index, term) = (count(body)?, count(body)?);
    let entry_type = match byte(body)? {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        2 => EntryType::EntryConfChangeV2,
        kind => return Err(format!("an entry of kind {kind}, which format {FORMAT:#x} does not have")),
    };
    let length = take(body, 4)?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
    let data = take(body, length as usize)?;
    Ok(Entry { index, term, entry_type, data, ..Entry::default() })
}

fn position(body: &mut Bytes) -> Result<Position, String> {
    Ok(Position { index: count(body)?, term: count(body)? })
}

/// An index, a term or the number of a segment.
fn count(body: &mut Bytes) -> Result<u64, String> {
    match number(body)? {
        count if count <= COUNT_MAX => Ok(count),
        count => Err(format!("it counts to {count}, which no log does")),
    }
}

fn number(body: &mut Bytes) -> Result<u64, String> {
    Ok(u64::from_le_bytes(take(body, 8)?[..].try_into().map_err(|_| "eight bytes are missing")?))
}

fn byte(body: &mut Bytes) -> Result<u8, String> {
    Ok(take(body, 1)?[0])
}

fn take(body: &mut Bytes, length: usize) -> Result<Bytes, String> {
    if body.len() < length {
        return Err(format!("a record ends early: {length} bytes needed, {} are there", body.len()));
    }
    Ok(body.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(index: u64, data: Vec<u8>) -> Entry {
        Entry { index, term: 3, data: data.into(), ..Entry::default() }
    }

    #[test]
    fn records_come_back() {
        let header =
            SegmentHeader { cell: 1, member: 2, sequence: 3, base: Position { index: 4, term: 5 }, previous_bytes: 6 };
        let state = HardState { term: 7, vote: 8, commit: 9, ..HardState::default() };
        let mut batch = Batch::default();
        batch.begin(77);
        batch.segment(&header);
        batch.state(&state);
        batch.truncate(10);
        batch.restart(Position { index: 11, term: 12 });
        batch.entry(&entry_of(13, vec![1, 2]));
        let frames = batch.finish();
        assert_eq!(stated_durable(frames), Some(77));
        let (body, taken) = codec::unframe(FORMAT, frames).unwrap();
        assert_eq!(taken, frames.len());
        let expected = [
            Record::Segment(header),
            Record::State(state),
            Record::Truncate { from: 10 },
            Record::Restart(Position { index: 11, term: 12 }),
            Record::Entry(entry_of(13, vec![1, 2])),
        ];
        assert_eq!(read_body(Bytes::copy_from_slice(body)).unwrap(), expected);
        for end in 9..body.len() {
            let cut = read_body(Bytes::copy_from_slice(&body[..end]));
            assert!(cut.is_err() || cut.is_ok_and(|records| records.len() < expected.len()), "cut at {end}");
        }
    }

    /// Raft, and whoever goes on from there, would count beyond the last number.
    #[test]
    fn what_no_log_counts_to_is_refused() {
        let refused = |write: &dyn Fn(&mut Batch, u64)| {
            for (value, is_read) in [(COUNT_MAX, true), (u64::MAX, false)] {
                let mut batch = Batch::default();
                batch.begin(0);
                write(&mut batch, value);
                let (body, _) = codec::unframe(FORMAT, batch.finish()).unwrap();
                assert_eq!(read_body(Bytes::copy_from_slice(body)).is_ok(), is_read, "{value}");
            }
        };
        let state = |term, commit| HardState { term, commit, ..HardState::default() };
        refused(&|batch, value| batch.state(&state(value, 0)));
        refused(&|batch, value| batch.state(&state(0, value)));
        refused(&|batch, value| batch.truncate(value));
        refused(&|batch, value| batch.restart(Position { index: value, term: 0 }));
        refused(&|batch, value| batch.restart(Position { index: 0, term: value }));
        refused(&|batch, value| batch.entry(&entry_of(value, vec![1])));
    }

    #[test]
    fn a_long_batch_is_several_frames_and_an_empty_one_none() {
        let mut batch = Batch::default();
        batch.begin(0);
        assert!(batch.finish().is_empty());
        batch.begin(5);
        (0..9).for_each(|index| batch.entry(&entry_of(index, vec![0; 1 << 20])));
        let (mut rest, mut frames, mut entries) = (batch.finish(), 0, 0);
        while !rest.is_empty() {
            assert_eq!(stated_durable(rest), Some(5));
            let (body, taken) = codec::unframe(FORMAT, rest).unwrap();
            entries += read_body(Bytes::copy_from_slice(body)).unwrap().len();
            (rest, frames) = (&rest[taken..], frames + 1);
        }
        assert_eq!((frames, entries), (3, 9));
    }
}
