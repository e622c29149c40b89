//! Who belongs to the group of an engine that has one.

use std::collections::BTreeMap;

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those whose majority commits, ascending.
    pub voters: Vec<u64>,
    /// Those that receive everything and do not vote (yet), ascending.
    pub learners: Vec<u64>,
    /// Those that were removed, ascending. Their numbers are never used again: a member that comes back with an empty
    /// disk could vote against what it has acknowledged.
    pub removed: Vec<u64>,
    /// Where members said they listen when they were added. Founders are not in here.
    pub addresses: BTreeMap<u64, String>,
}

impl Members {
    /// Voters and learners.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    /// Whether `member` votes or learns.
    pub fn contains(&self, member: u64) -> bool {
        self.all().any(|known| known == member)
    }

    /// A number that was never used.
    pub fn unused(&self) -> u64 {
        self.all().chain(self.removed.iter().copied()).max().unwrap_or(0) + 1
    }
}

/// A change of the members. One at a time is possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new member learns first and votes as soon as it has caught up.
    Add {
        /// Its number, never used before; 0 lets the leader choose.
        member: u64,
        /// Where it listens.
        address: String,
        /// Drawn by the new member: a repeated change with the same key is answered with the same member, as long as
        /// that one had no log.
        key: u64,
    },
    /// A learner that has caught up votes from now on. The leader does this by itself.
    Promote {
        /// The learner.
        member: u64,
    },
    /// A member takes part no more.
    Remove {
        /// The member.
        member: u64,
    },
}

/// Why the members stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// One at a time.
    #[error("another change of members is under way; wait until it is done, then ask again")]
    Pending,
    /// It never belonged to the group, or does not any more.
    #[error("{0} is no member of this cell; `ohm server members list` shows who is")]
    NoMember(u64),
    /// Numbers are used once.
    #[error("number {0} is or was a member of this cell; numbers are never used again, take another one")]
    Used(u64),
    /// Whoever asks to be added has no log, and the member that its key names had one.
    #[error(
        "this server was number {0} and its log is gone, and with it how it voted and what it acknowledged: it never comes \
         back under that number. Say `ohm server members remove {0}`, then start it again: it joins under a new one"
    )]
    HadLog(u64),
    /// It has not received all entries yet.
    #[error("{0} has not caught up yet; it votes as soon as it has")]
    Behind(u64),
    /// It votes already.
    #[error("{0} votes already")]
    VotesAlready(u64),
    /// Nobody would be left.
    #[error("{0} is the last voter; a cell needs one")]
    LastVoter(u64),
    /// Without the others that are silent now, nothing could be committed any more.
    #[error(
        "without {0} the servers that answer now would be no majority; bring one back first (or see `ohm server recover`)"
    )]
    MajorityLost(u64),
    /// The engine has no members.
    #[error("this engine has no members of its own")]
    NotHere,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_used_again() {
        let members = Members { voters: vec![1, 3], learners: vec![4], removed: vec![2, 7], ..Members::default() };
        assert_eq!((members.unused(), Members::default().unused()), (8, 1));
        assert!(members.contains(4) && !members.contains(7));
    }
}
