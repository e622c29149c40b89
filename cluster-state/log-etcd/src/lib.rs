//! Engine two of the log: a real etcd orders the entries, and every server of the cell is a peer over it.
//!
//! ```text
//!   Log (submit, poll) ─▶ EtcdLog ─▶ core: decides ─▶ Command ─▶ Line: a connection to etcd
//!                                      ▲──────────── Heard ◀──────┘
//! ```
//! Code map: `core` (pure: [`EtcdCore`] with `appends`, `following` and `reading`, `session`, `peers`, `saving`,
//! `trimming` and `reads`, each a part of its own over `shared`; `core::identity`) · [`EtcdLog`] (the seam of the log
//! around it) · `shell` (feature `client`: the way to etcd).
//!
//! Differences from the embedded engine, all of them of etcd's making: nobody leads; indices are revisions of etcd and
//! skip; an entry takes one transaction of at most 1 MiB and a little; the servers of a cell are those with a lease.
#![forbid(unsafe_code)]

pub mod core;
mod etcd_log;
mod member;
mod options;
#[cfg(feature = "client")]
mod shell;

pub use crate::core::{CHUNK_BYTES, CellRecord, EtcdConfig, EtcdCore, Note};
pub use etcd_log::{EtcdLog, Line};
pub use member::{Member, cluster};
pub use options::{EtcdError, EtcdOptions};
#[cfg(feature = "client")]
pub use shell::{Archive, Connection, EtcdLine, Wake, read_note, write_note};
