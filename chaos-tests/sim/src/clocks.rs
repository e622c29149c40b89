//! The clocks of simulated processes: each drifts, none is right, and people set the wall clock.

use ohm_stdx::Prng;

/// What a wall clock that is right shows in the first moment.
pub(crate) const EPOCH_MS: u64 = 1_700_000_000_000;

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
            wall_offset_ms: EPOCH_MS + dice.below(5_000),
        }
    }

    /// What the machine's boot-time clock shows at `real_ms`.
    pub(crate) fn boot_ms(&self, real_ms: u64) -> u64 {
        self.offset_ms + real_ms * self.rate_ppm / 1_000_000
    }

    /// When, not before `real_ms`, the boot-time clock shows `boot_ms`.
    pub(crate) fn real_ms(&self, real_ms: u64, boot_ms: u64) -> u64 {
        let shown_ms = boot_ms.saturating_sub(self.offset_ms);
        let at_ms = u128::from(shown_ms) * 1_000_000 / u128::from(self.rate_ppm) + 1;
        real_ms.max(at_ms.min(u128::from(u64::MAX)) as u64)
    }

    /// What its wall clock shows.
    pub(crate) fn wall_ms(&self, real_ms: u64) -> u64 {
        self.wall_offset_ms + real_ms * self.rate_ppm / 1_000_000
    }

    /// How far its wall clock is ahead of one that is right.
    pub(crate) fn wall_ahead_ms(&self, real_ms: u64) -> i64 {
        self.wall_ms(real_ms) as i64 - (EPOCH_MS + real_ms) as i64
    }

    /// Somebody sets the wall clock.
    pub(crate) fn jump(&mut self, by_ms: i64) {
        self.wall_offset_ms = self.wall_offset_ms.saturating_add_signed(by_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_at_which_a_clock_shows_a_time_is_not_too_early() {
        let mut dice = Prng::new(3);
        for _ in 0..200 {
            let clock = Clock::drawn(&mut dice, 4_000);
            let (real_ms, ahead_ms) = (dice.below(100_000), dice.below(10_000));
            let boot_ms = clock.boot_ms(real_ms) + ahead_ms;
            let at_ms = clock.real_ms(real_ms, boot_ms);
            assert!(clock.boot_ms(at_ms) >= boot_ms && at_ms <= real_ms + ahead_ms + 60, "{at_ms}");
        }
    }

    #[test]
    fn a_jump_moves_the_wall_clock_only() {
        let mut clock = Clock::drawn(&mut Prng::new(1), 0);
        let (boot_ms, wall_ms) = (clock.boot_ms(50), clock.wall_ms(50));
        clock.jump(-3_600_000);
        assert_eq!((clock.boot_ms(50), clock.wall_ms(50)), (boot_ms, wall_ms - 3_600_000));
    }
}
