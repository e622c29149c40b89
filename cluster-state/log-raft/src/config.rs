//! What a member needs to know.

use crate::error::OpenError;

/// The most voters that a group may have.
const VOTERS_MAX: usize = 9;

/// The configuration of one member of a raft group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftConfig {
    /// The cell, a random number that tells the members of different cells apart.
    pub cell: u64,
    /// This member; not 0.
    pub member: u64,
    /// The voters that the cell was created with, ascending: the same on every member for ever, also on those that
    /// joined later. Who votes now is in the log.
    pub founders: Vec<u64>,
    /// What election time-outs are drawn from. Each start of each member needs another one; in simulation it comes from
    /// the seed of the run, so that a run can be repeated.
    pub seed: u64,
    /// How long a tick is, in milliseconds.
    pub tick_ms: u64,
    /// Ticks between the heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// Ticks without a majority after which a leader steps down, and ticks without a leader after which a member stands
    /// for election: this many up to twice as many, drawn anew each time.
    pub election_ticks: usize,
    /// A segment of the write-ahead log is closed once it has this many bytes.
    pub segment_bytes: u64,
    /// Appends that may wait to be proposed, and again that many that wait to be committed.
    pub queue_entries: usize,
    /// Bytes that may wait to be proposed, and again that many that wait to be committed.
    pub queue_bytes: usize,
    /// Messages from other members that may wait.
    pub queue_messages: usize,
    /// Bytes of entries in one message, and in one batch that is yielded; also the length of a piece of a snapshot on
    /// its way to another member.
    pub batch_bytes: u64,
}

impl RaftConfig {
    /// One member that is its own majority.
    pub fn single(cell: u64, member: u64) -> Self {
        Self::group(cell, member, vec![member])
    }

    /// A member of a group with these founders, of which it need not be one. A new leader is elected 0.6 to 1.2 s after
    /// the old one fell silent.
    pub fn group(cell: u64, member: u64, mut founders: Vec<u64>) -> Self {
        founders.sort_unstable();
        RaftConfig {
            cell,
            member,
            founders,
            seed: member,
            tick_ms: 50,
            heartbeat_ticks: 2,
            election_ticks: 12,
            segment_bytes: 64 << 20,
            queue_entries: 4096,
            queue_bytes: 64 << 20,
            queue_messages: 4096,
            batch_bytes: 2 << 20,
        }
    }

    /// Says what cannot work.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let wrong = |reason: String| Err(OpenError::Configuration(reason));
        if self.member == 0 || self.founders.contains(&0) {
            return wrong("0 is no member; number them from 1".into());
        }
        if self.founders.is_empty() || self.founders.len() > VOTERS_MAX {
            return wrong(format!("{:?} must be 1 to {VOTERS_MAX} founders", self.founders));
        }
        if self.founders.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong(format!("founders {:?} must be ascending and distinct", self.founders));
        }
        if self.tick_ms == 0 || self.segment_bytes == 0 || self.queue_entries == 0 || self.batch_bytes == 0 {
            return wrong("tick_ms, segment_bytes, queue_entries and batch_bytes must be above 0".into());
        }
        if self.queue_bytes < ohm_log::ENTRY_BYTES_MAX || self.queue_messages == 0 {
            return wrong(format!("queue_bytes must be at least {}, and queue_messages 1", ohm_log::ENTRY_BYTES_MAX));
        }
        self.raft(0).validate().map_err(|error| OpenError::Configuration(error.to_string()))
    }

    /// The same in the words of the raft crate, with nothing left to its unsafe defaults.
    pub(crate) fn raft(&self, applied: u64) -> raft::Config {
        raft::Config {
            id: self.member,
            applied,
            election_tick: self.election_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            // What its thread-local dice draw from this range is replaced before each tick; see `RaftLog::tick`.
            min_election_tick: self.election_ticks,
            max_election_tick: 2 * self.election_ticks,
            max_size_per_msg: self.batch_bytes,
            max_inflight_msgs: 32,
            max_uncommitted_size: (self.queue_bytes as u64).max(self.batch_bytes),
            max_committed_size_per_ready: self.batch_bytes,
            check_quorum: true,
            pre_vote: true,
            read_only_option: raft::ReadOnlyOption::Safe,
            skip_bcast_commit: false,
            // Joins entries to a waiting empty message even when that one is of another place in the log. Appends are
            // proposed in batches here, so there is little to join.
            batch_append: false,
            priority: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_said() {
        RaftConfig::single(1, 1).check().unwrap();
        RaftConfig::group(1, 3, vec![3, 1, 2]).check().unwrap();
        let good = RaftConfig::group(1, 2, vec![1, 2, 3]);
        RaftConfig { member: 9, ..good.clone() }.check().unwrap();
        for wrong in [
            RaftConfig { member: 0, ..good.clone() },
            RaftConfig { founders: vec![2, 2, 3], ..good.clone() },
            RaftConfig { founders: Vec::new(), ..good.clone() },
            RaftConfig { tick_ms: 0, ..good.clone() },
            RaftConfig { queue_bytes: 10, ..good.clone() },
            RaftConfig { heartbeat_ticks: 12, ..good.clone() },
            RaftConfig { election_ticks: 1, ..good },
        ] {
            assert!(matches!(wrong.check(), Err(OpenError::Configuration(_))), "{wrong:?}");
        }
    }
}
