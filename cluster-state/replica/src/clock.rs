//! What time it is.

/// What the clocks of the machine show when an input arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The monotonic clock.
    pub now_ms: u64,
    /// The wall clock, which time closes in on while it is near, or believed.
    pub wall_ms: u64,
}
