//! What a scheduler counts, for its process to show.

use std::collections::BTreeMap;

/// Sums since the core was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Inputs taken.
    pub steps: u64,
    /// Planning passes.
    pub passes: u64,
    /// Nodes that planners looked at.
    pub examined: u64,
    /// Plans made that were sent.
    pub planned: u64,
    /// Transactions sent.
    pub transactions: u64,
    /// Plans accepted as a whole.
    pub committed: u64,
    /// Tasks accepted.
    pub tasks: u64,
    /// Plans that were refused in part or as a whole, and looked at again.
    pub retries: u64,
    /// Refused rows by reason.
    pub conflicts: BTreeMap<&'static str, u64>,
    /// Plans whose fate was unknown when their session ended.
    pub lost: u64,
    /// Gangs given up because no place was found for what they had lost.
    pub given_up: u64,
    /// Jobs parked because no place was found.
    pub unplaced: u64,
    /// Jobs parked because their plans collided too often in a row.
    pub collided: u64,
    /// Plans that planners returned for jobs nobody asked about, or without content.
    pub void: u64,
    /// Sweeps over everything parked.
    pub sweeps: u64,
}
