//! Why a daemon ends although nobody asked it to.

use ohm_cell::RestoreError;
use ohm_model::{Index, ShortNodeLease};
use ohm_runtime::connect::ConnectError;
use ohm_stdx::codec::DecodeError;
use ohm_wire::Malformed;

/// What ends a daemon. A lost connection does not: it is made again for ever.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The server addresses can't be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// One dead candidate would end tasks.
    #[error(transparent)]
    ShortNodeLease(#[from] ShortNodeLease),
    /// The servers will not have this process, today or later.
    #[error("the server refuses this process: {0}")]
    Refused(String),
    /// An entry of the log can't be read here.
    #[error("entry {index} does not decode, so this copy of the cell ends before it: {source}")]
    Entry {
        /// Which.
        index: Index,
        /// Why.
        source: DecodeError,
    },
    /// A snapshot can't be restored.
    #[error("the snapshot of index {index} cannot be restored: {source}")]
    Snapshot {
        /// Its last entry.
        index: Index,
        /// Why.
        source: RestoreError,
    },
    /// Another message does not decode.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The task that talks to the servers is gone, which is an error of ours.
    #[error("the task that talks to the servers ended")]
    LinkEnded,
}
