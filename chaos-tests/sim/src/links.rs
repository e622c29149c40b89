//! How long messages travel: in order over a stream, each for itself when it is a request of its own.

use ohm_stdx::Prng;
use std::collections::BTreeMap;

/// How unkind the network is in one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkFaults {
    /// The shortest way.
    pub(crate) delay_ms_min: u64,
    /// The longest way of a usual message.
    pub(crate) delay_ms_max: u64,
    /// How many of 1000 messages take ten times the longest way.
    pub(crate) slow_permille: u64,
    /// How many of 100,000 messages take their stream down.
    pub(crate) break_per_100000: u64,
    /// How many of 1000 broken streams still bring what was in them.
    pub(crate) late_permille: u64,
    /// How many of 1000 requests of people are lost alone.
    pub(crate) lose_permille: u64,
    /// How many of 1000 requests of people arrive twice.
    pub(crate) double_permille: u64,
}

impl NetworkFaults {
    /// Draws how unkind to be.
    pub(crate) fn drawn(dice: &mut Prng) -> Self {
        let delay_ms_max = [1, 3, 10, 40][dice.below(4) as usize];
        let mut sometimes = |permille: u64, bound: u64| if dice.chance(permille) { dice.below(bound) } else { 0 };
        NetworkFaults {
            delay_ms_max,
            slow_permille: sometimes(300, 30),
            break_per_100000: sometimes(400, 200),
            late_permille: sometimes(600, 1_000),
            lose_permille: sometimes(400, 150),
            double_permille: sometimes(400, 150),
            delay_ms_min: dice.below(delay_ms_max + 1),
        }
    }

    /// A kind network.
    pub(crate) fn calm() -> Self {
        NetworkFaults { delay_ms_max: 2, ..NetworkFaults::default() }
    }
}

/// What messages follow each other on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    /// One direction of the stream of one connection; its number is never used again.
    Stream { connection: u64, upwards: bool },
    /// From one server to another.
    Servers { from: usize, to: usize },
}

/// When the last message of each link arrives, so that none overtakes it.
#[derive(Debug, Default)]
pub(crate) struct Links {
    busy_until: BTreeMap<Link, u64>,
}

impl Links {
    /// When a message sent now over `link` arrives, if it is under way for `way_ms`.
    pub(crate) fn arrival_ms(&mut self, now_ms: u64, link: Link, way_ms: u64) -> u64 {
        let at_ms = (now_ms + way_ms).max(self.busy_until.get(&link).copied().unwrap_or(0));
        self.busy_until.insert(link, at_ms);
        at_ms
    }

    /// The connection is over.
    pub(crate) fn forget(&mut self, connection: u64) {
        for upwards in [false, true] {
            self.busy_until.remove(&Link::Stream { connection, upwards });
        }
    }
}

/// How long one message is under way.
pub(crate) fn way_ms(faults: &NetworkFaults, times: u64, dice: &mut Prng) -> u64 {
    let usual_ms = dice.between(faults.delay_ms_min, faults.delay_ms_max);
    let slow = faults.slow_permille > 0 && dice.chance(faults.slow_permille);
    times * if slow { faults.delay_ms_max * 10 } else { usual_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overtakes_on_a_stream() {
        let (mut links, mut dice) = (Links::default(), Prng::new(5));
        let faults = NetworkFaults { delay_ms_max: 40, slow_permille: 200, ..NetworkFaults::default() };
        let (up, down) =
            (Link::Stream { connection: 1, upwards: true }, Link::Stream { connection: 1, upwards: false });
        let mut last_ms = 0;
        for now_ms in 0..500 {
            let way_ms = way_ms(&faults, 1, &mut dice);
            let at_ms = links.arrival_ms(now_ms, up, way_ms);
            assert!(at_ms >= last_ms && at_ms >= now_ms);
            last_ms = at_ms;
        }
        assert_eq!(links.arrival_ms(0, down, 7), 7);
        links.forget(1);
        assert_eq!(links.arrival_ms(0, up, 7), 7);
    }
}
