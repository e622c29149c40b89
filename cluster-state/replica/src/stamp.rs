//! What entries are stamped with: time that never falls, never stands still, and never jumps while the process
//! lives.
//!
//! Back-offs, deadlines and time-outs of sessions are counted in stamped time, so a wall clock that somebody sets
//! must not freeze them (set back) or end them all at once (set forward). The wall clock is believed when the
//! process begins; from then on stamped time goes on with the monotonic clock, and closes in on the wall clock a
//! little faster or slower, as NTP slews a clock.

/// Behind the wall clock, stamped time goes at most this many times as fast as the monotonic clock.
const FASTER: u64 = 2;
/// Ahead of it, it goes slower by one part in this many.
const SLOWER_PART: u64 = 10;

/// How long stamps are counted from the same moment: long enough that a part of it can be left out.
const ANCHOR_MS: u64 = 1_000;

/// The stamps of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampClock {
    /// A moment of the monotonic clock, and the stamp at it.
    anchor: Option<(u64, u64)>,
    last_ms: u64,
}

impl StampClock {
    /// The stamp for an entry made now, when the last one applied had `applied_ms`.
    pub(crate) fn stamp_ms(&mut self, now_ms: u64, wall_ms: u64, applied_ms: u64) -> u64 {
        let (then_ms, anchor_ms) = *self.anchor.get_or_insert((now_ms, wall_ms));
        let elapsed_ms = now_ms.saturating_sub(then_ms);
        let (slowest_ms, fastest_ms) = (elapsed_ms - elapsed_ms / SLOWER_PART, elapsed_ms.saturating_mul(FASTER));
        let slewed_ms = anchor_ms.saturating_add(wall_ms.saturating_sub(anchor_ms).clamp(slowest_ms, fastest_ms));
        let stamp_ms = slewed_ms.max(self.last_ms).max(applied_ms);
        if elapsed_ms >= ANCHOR_MS || stamp_ms > slewed_ms {
            self.anchor = Some((now_ms, stamp_ms));
        }
        self.last_ms = stamp_ms;
        stamp_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// Stamps every 10 ms for a second, the wall clock being off by `jump_ms` after the first.
    fn second(jump_ms: i64) -> (u64, u64) {
        let mut clock = StampClock::default();
        let wall_ms = 10 * HOUR_MS;
        let first = clock.stamp_ms(500, wall_ms, 0);
        let stamps = (1..=100)
            .map(|step| clock.stamp_ms(500 + step * 10, (wall_ms + step * 10).saturating_add_signed(jump_ms), 0));
        (first, stamps.last().unwrap_or(0))
    }

    #[test]
    fn stamps_follow_a_wall_clock_that_behaves() {
        assert_eq!(second(0), (10 * HOUR_MS, 10 * HOUR_MS + 1_000));
        let (first, last) = second(200);
        assert_eq!(last - first, 1_200, "a small correction is taken over");
    }

    #[test]
    fn a_jump_neither_freezes_nor_ends_anything() {
        let (first, last) = second(HOUR_MS as i64);
        assert_eq!(last - first, 2_000);
        let (first, last) = second(-(HOUR_MS as i64));
        assert!((900..=1_000).contains(&(last - first)), "{}", last - first);
    }

    #[test]
    fn a_process_that_begins_behind_goes_on_from_what_was_applied() {
        let mut clock = StampClock::default();
        assert_eq!(clock.stamp_ms(0, HOUR_MS, 3 * HOUR_MS), 3 * HOUR_MS);
        assert_eq!(clock.stamp_ms(1_000, HOUR_MS + 1_000, 3 * HOUR_MS), 3 * HOUR_MS + 900);
    }
}
