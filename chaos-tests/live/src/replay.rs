//! The log at rest: the data folder of a server, of several the one that goes furthest, replayed entry by entry. (`ohm
//! log verify` checks the invariants.)

use crate::LiveError;
use crate::history::Logged;
use crate::verdict::Finding;
use ohm_cell::{Applied, Cell};
use ohm_log_raft::{Archive, FileDisk, open_read_only};
use ohm_model::Entry;
use ohm_oracle::stuck_jobs;
use std::path::PathBuf;
use std::sync::Arc;

/// What is left of the cell.
pub(crate) struct Replayed {
    pub(crate) log: Vec<Logged>,
    /// Jobs that wait in the end although they fit.
    pub(crate) findings: Vec<Finding>,
}

/// Replays the longest log of those in the servers' data folders, which no server has open any more. Each of several
/// ends where its server was killed or stopped last; what one lacks at its end another one has.
pub(crate) fn replay(server_folders: &[PathBuf]) -> Result<Replayed, LiveError> {
    let mut found: Option<(PathBuf, Archive)> = None;
    let mut begins_late = None;
    for folder in server_folders {
        let folder = folder.join("log");
        let unreadable = |error: &dyn std::fmt::Display| LiveError::Log(format!("{}: {error}", folder.display()));
        let mut disk = FileDisk::read_only(&folder).map_err(|error| unreadable(&error))?;
        let archive = open_read_only(&mut disk).map_err(|error| unreadable(&error))?;
        match &archive.snapshot {
            // It was away for so long that it was given a snapshot.
            Some((index, _)) => begins_late = Some(*index),
            None if found.as_ref().is_some_and(|(_, other)| other.committed >= archive.committed) => {}
            None => found = Some((folder, archive)),
        }
    }
    let Some((folder, archive)) = found else {
        let index = begins_late.unwrap_or_default();
        return Err(LiveError::Log(format!("the log begins after entry {index}: what came before can't be judged")));
    };
    let unreadable = |error: &dyn std::fmt::Display| LiveError::Log(format!("{}: {error}", folder.display()));
    let (mut cell, mut log) = (Cell::new(), Vec::new());
    for (index, bytes) in archive.entries() {
        let entry = Entry::decode(bytes).map_err(|error| unreadable(&format!("entry {index}: {error}")))?;
        let mut applied = Applied::default();
        cell.apply(index, &entry, &mut applied);
        let (entry, applied) = (Arc::new(entry), Arc::new(applied));
        log.push(Logged { index, entry, applied, chain: cell.chain() });
    }
    let stuck = stuck_jobs(&cell).into_iter().map(|stuck| Finding { broken: stuck.broken, before: Vec::new() });
    Ok(Replayed { log, findings: stuck.collect() })
}
