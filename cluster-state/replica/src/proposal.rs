//! Commands that are proposed together: how they are named, and why they are not taken in.

use ohm_stdx::define_id;

define_id!(
    /// The shell's name for one proposal.
    Ticket(u64)
);

/// Why a proposal was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Too much waits already; the same commands may be proposed again later.
    #[error("{waiting} bytes of commands wait, the limit is {limit}; try again in a moment")]
    Busy {
        /// Bytes waiting.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// One command alone is longer than an entry may be.
    #[error("a command of {bytes} bytes; {limit} are the most that fit into one entry")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
}
