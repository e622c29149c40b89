//! The marks among the entries: which snapshot is the newest, and which entries are gone.

use super::records::Manifest;

/// The marks as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The newest snapshot, and the revision of the pointer.
    pub(super) pointer: Option<Manifest>,
    pub(super) pointer_revision: u64,
    /// Which entries are gone, and the revision of the mark.
    pub(super) trimmed_below: u64,
    pub(super) trim_revision: u64,
}

impl Marks {
    /// The index of the newest snapshot; 0 without one.
    pub(super) fn newest(&self) -> u64 {
        self.pointer.as_ref().map_or(0, |manifest| manifest.index)
    }
}

/// Something that stands in the log, so that the watch should show it soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// An entry of this revision.
    Entry(u64),
    /// A mark of this revision, and the one of the last mark that was seen here.
    Mark(u64, u64),
}
