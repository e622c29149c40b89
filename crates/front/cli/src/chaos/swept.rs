//! What many seeds found.

use ohm_sim::{Report, Summary};

/// What came of a sweep.
pub(super) struct Swept {
    pub(super) summary: Summary,
    pub(super) failed: Vec<Report>,
    /// How long it took, in real milliseconds.
    pub(super) seconds_milli: u64,
    /// Whether each seed ran once only.
    pub(super) once: bool,
}
