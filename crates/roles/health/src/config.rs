//! How patient the health duty is. Equal for all candidates of a cell.

use ohm_model::{ShortNodeLease, TakeOver};
use ohm_stdx::bug::{self, Bug};

/// Times and bounds of the health duty.
#[derive(Clone, Debug)]
pub struct HealthConfig {
    /// How long a node may go on after the sending of its last answered beat, in a cell whose beats are not stretched.
    pub node_lease_ms: u64,
    /// How long the lease of the duty itself lasts.
    pub duty_lease_ms: u64,
    /// An unanswered command is sent again after this long.
    pub resend_ms: u64,
    /// Between two beats, in a cell whose beats are not stretched.
    pub beat_interval_ms: u64,
    /// The interval is stretched so that the cell sends at most this many beats per second.
    pub beats_per_second_max: u64,
    /// A node is suspect after this many missed beats.
    pub missed_beats: u64,
    /// Drift of the clocks, as a share of the lease.
    pub margin_permille: u64,
    /// The rest of the margin.
    pub margin_ms: u64,
    /// The brake: from how many watched nodes on.
    pub brake_nodes_min: usize,
    /// The brake: when more than this share of the watched nodes is missing at once.
    pub brake_permille: u64,
    /// The brake: for how long at most.
    pub brake_ms: u64,
    /// What is lost within this time is concluded together.
    pub gather_ms: u64,
    /// A conclusion that does not show in the own copy is repeated after this long.
    pub retry_ms: u64,
    /// Who holds the duty and hears of no node at all for so long looks for another way to the servers; again after
    /// twice as long.
    pub deaf_ms: u64,
    /// Most conclusions in one step; the others follow with the next.
    pub conclusions_max: usize,
}

impl Default for HealthConfig {
    fn default() -> Self {
        HealthConfig {
            node_lease_ms: 30_000,
            duty_lease_ms: 4_000,
            resend_ms: 500,
            beat_interval_ms: 1000,
            beats_per_second_max: 5000,
            missed_beats: 3,
            margin_permille: 20,
            margin_ms: 500,
            brake_nodes_min: 20,
            brake_permille: 300,
            brake_ms: 30_000,
            gather_ms: 200,
            retry_ms: 1000,
            deaf_ms: 3000,
            conclusions_max: 4096,
        }
    }
}

/// Times as they follow from the configuration and the size of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) interval_ms: u64,
    pub(crate) lease_ms: u64,
    /// Silence after which a node is suspect.
    pub(crate) suspect_ms: u64,
    /// Silence after which it is lost.
    pub(crate) lost_ms: u64,
}

impl HealthConfig {
    /// Whether tasks outlive the end of whoever holds the duty.
    ///
    /// # Errors
    /// When the node lease is too short for that.
    pub fn check(&self) -> Result<(), ShortNodeLease> {
        self.take_over(self.beat_interval_ms).check(self.node_lease_ms)
    }

    /// How the duty changes hands in a cell whose nodes beat so often.
    pub(crate) fn take_over(&self, beat_interval_ms: u64) -> TakeOver {
        TakeOver { duty_lease_ms: self.duty_lease_ms, resend_ms: self.resend_ms, beat_interval_ms }
    }

    /// The times for a cell whose leases are bounded by `bound_ms` in its log: none may be granted that is longer, and
    /// nobody is lost before the longest that may be in force has run out.
    pub(crate) fn bounded(&self, slots: u32, bound_ms: u64) -> Timing {
        let wished = self.timing(slots);
        let longest_ms = wished.lease_ms.max(bound_ms);
        let early = bug::is_planted(Bug::EarlyLoss);
        let unbound = bug::is_planted(Bug::UnboundLease);
        let lost_ms = if early { longest_ms / 4 } else { longest_ms.saturating_add(self.margin_ms(longest_ms)) };
        Timing {
            lease_ms: if unbound { wished.lease_ms } else { wished.lease_ms.min(bound_ms) },
            lost_ms,
            suspect_ms: wished.suspect_ms.min(lost_ms),
            ..wished
        }
    }

    fn margin_ms(&self, lease_ms: u64) -> u64 {
        lease_ms.saturating_mul(self.margin_permille) / 1000 + self.margin_ms
    }

    /// The times that are wished for in a cell that has ever used `slots` node slots; that number never falls.
    pub(crate) fn timing(&self, slots: u32) -> Timing {
        let stretched_ms = (u64::from(slots) * 1000).div_ceil(self.beats_per_second_max.max(1));
        let interval_ms = self.beat_interval_ms.max(stretched_ms).max(1);
        let lease_ms = self.node_lease_ms.max(self.take_over(interval_ms).node_lease_ms_min());
        // Half an interval more: the beat that is just due has not been missed.
        let suspect_ms = interval_ms.saturating_mul(self.missed_beats) + interval_ms / 2;
        let lost_ms = lease_ms.saturating_add(self.margin_ms(lease_ms));
        Timing { interval_ms, lease_ms, suspect_ms: suspect_ms.min(lost_ms), lost_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_cell_beats_slower_and_its_leases_last_longer() {
        let config = HealthConfig::default();
        let small = config.timing(5000);
        assert_eq!((small.interval_ms, small.lease_ms, small.suspect_ms, small.lost_ms), (1000, 30_000, 3500, 31_100));
        let large = config.timing(100_000);
        assert_eq!((large.interval_ms, large.lease_ms, large.suspect_ms), (20_000, 85_400, 70_000));
        assert!(
            (1..200_000).step_by(777).all(|slots| config.timing(slots).lease_ms <= config.timing(slots + 1).lease_ms)
        );
    }
}
