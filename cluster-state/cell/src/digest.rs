//! The digest of the whole state: a hash over its snapshot, equal on every copy at equal indices (P9).

use crate::cell::Cell;
use ohm_stdx::hash::Digest;

impl Cell {
    /// Hashes the whole state. Costs a sweep; [`Cell::chain`] is free and nearly as telling.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new();
        self.snapshot(|frame| digest.update(frame));
        digest.finish()
    }
}
