//! The time that entries are stamped with.

/// The clock that entries are stamped with: the wall clock, which goes on at its own pace from the cell's time where
/// that is ahead. Were one entry stamped by a clock that was wrong, time would stand still until it caught up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampClock {
    last_ms: u64,
    read_ms: u64,
}

impl StampClock {
    pub(crate) fn read(&mut self, now_ms: u64, wall_ms: u64, cell_ms: u64) -> u64 {
        let gone_on = self.last_ms.saturating_add(now_ms.saturating_sub(self.read_ms));
        let stamp_ms = if self.last_ms == 0 { wall_ms.max(cell_ms) } else { gone_on.max(wall_ms).max(cell_ms) };
        *self = StampClock { last_ms: stamp_ms, read_ms: now_ms };
        stamp_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_go_on_from_a_clock_that_was_ahead_once() {
        let mut clock = StampClock::default();
        assert_eq!(clock.read(10, 5_000, 0), 5_000);
        assert_eq!(clock.read(20, 3_605_000, 5_000), 3_605_000, "an hour ahead");
        assert_eq!(clock.read(30, 5_020, 3_605_000), 3_605_010, "set right again: time goes on");
        assert_eq!(clock.read(1_030, 6_020, 3_605_010), 3_606_010);
        let mut after_a_restart = StampClock::default();
        assert_eq!(after_a_restart.read(7, 7_000, 3_606_010), 3_606_010);
        assert_eq!(after_a_restart.read(107, 7_100, 3_606_010), 3_606_110);
    }
}
