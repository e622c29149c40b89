//! The ordered log of a cell, as data: requests in, events out. The engines (`ohm-log-raft`, `ohm-log-etcd`) and the
//! hostile [`MemLog`] keep one contract, which [`contract`] checks on each of them.
//!
//! ```text
//!            submit ─▶ ┌─────┐ ─▶ Committed, InstallSnapshot   the stream: in order, nothing left out
//!   poll, wake_ms ───▶ │ Log │ ─▶ Refused, Unknown, Readable   answers to appends, reads, changes of members
//!  deliver (network) ▶ └─────┘ ─▶ Send                         effects for the shell
//! ```
//!
//! Invariants:
//! - What was `Committed` is durable on a majority and stays at its index with its bytes for ever.
//! - Indices rise but may skip; a copy asserts no more than `index > applied`.
//! - Each accepted append gets exactly one of `Committed` with its token, `Refused` and `Unknown`, unless the process
//!   ends first. A refused one is never in the log; an unknown one is in it once or never.
//! - A read that is answered with an index covers everything that was acknowledged anywhere before it was asked.
//! - A log that starts yields the newest snapshot (if there is one), then each committed entry after it, then goes on.
//! - No queue grows without a limit: a log that nobody polls answers [`SubmitError::Busy`].
//! - No clock, no socket, no thread and no hidden dice in here. Nothing in here leads; see [`LogEvent::Leader`].
#![forbid(unsafe_code)]

mod alarm;
pub mod contract;
pub mod disk;
mod failure;
mod log;
mod mem_disk;
mod mem_log;
mod members;

pub use alarm::Alarm;
pub use bytes::Bytes;
pub use disk::{Disk, DiskError, FileStatus};
pub use failure::{DeliverError, LogFailure, Refusal, SubmitError};
pub use log::{Delivery, ENTRY_BYTES_MAX, Log, LogEvent, LogRequest, SNAPSHOT_PIECE_BYTES_MAX, check_lengths};
pub use mem_disk::{Fault, MemDisk};
pub use mem_log::{MemFaults, MemLog, MemStore};
pub use members::{ChangeRefusal, MemberChange, Members};
