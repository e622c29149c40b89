//! Who belongs to the group, as it stands in the log. One member changes at a time, never by joint configurations: a
//! change is one entry, in force on each copy as soon as that copy has applied it.

use ohm_log::{ChangeRefusal, Members};
use ohm_stdx::codec;
use protobuf::Message as _;
use raft::eraftpb::{ConfChange, ConfChangeType, ConfState, Entry, EntryType};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The members, as the log has them at some index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) voters: Vec<u64>,
    pub(crate) learners: Vec<u64>,
    removed: Vec<u64>,
    added: BTreeMap<u64, Introduction>,
}

/// How a member introduced itself when it was added; travels in the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Introduction {
    address: String,
    key: u64,
}

impl Membership {
    pub(crate) fn founded(founders: &[u64]) -> Self {
        Membership { voters: founders.to_vec(), ..Membership::default() }
    }

    pub(crate) fn conf_state(&self) -> ConfState {
        (self.voters.clone(), self.learners.clone()).into()
    }

    pub(crate) fn is_removed(&self, member: u64) -> bool {
        self.removed.binary_search(&member).is_ok()
    }

    /// For those outside.
    pub(crate) fn members(&self) -> Members {
        let address = |(member, added): (&u64, &Introduction)| (*member, added.address.clone());
        Members {
            voters: self.voters.clone(),
            learners: self.learners.clone(),
            removed: self.removed.clone(),
            addresses: self.added.iter().map(address).collect(),
        }
    }

    /// Applies the change in `entry`, if it holds one.
    pub(crate) fn replay(&mut self, entry: &Entry) {
        if entry.get_entry_type() == EntryType::EntryConfChange
            && let Ok(change) = ConfChange::parse_from_carllerche_bytes(&entry.data)
            && self.judge(&change).is_ok()
        {
            self.apply(&change);
        }
    }

    /// The member that introduced itself with `key`; 0 is nobody's.
    pub(crate) fn with_key(&self, key: u64) -> Option<u64> {
        self.added.iter().find(|(_, added)| added.key == key && key != 0).map(|(member, _)| *member)
    }

    /// Whether `member` is the only one.
    pub(crate) fn is_only(&self, member: u64) -> bool {
        self.voters == [member] && self.learners.is_empty()
    }

    fn contains(&self, member: u64) -> bool {
        self.voters.contains(&member) || self.learners.contains(&member)
    }

    /// Whether `change` can be applied to these members; the same on every copy.
    pub(crate) fn judge(&self, change: &ConfChange) -> Result<(), ChangeRefusal> {
        let member = change.node_id;
        match change.get_change_type() {
            ConfChangeType::AddLearnerNode if self.contains(member) || self.is_removed(member) => {
                Err(ChangeRefusal::Used(member))
            }
            ConfChangeType::AddLearnerNode => Ok(()),
            ConfChangeType::AddNode if self.voters.contains(&member) => Err(ChangeRefusal::VotesAlready(member)),
            ConfChangeType::AddNode | ConfChangeType::RemoveNode if !self.contains(member) => {
                Err(ChangeRefusal::NoMember(member))
            }
            ConfChangeType::AddNode => Ok(()),
            ConfChangeType::RemoveNode if self.voters == [member] => Err(ChangeRefusal::LastVoter(member)),
            ConfChangeType::RemoveNode => Ok(()),
        }
    }

    /// Applies a change that was judged.
    pub(crate) fn apply(&mut self, change: &ConfChange) {
        let member = change.node_id;
        self.voters.retain(|known| *known != member);
        self.learners.retain(|known| *known != member);
        let list = match change.get_change_type() {
            ConfChangeType::AddNode => &mut self.voters,
            ConfChangeType::AddLearnerNode => {
                let introduction = codec::decode(&change.context).unwrap_or_default();
                self.added.insert(member, introduction);
                &mut self.learners
            }
            ConfChangeType::RemoveNode => {
                self.added.remove(&member);
                &mut self.removed
            }
        };
        list.push(member);
        list.sort_unstable();
    }
}

/// The change that adds a member, which learns before it votes.
pub(crate) fn addition(member: u64, address: String, key: u64) -> ConfChange {
    change_of(ConfChangeType::AddLearnerNode, member, Introduction { address, key })
}

/// The change that lets a learner vote.
pub(crate) fn promotion(member: u64) -> ConfChange {
    change_of(ConfChangeType::AddNode, member, Introduction::default())
}

/// The change that removes a member.
pub(crate) fn removal(member: u64) -> ConfChange {
    change_of(ConfChangeType::RemoveNode, member, Introduction::default())
}

fn change_of(kind: ConfChangeType, member: u64, introduction: Introduction) -> ConfChange {
    let mut change = ConfChange { node_id: member, ..ConfChange::default() };
    change.set_change_type(kind);
    if kind == ConfChangeType::AddLearnerNode {
        change.context = codec::encode(&introduction).into();
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ConfChangeType, member: u64) -> ConfChange {
        change_of(kind, member, Introduction { address: "http://there".into(), key: 5 })
    }

    #[test]
    fn changes_are_judged_by_what_stands() {
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
        let mut membership = Membership::founded(&[1, 2]);
        let mut apply = |kind, member| {
            let change = change(kind, member);
            let judged = membership.judge(&change);
            if judged.is_ok() {
                membership.apply(&change);
            }
            judged
        };
        assert_eq!(apply(AddNode, 3), Err(ChangeRefusal::NoMember(3)));
        assert_eq!(apply(AddLearnerNode, 2), Err(ChangeRefusal::Used(2)));
        assert_eq!(apply(AddLearnerNode, 3), Ok(()));
        assert_eq!(apply(AddNode, 3), Ok(()));
        assert_eq!(apply(AddNode, 3), Err(ChangeRefusal::VotesAlready(3)));
        assert_eq!(apply(RemoveNode, 2), Ok(()));
        assert_eq!(apply(AddLearnerNode, 2), Err(ChangeRefusal::Used(2)), "numbers are used once");
        assert_eq!(apply(RemoveNode, 1), Ok(()));
        assert_eq!(apply(RemoveNode, 3), Err(ChangeRefusal::LastVoter(3)));
        let members = membership.members();
        assert_eq!((members.voters.clone(), members.removed.clone()), (vec![3], vec![1, 2]));
        assert_eq!(members.addresses[&3], "http://there");
    }
}
