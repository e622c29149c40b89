//! Connections: in order while they last, like TCP. What a fault destroys is the connection, never the order.

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
    /// How many of 100,000 messages take their connection down.
    pub break_per_100000: u64,
}

impl NetworkFaults {
    /// Draws how unkind to be.
    pub(crate) fn drawn(dice: &mut Prng) -> Self {
        let delay_ms_max = [1, 3, 10, 40][dice.below(4) as usize];
        NetworkFaults {
            delay_ms_min: dice.below(delay_ms_max + 1),
            delay_ms_max,
            slow_permille: if dice.chance(300) { dice.below(30) } else { 0 },
            break_per_100000: if dice.chance(400) { dice.below(200) } else { 0 },
        }
    }

    /// No faults any more.
    pub(crate) fn healed(self) -> Self {
        NetworkFaults { delay_ms_min: 0, delay_ms_max: 2, slow_permille: 0, break_per_100000: 0 }
    }
}

/// One direction of one connection, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    /// The connection.
    pub(crate) connection: u64,
    /// Whether it leads to the server.
    pub(crate) upwards: bool,
}

/// When the last message of each link arrives, so that none overtakes it.
#[derive(Debug, Default)]
pub(crate) struct Links {
    busy_until: BTreeMap<Link, u64>,
}

impl Links {
    /// When a message sent now over `link` arrives; nothing when it takes the connection down.
    pub(crate) fn arrival_ms(
        &mut self,
        now_ms: u64,
        link: Link,
        faults: &NetworkFaults,
        dice: &mut Prng,
    ) -> Option<u64> {
        if faults.break_per_100000 > 0 && dice.below(100_000) < faults.break_per_100000 {
            return None;
        }
        let mut way_ms = dice.between(faults.delay_ms_min, faults.delay_ms_max);
        if faults.slow_permille > 0 && dice.chance(faults.slow_permille) {
            way_ms = faults.delay_ms_max * 10;
        }
        let at_ms = (now_ms + way_ms).max(self.busy_until.get(&link).copied().unwrap_or(0));
        self.busy_until.insert(link, at_ms);
        Some(at_ms)
    }

    /// The connection is over.
    pub(crate) fn forget(&mut self, connection: u64) {
        self.busy_until.retain(|link, _| link.connection != connection);
    }
}
