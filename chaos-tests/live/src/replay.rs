//! The log at rest: the server's data folder, replayed entry by entry. (`ohm log verify` checks the invariants.)

use crate::LiveError;
use crate::history::Logged;
use crate::verdict::Finding;
use ohm_cell::{Applied, Cell};
use ohm_log_raft::{FileDisk, open_read_only};
use ohm_model::Entry;
use ohm_oracle::stuck_jobs;
use std::path::Path;
use std::sync::Arc;

/// What is left of the cell.
pub(crate) struct Replayed {
    pub(crate) log: Vec<Logged>,
    /// Jobs that wait in the end although they fit.
    pub(crate) findings: Vec<Finding>,
}

/// Replays the log of a server's data folder, which no server has open any more.
pub(crate) fn replay(server_folder: &Path) -> Result<Replayed, LiveError> {
    let folder = server_folder.join("log");
    let unreadable = |error: &dyn std::fmt::Display| LiveError::Log(format!("{}: {error}", folder.display()));
    let mut disk = FileDisk::read_only(&folder).map_err(|error| unreadable(&error))?;
    let archive = open_read_only(&mut disk).map_err(|error| unreadable(&error))?;
    if let Some((index, _)) = &archive.snapshot {
        return Err(LiveError::Log(format!("the log begins after entry {index}: what came before can't be judged")));
    }
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
