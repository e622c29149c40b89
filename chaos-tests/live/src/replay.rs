//! The log at rest: the data folder of a server, of several the one that goes furthest, replayed entry by entry. (`ohm
//! log verify` checks the invariants.)

use crate::LiveError;
use crate::history::Logged;
use crate::verdict::Finding;
use bytes::Bytes;
use ohm_cell::{Applied, Cell};
use ohm_log_raft::{FileDisk, open_read_only};
use ohm_model::{Entry, Index};
use ohm_oracle::stuck_jobs;
use std::path::PathBuf;
use std::sync::Arc;

/// What is left of the cell.
pub(crate) struct Replayed {
    pub(crate) log: Vec<Logged>,
    /// Jobs that wait in the end although they fit.
    pub(crate) findings: Vec<Finding>,
}

/// Replays the log in etcd; without one the longest log of those in the servers' data folders, which no server has open
/// any more. Each of several ends where its server was killed or stopped last; what one lacks at its end another has.
pub(crate) fn replay(server_folders: &[PathBuf], etcd: &[String]) -> Result<Replayed, LiveError> {
    let (snapshot, entries) = match etcd {
        [] => longest(server_folders)?,
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

/// The longest log among those that begin with the first entry; one that begins late if there is no other.
fn longest(server_folders: &[PathBuf]) -> Result<Entries, LiveError> {
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
