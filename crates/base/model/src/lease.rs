//! Leases of duties and shards. They hold no time: see the cell's lease rules.

use crate::class::Class;
use ohm_stdx::hash;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How many shards the work of one class is cut into. A power of two, more than the replicas anybody runs.
pub const SHARDS_PER_CLASS: u16 = 16;

/// A part of the work of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// The class of work.
    pub class: Class,
    /// 0 to [`SHARDS_PER_CLASS`] − 1.
    pub number: u16,
}

impl Shard {
    /// The shard of a job, by its name: all replicas of a class share the work of one queue.
    pub fn of(class: Class, job: &str) -> Self {
        let number = hash::mix(hash::bytes(job.as_bytes())) % u64::from(SHARDS_PER_CLASS);
        Shard { class, number: number as u16 }
    }
}

/// What can be held by one session at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lease {
    /// The right to conclude about nodes.
    Health,
    /// The right to place the jobs of a shard.
    Shard(Shard),
    /// The right to ask for nodes and to say what came of it.
    Provisioning,
}

/// What the process behind a session does; shown to people, and used to share out the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A server, on behalf of the people and agents that talk to it.
    Server,
    /// A scheduler replica of a class.
    Scheduler(Class),
    /// A candidate for the health duty.
    Health,
    /// Anything else.
    Client,
    /// A candidate for the provisioning duty.
    Provisioner,
}

/// How much longer than a lease a candidate waits before it takes it: above twice the drift of a clock over the lease.
pub fn lease_margin_ms(lease_ms: u64) -> u64 {
    lease_ms / 10
}

/// The times that say for how long no beat is answered when the health duty goes to another process, and so how short a
/// node lease may be. Equal for all candidates of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOver {
    /// How long the lease of the duty lasts.
    pub duty_lease_ms: u64,
    /// An unanswered command of a candidate is sent again after this long.
    pub resend_ms: u64,
    /// Between two beats of a node.
    pub beat_interval_ms: u64,
}

/// Beats that a node lease must hold while the duty changes hands: the one that was lost with the holder, the one that
/// meets the next holder, and two before the end of the lease, when the fence may begin to end tasks.
const BEATS_PER_TAKE_OVER: u64 = 4;

impl TakeOver {
    /// The shortest node lease with which no task ends because the holder of the duty does.
    ///
    /// ```text
    ///  beat answered   holder dies                    taken over     answered again       fence    lease ends
    ///   ├── one beat ───┼── duty lease + margin + way ───┼── one beat ───┼ … ──────────────┼─ two beats ─┤
    /// ```
    /// The holder dies just before it answers a beat, and just after it renewed its lease. Another candidate waits for
    /// that lease and its margin. Its command may be lost once, and the way of command, beat and answer takes as long.
    pub fn node_lease_ms_min(&self) -> u64 {
        let beats_ms = self.beat_interval_ms.saturating_mul(BEATS_PER_TAKE_OVER);
        self.silence_ms().saturating_add(beats_ms)
    }

    /// From the end of a holder to the moment the next one answers, at most.
    fn silence_ms(&self) -> u64 {
        self.duty_lease_ms.saturating_add(lease_margin_ms(self.duty_lease_ms)).saturating_add(self.way_ms())
    }

    fn way_ms(&self) -> u64 {
        self.resend_ms.saturating_mul(2)
    }

    /// Whether a node lease of `node_lease_ms` outlasts the duty changing hands.
    ///
    /// # Errors
    /// Says the shortest that does, and why.
    pub fn check(&self, node_lease_ms: u64) -> Result<(), ShortNodeLease> {
        if node_lease_ms < self.node_lease_ms_min() {
            return Err(ShortNodeLease { node_lease_ms, take_over: *self });
        }
        Ok(())
    }
}

/// A node lease that would run out while the health duty changes hands, so that one dead process would end tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a node lease of {node_lease_ms} ms may end while the health duty goes to another process, and tasks would end with \
     it; {min} ms are the least: {duty} of the duty's lease and {margin} more until it is taken, {way} on the way, and \
     four beats of {beat}. A shorter lease of the duty allows a shorter one",
    min = take_over.node_lease_ms_min(),
    duty = take_over.duty_lease_ms,
    margin = lease_margin_ms(take_over.duty_lease_ms),
    way = take_over.way_ms(),
    beat = take_over.beat_interval_ms
)]
pub struct ShortNodeLease {
    /// The lease that was asked for.
    pub node_lease_ms: u64,
    /// What it has to outlast.
    pub take_over: TakeOver,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_node_lease_follows_the_times_of_the_duty() {
        let take_over = TakeOver { duty_lease_ms: 4_000, resend_ms: 500, beat_interval_ms: 1_000 };
        assert_eq!(take_over.node_lease_ms_min(), 9_400);
        assert_eq!(take_over.check(9_400), Ok(()));
        let refused = take_over.check(9_399).unwrap_err().to_string();
        for part in ["9399 ms", "9400 ms are the least", "4000 of the duty's lease and 400 more", "beats of 1000"] {
            assert!(refused.contains(part), "{refused}");
        }
        let short = TakeOver { duty_lease_ms: 1_000, resend_ms: 100, beat_interval_ms: 250 };
        assert_eq!(short.node_lease_ms_min(), 2_300);
        let endless = TakeOver { duty_lease_ms: u64::MAX, resend_ms: u64::MAX, beat_interval_ms: u64::MAX };
        assert_eq!(endless.node_lease_ms_min(), u64::MAX);
    }
}
