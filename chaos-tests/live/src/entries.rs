//! The log at rest, entry by entry.

use crate::error::LiveError;
use bytes::Bytes;
use ohm_log_raft::{FileDisk, open_read_only};
use ohm_model::Index;
use std::path::PathBuf;

/// The index of a snapshot, and the entries after it.
pub(crate) type Entries = (Option<Index>, Vec<(Index, Bytes)>);

/// The longest log among those that begin with the first entry; one that begins late if there is no other.
pub(crate) fn longest(server_folders: &[PathBuf]) -> Result<Entries, LiveError> {
    let (mut found, mut begins_late) = (Vec::new(), None);
    for folder in server_folders {
        let folder = folder.join("log");
        let unreadable = |error: &dyn std::fmt::Display| LiveError::Log(format!("{}: {error}", folder.display()));
        let mut disk = FileDisk::read_only(&folder).map_err(|error| unreadable(&error))?;
        let archive = open_read_only(&mut disk).map_err(|error| unreadable(&error))?;
        match &archive.snapshot {
            // It was away for so long that it was given a snapshot.
            Some((index, _)) => begins_late = Some(*index),
            None if archive.entries().count() < found.len() => {}
            None => found = archive.entries().map(|(index, bytes)| (index, bytes.clone())).collect(),
        }
    }
    match found.is_empty() {
        true => Ok((begins_late, found)),
        false => Ok((None, found)),
    }
}
