//! What events tell of the head of a line.

use crate::ids::JobId;
use serde::{Deserialize, Serialize};

/// When the head of a line is to start, and what is kept for it until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadStart {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// For how many tasks room is kept.
    pub tasks: u32,
    /// On how many nodes.
    pub nodes: u32,
    /// When it is to start, in stamped milliseconds.
    pub start_ms: u64,
    /// Whether that is guessed: nobody knows when some of what runs there ends.
    pub is_guess: bool,
    /// Until when room is kept at most, in stamped milliseconds.
    pub until_ms: u64,
}
