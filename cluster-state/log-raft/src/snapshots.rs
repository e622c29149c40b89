//! Snapshots as files: written under another name, synced, renamed. The last two are kept.
//!
//! ```text
//! file:  frame(header) frame(piece)*
//! ```
//! The header of format 0xa1 knew no members: they are the founders then.

use crate::error::OpenError;
use crate::identity::{SNAPSHOT_NEW, SNAPSHOT_RECEIVED, snapshot_file, snapshot_index};
use crate::members::Membership;
use crate::record::{COUNT_MAX, FORMAT, Position};
use bytes::Bytes;
use ohm_log::{Disk, DiskError, SNAPSHOT_PIECE_BYTES_MAX};
use ohm_model::Index;
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// Snapshots that are kept: the newest, and the one to fall back to.
const KEPT: usize = 2;
const PURPOSE: &str = "ohm snapshot";
/// The format byte of headers that know the members.
const HEADER_FORMAT: u8 = 0xa2;
/// No header is longer: nine members with their addresses, and those that were removed.
const HEADER_BYTES_MAX: usize = 1 << 20;

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
    /// Who belonged to the group at that index.
    members: Option<Membership>,
    /// The last entry that the copy had applied: between it and `index` there are only entries of raft's own.
    applied: u64,
}

/// The header of format 0xa1.
#[derive(Serialize, Deserialize)]
struct FormerHeader {
    purpose: String,
    cell: u64,
    index: u64,
    term: u64,
    pieces: u64,
    received: bool,
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

    /// The last entry in the snapshot, as the copy knows it.
    pub(crate) fn applied(&self) -> Index {
        Index(self.applied)
    }

    /// Who belonged to the group at that index.
    pub(crate) fn membership(&self, founders: &[u64]) -> Membership {
        self.members.clone().unwrap_or_else(|| Membership::founded(founders))
    }
}

impl From<FormerHeader> for Header {
    fn from(former: FormerHeader) -> Self {
        let FormerHeader { purpose, cell, index, term, pieces, received } = former;
        Header { purpose, cell, index, term, pieces, received, members: None, applied: index }
    }
}

impl Snapshot {
    pub(crate) fn new(cell: u64, position: Position, applied: Index, members: Membership, pieces: Vec<Bytes>) -> Self {
        let Position { index, term } = position;
        let (purpose, members) = (PURPOSE.into(), Some(members));
        let (count, applied) = (pieces.len() as u64, applied.0);
        let header = Header { purpose, cell, index, term, pieces: count, received: false, members, applied };
        Snapshot { header, pieces }
    }
}

/// The snapshots in a folder, and the one that is being written.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Indices, oldest first.
    kept: Vec<u64>,
    /// The oldest one that is on its way to another member.
    held: Option<u64>,
    writing: Option<Writing>,
}

struct Writing {
    snapshot: Snapshot,
    /// Pieces that are durable, or nothing if the header is not.
    written: Option<usize>,
}

/// How far a snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is being written.
    Idle,
    /// There is more to write.
    More,
    /// This one is durable now.
    Saved { position: Position, applied: Index, members: Membership },
}

impl Shelf {
    /// Looks which snapshots there are, without reading them.
    pub(crate) fn open(disk: &mut (impl Disk + ?Sized)) -> Result<Self, DiskError> {
        let mut kept: Vec<u64> = disk.list()?.iter().filter_map(|file| snapshot_index(&file.name)).collect();
        kept.sort_unstable();
        Ok(Shelf { kept, held: None, writing: None })
    }

    /// Indices of the snapshots that are kept, oldest first.
    pub(crate) fn kept(&self) -> &[u64] {
        &self.kept
    }

    /// Leaves a damaged snapshot out of account; its file stays for the operator.
    pub(crate) fn disregard(&mut self, index: u64) {
        self.kept.retain(|kept| *kept != index);
    }

    /// The last entry in the snapshot that is being written.
    pub(crate) fn writing(&self) -> Option<Index> {
        self.writing.as_ref().map(|writing| writing.snapshot.header.applied())
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
                codec::encode_frame(HEADER_FORMAT, header, &mut frame);
            }
            Some(written) if written < pieces.len() => codec::frame(FORMAT, &pieces[written], &mut frame),
            Some(_) => {
                let position = header.position();
                let (members, applied) = (header.members.clone().unwrap_or_default(), header.applied());
                self.publish(disk, SNAPSHOT_NEW, position.index)?;
                return Ok(Progress::Saved { position, applied, members });
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

    /// Takes a snapshot that another member sent and that is here whole.
    pub(crate) fn install(&mut self, disk: &mut (impl Disk + ?Sized), index: u64) -> Result<(), DiskError> {
        self.publish(disk, SNAPSHOT_RECEIVED, index)
    }

    /// Gives up what is being written, and says of which index it was.
    pub(crate) fn give_up(&mut self) -> Option<Index> {
        self.writing.take().map(|writing| writing.snapshot.header.applied())
    }

    /// Keeps `index` while it is being sent.
    pub(crate) fn hold(&mut self, held: Option<u64>) {
        self.held = held;
    }

    /// Removes snapshots that are not needed any more.
    pub(crate) fn tidy(&mut self, disk: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
        while self.kept.len() > KEPT && self.held.is_none_or(|held| held > self.kept[0]) {
            disk.remove(&snapshot_file(self.kept.remove(0)))?;
        }
        Ok(())
    }

    fn publish(&mut self, disk: &mut (impl Disk + ?Sized), file: &str, index: u64) -> Result<(), DiskError> {
        disk.rename(file, &snapshot_file(index))?;
        disk.sync_folder()?;
        self.disregard(index);
        self.kept.push(index);
        self.kept.sort_unstable();
        self.tidy(disk)
    }
}

/// The header of a snapshot as another member gets it, and the length of the whole file.
pub(crate) fn head_for_sending(disk: &mut (impl Disk + ?Sized), index: u64) -> Result<(Bytes, u64), OpenError> {
    let file = snapshot_file(index);
    let found = disk.list()?.into_iter().find(|status| status.name == file);
    let total = found.ok_or_else(|| DiskError::NotFound { file: file.clone() })?.bytes;
    let bytes = disk.read(&file, 0, HEADER_BYTES_MAX)?;
    let (mut header, taken) = read_header(&file, &bytes)?;
    header.received = true;
    let mut head = Vec::new();
    match header.members {
        Some(_) => codec::encode_frame(HEADER_FORMAT, &header, &mut head),
        None => {
            let Header { purpose, cell, index, term, pieces, received, .. } = header;
            codec::encode_frame(FORMAT, &FormerHeader { purpose, cell, index, term, pieces, received }, &mut head);
        }
    }
    match head.len() == taken {
        true => Ok((head.into(), total)),
        false => Err(OpenError::damaged(&file, 0, "its header is written in an unusual way")),
    }
}

/// Part of a snapshot file.
pub(crate) fn read_range(
    disk: &mut (impl Disk + ?Sized),
    index: u64,
    offset: u64,
    length: usize,
) -> Result<Bytes, DiskError> {
    disk.read(&snapshot_file(index), offset, length).map(Bytes::from)
}

/// Puts a piece behind those of the snapshot that is coming, durably.
pub(crate) fn append_received(disk: &mut (impl Disk + ?Sized), piece: &Bytes) -> Result<(), DiskError> {
    disk.append(SNAPSHOT_RECEIVED, piece)?;
    disk.sync(SNAPSHOT_RECEIVED)
}

/// The snapshot that has come, checked; the inner error says that it is damaged.
pub(crate) fn read_received(disk: &mut (impl Disk + ?Sized)) -> Result<Result<Snapshot, OpenError>, DiskError> {
    let bytes = disk.read(SNAPSHOT_RECEIVED, 0, usize::MAX)?;
    Ok(parse(SNAPSHOT_RECEIVED, &bytes.into()))
}

/// Removes what has come so far.
pub(crate) fn remove_received(disk: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
    match disk.remove(SNAPSHOT_RECEIVED) {
        Err(DiskError::NotFound { .. }) => Ok(()),
        result => result,
    }
}

fn remove_leftover(disk: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
    match disk.remove(SNAPSHOT_NEW) {
        Err(DiskError::NotFound { .. }) => Ok(()),
        result => result,
    }
}

/// The file of a snapshot, as it is.
fn read_file(disk: &mut (impl Disk + ?Sized), index: u64) -> Result<Bytes, DiskError> {
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
    let (header, mut offset) = read_header(file, bytes)?;
    if header.purpose != PURPOSE {
        return Err(OpenError::Foreign { file: file.into() });
    }
    if let Some(count) = [header.index, header.term, header.applied].into_iter().find(|count| *count > COUNT_MAX) {
        return Err(OpenError::damaged(file, 0, format!("it counts to {count}, which no log does")));
    }
    let mut pieces = Vec::new();
    while offset < bytes.len() {
        let (body, taken) = codec::unframe(FORMAT, &bytes[offset..]).map_err(|error| wrong(file, offset, error))?;
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

fn read_header(file: &str, bytes: &[u8]) -> Result<(Header, usize), OpenError> {
    match bytes.first() {
        Some(&FORMAT) => {
            let (former, taken) =
                codec::decode_frame::<FormerHeader>(FORMAT, bytes).map_err(|error| wrong(file, 0, error))?;
            Ok((former.into(), taken))
        }
        _ => codec::decode_frame::<Header>(HEADER_FORMAT, bytes).map_err(|error| wrong(file, 0, error)),
    }
}

fn wrong(file: &str, offset: usize, error: DecodeError) -> OpenError {
    match error {
        DecodeError::Format { found, expected } => OpenError::Newer { file: file.into(), found, known: expected },
        error => OpenError::damaged(file, offset as u64, error.to_string()),
    }
}
