//! The log at rest: the server's data folder, replayed entry by entry. (`ohm log verify` checks the invariants.)

use crate::LiveError;
use crate::history::Logged;
use crate::verdict::Finding;
use bytes::Bytes;
use ohm_cell::{Applied, Cell};
use ohm_log_raft::{FileDisk, open_read_only};
use ohm_model::{Entry, Index};
use ohm_oracle::stuck_jobs;
use std::path::Path;
use std::sync::Arc;

/// What is left of the cell.
pub(crate) struct Replayed {
    pub(crate) log: Vec<Logged>,
    /// Jobs that wait in the end although they fit.
    pub(crate) findings: Vec<Finding>,
}

/// Replays the log: that in etcd, or that of the server's data folder, which no server has open any more.
pub(crate) fn replay(server_folder: &Path, etcd: &[String]) -> Result<Replayed, LiveError> {
    let (snapshot, entries) = match etcd {
        [] => in_folder(server_folder)?,
        members => crate::etcd::entries(members)?,
    };
    if let Some(index) = snapshot {
        return Err(LiveError::Log(format!("the log begins after entry {index}: what came before can't be judged")));
    }
    let (mut cell, mut log) = (Cell::new(), Vec::new());
    for (index, bytes) in &entries {
        let entry = Entry::decode(bytes).map_err(|error| LiveError::Log(format!("entry {index}: {error}")))?;
        let mut applied = Applied::default();
        cell.apply(*index, &entry, &mut applied);
        let (entry, applied) = (Arc::new(entry), Arc::new(applied));
        log.push(Logged { index: *index, entry, applied, chain: cell.chain() });
    }
    let stuck = stuck_jobs(&cell).into_iter().map(|stuck| Finding { broken: stuck.broken, before: Vec::new() });
    Ok(Replayed { log, findings: stuck.collect() })
}

/// The index of a snapshot, and the entries after it.
pub(crate) type Entries = (Option<Index>, Vec<(Index, Bytes)>);

fn in_folder(server_folder: &Path) -> Result<Entries, LiveError> {
    let folder = server_folder.join("log");
    let unreadable = |error: &dyn std::fmt::Display| LiveError::Log(format!("{}: {error}", folder.display()));
    let mut disk = FileDisk::read_only(&folder).map_err(|error| unreadable(&error))?;
    let archive = open_read_only(&mut disk).map_err(|error| unreadable(&error))?;
    let entries = archive.entries().map(|(index, bytes)| (index, bytes.clone())).collect();
    Ok((archive.snapshot.map(|(index, _)| index), entries))
}
