//! The clocks of simulated processes: each drifts, none is right.

use ohm_stdx::Prng;

/// One machine's clock: a different start, and a rate that is off by up to the drawn bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ms: u64,
    rate_ppm: u64,
    wall_offset_ms: u64,
}

impl Clock {
    /// A clock that is off by at most `drift_ppm` millionths.
    pub(crate) fn drawn(dice: &mut Prng, drift_ppm: u64) -> Self {
        Clock {
            offset_ms: dice.below(1_000_000),
            rate_ppm: 1_000_000 - drift_ppm + dice.below(2 * drift_ppm + 1),
            wall_offset_ms: 1_700_000_000_000 + dice.below(5_000),
        }
    }

    /// What the machine's boot-time clock shows at `real_ms`.
    pub(crate) fn boot_ms(&self, real_ms: u64) -> u64 {
        self.offset_ms + real_ms * self.rate_ppm / 1_000_000
    }

    /// What its wall clock shows.
    pub(crate) fn wall_ms(&self, real_ms: u64) -> u64 {
        self.wall_offset_ms + real_ms * self.rate_ppm / 1_000_000
    }
}
