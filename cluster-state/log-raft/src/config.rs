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
    /// All voting members, this one included, ascending.
    pub voters: Vec<u64>,
    /// How long a tick is, in milliseconds.
    pub tick_ms: u64,
    /// Ticks between the heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// Ticks without a quorum after which a leader steps down; at most `election_ticks`.
    pub quorum_ticks: usize,
    /// Ticks without a leader after which this member stands for election. Each member needs another number: that is
    /// what keeps two of them from standing at once, and no dice are involved.
    pub election_ticks: usize,
    /// A segment of the write-ahead log is closed once it has this many bytes.
    pub segment_bytes: u64,
    /// Appends that may wait to be proposed, and again that many that wait to be committed.
    pub queue_entries: usize,
    /// Bytes that may wait to be proposed, and again that many that wait to be committed.
    pub queue_bytes: usize,
    /// Messages from other members that may wait.
    pub queue_messages: usize,
    /// Bytes of entries in one message, and in one batch that is yielded.
    pub batch_bytes: u64,
}

impl RaftConfig {
    /// One member that is its own majority.
    pub fn single(cell: u64, member: u64) -> Self {
        Self::group(cell, member, vec![member])
    }

    /// A member of a group. Election takes 1 s and 0.2 s more for each voter that comes before this one.
    pub fn group(cell: u64, member: u64, mut voters: Vec<u64>) -> Self {
        voters.sort_unstable();
        let rank = voters.iter().position(|voter| *voter == member).unwrap_or(0);
        RaftConfig {
            cell,
            member,
            voters,
            tick_ms: 100,
            heartbeat_ticks: 2,
            quorum_ticks: 10,
            election_ticks: 10 + 2 * rank,
            segment_bytes: 64 << 20,
            queue_entries: 4096,
            queue_bytes: 64 << 20,
            queue_messages: 4096,
            batch_bytes: 4 << 20,
        }
    }

    /// Says what cannot work.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let wrong = |reason: String| Err(OpenError::Configuration(reason));
        if self.member == 0 || self.voters.contains(&0) {
            return wrong("0 is no member; number them from 1".into());
        }
        if self.voters.len() > VOTERS_MAX || !self.voters.contains(&self.member) {
            return wrong(format!(
                "{:?} must be 1 to {VOTERS_MAX} voters and name this member, {}",
                self.voters, self.member
            ));
        }
        if self.voters.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong(format!("voters {:?} must be ascending and distinct", self.voters));
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
            election_tick: self.quorum_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            // A range of one tick leaves its thread-local dice nothing to decide.
            min_election_tick: self.election_ticks,
            max_election_tick: self.election_ticks + 1,
            max_size_per_msg: self.batch_bytes,
            max_inflight_msgs: 64,
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
        assert_ne!(good.election_ticks, RaftConfig::group(1, 3, vec![1, 2, 3]).election_ticks);
        for wrong in [
            RaftConfig { member: 0, ..good.clone() },
            RaftConfig { member: 9, ..good.clone() },
            RaftConfig { voters: vec![2, 2, 3], ..good.clone() },
            RaftConfig { tick_ms: 0, ..good.clone() },
            RaftConfig { queue_bytes: 10, ..good.clone() },
            RaftConfig { heartbeat_ticks: 10, ..good.clone() },
            RaftConfig { election_ticks: 9, ..good },
        ] {
            assert!(matches!(wrong.check(), Err(OpenError::Configuration(_))), "{wrong:?}");
        }
    }
}
