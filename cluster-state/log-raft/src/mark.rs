//! What stands beside the log about it, so that a log that is gone is not taken for one that never was, and one that
//! was cut short not for a whole one.
//!
//! ```text
//! log.mark:  frame(mark)      outside of the folder of the log; written under another name, synced, renamed
//! ```
//! A member without its log has forgotten how it voted and what it acknowledged. Under its old number it could vote
//! again in the same term and let what a majority had acknowledged be lost, so it never comes back under that number:
//! the others remove it, and it joins anew. The mark is written before the log is created (`begun: false`), so that a
//! crash leaves no log without a mark of the same member, and again before the log is used.
//!
//! While the log grows, the mark follows: at most every ten seconds, and when the process ends in order, it names the
//! last entry that the copy was given, which was durable and committed by then. A log that ends before it, or has
//! another entry in that place, has lost what was acknowledged, and is not opened. What came after the last mark may be
//! cut off unnoticed.

use crate::config::RaftConfig;
use crate::error::OpenError;
use crate::identity::{Folder, Identity, inspect};
use crate::record::{FORMAT, Position};
use ohm_log::{Disk, DiskError};
use ohm_model::Index;
use ohm_stdx::bug::{Bug, is_planted};
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// The file that says whose log stood here.
pub const MARK: &str = "log.mark";
const MARK_NEW: &str = "log.mark.new";
const PURPOSE: &str = "ohm log mark";
/// No mark is longer.
const MARK_BYTES_MAX: usize = 4096;
/// How often a mark is written at most.
const MARK_EVERY_MS: u64 = 10_000;

/// Whose log stands beside it, and how far that was durable at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    purpose: String,
    /// The cell.
    pub cell: u64,
    /// The member whose log it is.
    pub member: u64,
    /// Whether the log was there: before, nothing can have been acknowledged.
    pub(crate) begun: bool,
    index: u64,
    term: u64,
}

/// What a member is at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody yet: it may found a group, or join one.
    New,
    /// The owner of the log that is there.
    Member(Identity),
    /// The former owner of a log that is gone. It may join under another number only.
    Gone(Mark),
}

/// Looks at the folder of the log and at the mark beside it, and changes nothing.
pub fn stand(log: &mut (impl Disk + ?Sized), marks: &mut (impl Disk + ?Sized)) -> Result<Standing, OpenError> {
    let (folder, mark) = (inspect(log)?, Mark::read(marks)?);
    match (folder, mark) {
        (Folder::Log(identity), mark) => {
            mark.map_or(Ok(()), |mark| mark.check(identity.cell, identity.member))?;
            Ok(Standing::Member(identity))
        }
        (_, Some(mark)) if mark.forbids() => Ok(Standing::Gone(mark)),
        _ => Ok(Standing::New),
    }
}

impl Mark {
    pub(crate) fn new(config: &RaftConfig, begun: bool, Position { index, term }: Position) -> Self {
        Mark { purpose: PURPOSE.into(), cell: config.cell, member: config.member, begun, index, term }
    }

    /// The mark of a log that [`crate::RaftLog::create_from`] has made.
    pub fn of_restored(config: &RaftConfig, applied: Index) -> Self {
        Self::new(config, true, Position { index: applied.0, term: 1 })
    }

    /// The mark that is there.
    pub fn read(marks: &mut (impl Disk + ?Sized)) -> Result<Option<Self>, OpenError> {
        let bytes = match marks.read(MARK, 0, MARK_BYTES_MAX) {
            Err(DiskError::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        match codec::decode_frame::<Mark>(FORMAT, &bytes) {
            Ok((mark, taken)) if taken == bytes.len() && mark.purpose == PURPOSE => Ok(Some(mark)),
            Ok(_) => Err(OpenError::Foreign { file: MARK.into() }),
            Err(DecodeError::Format { found, expected }) => {
                Err(OpenError::Newer { file: MARK.into(), found, known: expected })
            }
            Err(error) => Err(OpenError::MarkDamaged { reason: error.to_string() }),
        }
    }

    /// Puts this mark in the place of the former one: a crash leaves the one or the other.
    pub fn write(&self, marks: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
        let mut bytes = Vec::new();
        codec::encode_frame(FORMAT, self, &mut bytes);
        match marks.remove(MARK_NEW) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        marks.append(MARK_NEW, &bytes)?;
        marks.sync(MARK_NEW)?;
        marks.rename(MARK_NEW, MARK)?;
        marks.sync_folder()
    }

    /// The last entry that is known to have been durable.
    pub(crate) fn position(&self) -> Position {
        Position { index: self.index, term: self.term }
    }

    /// Entries up to here were durable in the log.
    pub fn index(&self) -> Index {
        Index(self.index)
    }

    /// Whether whoever finds this mark and no log may not be its member again.
    pub(crate) fn forbids(&self) -> bool {
        self.begun && !is_planted(Bug::ReturnAmnesiac)
    }

    pub(crate) fn is_of(&self, cell: u64, member: u64) -> bool {
        (self.cell, self.member) == (cell, member)
    }

    /// Whether it is of the log that is there.
    pub(crate) fn check(&self, cell: u64, member: u64) -> Result<(), OpenError> {
        match self.is_of(cell, member) {
            true => Ok(()),
            false => Err(OpenError::OtherMark { cell, member, mark_cell: self.cell, mark_member: self.member }),
        }
    }

    /// Why the log of this mark is not created again.
    pub fn gone(&self) -> OpenError {
        OpenError::Gone { cell: self.cell, member: self.member, index: self.index() }
    }
}

/// The mark of a log that is open.
pub(crate) struct Marker<D> {
    pub(crate) marks: D,
    pub(crate) mark: Mark,
    pub(crate) due_ms: u64,
}

impl<D: Disk> Marker<D> {
    /// Writes that the log is durable up to there.
    pub(crate) fn follow(&mut self, now_ms: u64, Position { index, term }: Position) -> Result<(), DiskError> {
        let mark = Mark { index, term, ..self.mark.clone() };
        self.due_ms = now_ms + MARK_EVERY_MS;
        match mark.write(&mut self.marks) {
            Ok(()) => self.mark = mark,
            // The former mark still is true.
            Err(DiskError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
