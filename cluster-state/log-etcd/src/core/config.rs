//! What a server needs to know.

use super::records::Note;

/// How a server takes part.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// All keys of the cell begin with this.
    pub prefix: String,
    /// Who this server is, and what it saw last.
    pub note: Note,
    /// Where others reach it.
    pub address: String,
    /// The name of this process; never used by another one.
    pub proposer: u64,
    /// How long its lease lasts, in milliseconds, at least 2,000.
    pub session_ms: u64,
    /// An append or read without an answer for so long is given up, in milliseconds.
    pub give_up_ms: u64,
    /// Requests that may wait for their answers.
    pub queue: usize,
    /// Appends that may be on their way at once.
    pub appends_in_flight: usize,
    /// Compact the history of etcd after a trim. Not for an etcd whose other users want its history.
    pub compact: bool,
    /// What the pauses between attempts are drawn from.
    pub seed: u64,
}

impl EtcdConfig {
    /// The usual values.
    pub fn new(prefix: &str, note: Note, address: &str, proposer: u64) -> Self {
        EtcdConfig {
            prefix: prefix.into(),
            note,
            address: address.into(),
            proposer,
            session_ms: 10_000,
            give_up_ms: 10_000,
            queue: 1024,
            appends_in_flight: 16,
            compact: true,
            seed: proposer,
        }
    }
}
