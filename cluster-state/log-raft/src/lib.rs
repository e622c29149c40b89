//! Engine one of the log: a raft group inside of the servers, on the `raft` crate and a write-ahead log of our own.
//!
//! Code map: [`RaftLog`] (the core: `raft_log`, `inbox`, `appends`, `settle`) · `wal`, `record`, `replay` (segments) ·
//! `snapshots` · `identity`, `recovery` (what a folder holds, and how it is opened) · `storage` (what raft reads) ·
//! `message` (what members send) · [`Archive`] (reading without a process) · [`FileDisk`] (the real disk).
//!
//! Invariants:
//! - Nothing is acknowledged, to clients or to other members, before it was synced; appends that were handed in
//!   together are synced together.
//! - A torn tail is cut. Damage before it, a gap, a foreign or a newer file stop the open with an error that names
//!   file and offset, and nothing is changed.
//! - After a failed sync nothing is tried again. A full disk is no failure: nothing is lost and work goes on later.
//! - No clock, no socket, no thread, no dice in here but [`FileDisk`], which is the one part that touches the system.
//! - Membership is that of the creation: changing it is not possible yet.
#![forbid(unsafe_code)]

mod appends;
mod archive;
mod config;
mod error;
mod file_disk;
mod identity;
mod inbox;
mod members;
mod message;
mod raft_log;
mod reads;
mod record;
mod recovery;
mod remark;
mod replay;
mod settle;
mod snapshots;
mod storage;
mod transfers;
mod wal;

pub use archive::{Archive, open_read_only};
pub use config::RaftConfig;
pub use error::OpenError;
pub use file_disk::FileDisk;
pub use identity::{Folder, Identity, inspect};
pub use raft_log::{RaftLog, RaftStatus};
pub use remark::{Listener, Remarks, Weight};
