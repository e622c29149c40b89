//! What a scheduler core is told, what it wants done, and the bounds it works in.

use ohm_client::{FollowerEffect, FollowerInput};

/// How a scheduler core works. The bounds count work, never time.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// For people: host and process.
    pub name: String,
    /// How long a shard's lease lasts; equal for all replicas of a class.
    pub lease_ms: u64,
    /// An unanswered command is sent again after this long, then after twice as long, and so on.
    pub resend_ms: u64,
    /// The longest time between two sendings of one command.
    pub resend_ms_max: u64,
    /// Most transactions under way.
    pub transactions_in_flight: usize,
    /// Most jobs looked at in one pass.
    pub jobs_per_pass: usize,
    /// Most nodes looked at in one pass.
    pub nodes_per_pass: u64,
    /// Most placement rows planned in one pass.
    pub rows_per_pass: usize,
    /// Plans are put together into transactions of up to this many bytes.
    pub transaction_bytes: usize,
    /// So many plans of a job may collide in a row before it waits for `collided_ms`.
    pub retries: u32,
    /// How long a job waits whose plans collided too often.
    pub collided_ms: u64,
    /// How often everything parked is looked at again, whatever it waits for.
    pub sweep_ms: u64,
}

impl SchedulerConfig {
    /// The values used in a cell.
    pub fn new(name: &str) -> Self {
        SchedulerConfig {
            name: name.to_string(),
            lease_ms: 10_000,
            resend_ms: 1_000,
            resend_ms_max: 8_000,
            transactions_in_flight: 64,
            jobs_per_pass: 256,
            nodes_per_pass: 16 << 20,
            rows_per_pass: 16_384,
            transaction_bytes: 128 << 10,
            retries: 8,
            collided_ms: 1_000,
            sweep_ms: 10_000,
        }
    }

    /// Between two `Tick` inputs, at most.
    pub fn tick_ms(&self) -> u64 {
        (self.lease_ms / 20).clamp(1, 100)
    }
}

/// The answer to [`Again`]: everything else that had arrived was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proceed;

/// There is more to do: hand in everything that has arrived, then [`Proceed`]. At most one is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again;

/// What a scheduler core is told; `Tick` at least every [`SchedulerConfig::tick_ms`].
pub type SchedulerInput = FollowerInput<Proceed>;

/// What a scheduler core wants done. The jobs of a shard are placed here as long as its lease is held; when the session
/// is gone everything is planned again from the state under a new one.
pub type SchedulerEffect = FollowerEffect<Again>;
