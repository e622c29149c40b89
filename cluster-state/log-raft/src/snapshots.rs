//! Snapshots as files: written under another name, synced, renamed. The last two are kept.
//!
//! ```text
//! file:  frame(header) frame(piece)*
//! ```

use crate::error::OpenError;
use crate::identity::{SNAPSHOT_NEW, snapshot_file, snapshot_index};
use crate::record::{FORMAT, Position};
use bytes::Bytes;
use ohm_log::{Disk, DiskError, SNAPSHOT_PIECE_BYTES_MAX};
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// Snapshots that are kept: the newest, and the one to fall back to.
const KEPT: usize = 2;
const PURPOSE: &str = "ohm snapshot";

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    purpose: String,
    pub(crate) cell: u64,
    index: u64,
    term: u64,
    pieces: u64,
    /// Whether it came from another member, so that the log here may end before it.
    pub(crate) received: bool,
}

/// A whole snapshot.
pub(crate) struct Snapshot {
    pub(crate) header: Header,
    pub(crate) pieces: Vec<Bytes>,
}

impl Header {
    pub(crate) fn position(&self) -> Position {
        Position { index: self.index, term: self.term }
    }
}

impl Snapshot {
    pub(crate) fn new(cell: u64, position: Position, pieces: Vec<Bytes>) -> Self {
        let Position { index, term } = position;
        let header =
            Header { purpose: PURPOSE.into(), cell, index, term, pieces: pieces.len() as u64, received: false };
        Snapshot { header, pieces }
    }
}

/// The snapshots in a folder, and the one that is being written.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Indices, oldest first.
    kept: Vec<u64>,
    writing: Option<Writing>,
}

struct Writing {
    snapshot: Snapshot,
    /// Pieces that are durable, or nothing if the header is not.
    written: Option<usize>,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is being written.
    Idle,
    /// There is more to write.
    More,
    /// This one is durable now.
    Saved(Position),
}

impl Shelf {
    /// Looks which snapshots there are, without reading them.
    pub(crate) fn open(disk: &mut (impl Disk + ?Sized)) -> Result<Self, DiskError> {
        let mut kept: Vec<u64> = disk.list()?.iter().filter_map(|file| snapshot_index(&file.name)).collect();
        kept.sort_unstable();
        Ok(Shelf { kept, writing: None })
    }

    /// Indices of the snapshots that are kept, oldest first.
    pub(crate) fn kept(&self) -> &[u64] {
        &self.kept
    }

    /// Leaves a damaged snapshot out of account; its file stays for the operator.
    pub(crate) fn disregard(&mut self, index: u64) {
        self.kept.retain(|kept| *kept != index);
    }

    /// The index of the snapshot that is being written.
    pub(crate) fn writing(&self) -> Option<u64> {
        self.writing.as_ref().map(|writing| writing.snapshot.header.index)
    }

    /// Starts to write a snapshot; [`Shelf::step`] does the work.
    pub(crate) fn begin(&mut self, snapshot: Snapshot) {
        self.writing = Some(Writing { snapshot, written: None });
    }

    /// Writes and syncs one more piece. After any error the snapshot is given up.
    pub(crate) fn step(&mut self, disk: &mut (impl Disk + ?Sized)) -> Result<Progress, DiskError> {
        let Some(mut writing) = self.writing.take() else { return Ok(Progress::Idle) };
        let Snapshot { header, pieces } = &writing.snapshot;
        let mut frame = Vec::new();
        match writing.written {
            None => {
                remove_leftover(disk)?;
                codec::encode_frame(FORMAT, header, &mut frame);
            }
            Some(written) if written < pieces.len() => codec::frame(FORMAT, &pieces[written], &mut frame),
            Some(_) => {
                let position = header.position();
                self.publish(disk, position.index)?;
                return Ok(Progress::Saved(position));
            }
        }
        if let Err(error) = disk.append(SNAPSHOT_NEW, &frame).and_then(|()| disk.sync(SNAPSHOT_NEW)) {
            if matches!(error, DiskError::Full { .. }) {
                remove_leftover(disk)?;
            }
            return Err(error);
        }
        writing.written = Some(writing.written.map_or(0, |written| written + 1));
        self.writing = Some(writing);
        Ok(Progress::More)
    }

    /// Writes a snapshot that another member sent, all at once. One that was being written here is given up.
    pub(crate) fn install(&mut self, disk: &mut (impl Disk + ?Sized), mut snapshot: Snapshot) -> Result<(), DiskError> {
        snapshot.header.received = true;
        self.begin(snapshot);
        while self.step(disk)? == Progress::More {}
        Ok(())
    }

    /// Gives up what is being written, and says of which index it was.
    pub(crate) fn give_up(&mut self) -> Option<u64> {
        self.writing.take().map(|writing| writing.snapshot.header.index)
    }

    fn publish(&mut self, disk: &mut (impl Disk + ?Sized), index: u64) -> Result<(), DiskError> {
        disk.rename(SNAPSHOT_NEW, &snapshot_file(index))?;
        disk.sync_folder()?;
        self.disregard(index);
        self.kept.push(index);
        self.kept.sort_unstable();
        while self.kept.len() > KEPT {
            disk.remove(&snapshot_file(self.kept.remove(0)))?;
        }
        Ok(())
    }
}

fn remove_leftover(disk: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
    match disk.remove(SNAPSHOT_NEW) {
        Err(DiskError::NotFound { .. }) => Ok(()),
        result => result,
    }
}

/// The file of a snapshot, as it is.
pub(crate) fn read_file(disk: &mut (impl Disk + ?Sized), index: u64) -> Result<Bytes, DiskError> {
    disk.read(&snapshot_file(index), 0, usize::MAX).map(Bytes::from)
}

/// Reads and checks a snapshot.
pub(crate) fn read(disk: &mut (impl Disk + ?Sized), cell: u64, index: u64) -> Result<Snapshot, OpenError> {
    let file = snapshot_file(index);
    let snapshot = parse(&file, &read_file(disk, index)?)?;
    if (snapshot.header.cell, snapshot.header.index) != (cell, index) {
        return Err(OpenError::damaged(&file, 0, format!("it is of index {}", snapshot.header.index)));
    }
    Ok(snapshot)
}

/// Reads the bytes of a snapshot file; the pieces share their memory.
pub(crate) fn parse(file: &str, bytes: &Bytes) -> Result<Snapshot, OpenError> {
    let wrong = |offset: usize, error: DecodeError| match error {
        DecodeError::Format { found, expected } => OpenError::Newer { file: file.into(), found, known: expected },
        error => OpenError::damaged(file, offset as u64, error.to_string()),
    };
    let (header, mut offset) = codec::decode_frame::<Header>(FORMAT, bytes).map_err(|error| wrong(0, error))?;
    if header.purpose != PURPOSE {
        return Err(OpenError::Foreign { file: file.into() });
    }
    let mut pieces = Vec::new();
    while offset < bytes.len() {
        let (body, taken) = codec::unframe(FORMAT, &bytes[offset..]).map_err(|error| wrong(offset, error))?;
        if body.is_empty() || body.len() > SNAPSHOT_PIECE_BYTES_MAX {
            return Err(OpenError::damaged(file, offset as u64, format!("a piece of {} bytes", body.len())));
        }
        pieces.push(bytes.slice_ref(body));
        offset += taken;
    }
    if pieces.len() as u64 != header.pieces {
        let reason = format!("{} pieces expected, {} found", header.pieces, pieces.len());
        return Err(OpenError::damaged(file, offset as u64, reason));
    }
    Ok(Snapshot { header, pieces })
}
