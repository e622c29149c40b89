//! Who belongs to the group: as it stands in the log, and how it changes. One member at a time, never by joint
//! configurations: a change is one entry, in force on each copy as soon as that copy has applied it.

use crate::raft_log::RaftLog;
use ohm_log::{ChangeRefusal, Disk, LogEvent, LogFailure, MemberChange, Members, Refusal};
use ohm_stdx::codec;
use protobuf::Message as _;
use raft::StateRole;
use raft::eraftpb::{ConfChange, ConfChangeType, ConfState, Entry, EntryType};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A learner votes once it lacks at most this many entries.
const PROMOTION_GAP: u64 = 256;
/// Changes that wait for an answer.
const CHANGES_MAX: usize = 16;

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

/// A change of this member's that is in its log and waits to be committed.
pub(crate) struct Proposed {
    index: u64,
    term: u64,
    pub(crate) token: u64,
    member: u64,
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

    fn contains(&self, member: u64) -> bool {
        self.voters.contains(&member) || self.learners.contains(&member)
    }

    /// Whether `change` can be applied to these members; the same on every copy.
    fn judge(&self, change: &ConfChange) -> Result<(), ChangeRefusal> {
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
    fn apply(&mut self, change: &ConfChange) {
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

impl<D: Disk> RaftLog<D> {
    /// Who belongs to the group, as far as this copy has come.
    pub fn members(&self) -> Members {
        self.membership.members()
    }

    /// Whether nobody else is in the group.
    pub(crate) fn is_alone(&self) -> bool {
        self.membership.voters == [self.config.member] && self.membership.learners.is_empty()
    }

    /// Takes a wish for a change.
    pub(crate) fn wish_change(&mut self, token: u64, change: MemberChange) -> Result<(), ohm_log::SubmitError> {
        if self.changes.len() >= CHANGES_MAX {
            return Err(ohm_log::SubmitError::Busy { queued: self.changes.len() });
        }
        self.changes.push_back((token, change));
        Ok(())
    }

    /// Proposes what is wished, and promotes learners that have caught up.
    pub(crate) fn change_members(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        while let Some((token, change)) = self.changes.pop_front() {
            if let Some(event) = self.propose_change(token, change)? {
                out.push(event);
            }
        }
        if self.node.raft.state == StateRole::Leader
            && !self.node.raft.has_pending_conf()
            && let Some(member) = self.membership.learners.iter().copied().find(|member| self.has_caught_up(*member))
        {
            self.propose_conf_change(&change_of(ConfChangeType::AddNode, member, Introduction::default()))?;
        }
        Ok(())
    }

    /// Proposes one change; what comes back is its answer, if it has one already.
    fn propose_change(&mut self, token: u64, change: MemberChange) -> Result<Option<LogEvent>, LogFailure> {
        let refused = |reason: Refusal| Ok(Some(LogEvent::Refused { token, reason }));
        if self.node.raft.state != StateRole::Leader {
            return refused(Refusal::NotLeader { leader: self.leader_id() });
        }
        let change = match change {
            MemberChange::Add { member, address, key } => {
                let known = self.membership.added.iter().find(|(_, added)| added.key == key && key != 0);
                if let Some((member, _)) = known {
                    return Ok(Some(LogEvent::MembersChanged { token, member: *member }));
                }
                let member = if member == 0 { self.membership.members().unused() } else { member };
                change_of(ConfChangeType::AddLearnerNode, member, Introduction { address, key })
            }
            MemberChange::Promote { member } if self.membership.learners.contains(&member) => {
                if !self.has_caught_up(member) {
                    return refused(ChangeRefusal::Behind(member).into());
                }
                change_of(ConfChangeType::AddNode, member, Introduction::default())
            }
            MemberChange::Promote { member } => change_of(ConfChangeType::AddNode, member, Introduction::default()),
            MemberChange::Remove { member } => change_of(ConfChangeType::RemoveNode, member, Introduction::default()),
        };
        if self.node.raft.has_pending_conf() {
            return refused(ChangeRefusal::Pending.into());
        }
        if let Err(reason) = self.membership.judge(&change) {
            return refused(reason.into());
        }
        let member = change.node_id;
        if change.get_change_type() == ConfChangeType::RemoveNode && self.membership.voters.contains(&member) {
            if !self.has_majority_without(member) {
                return refused(ChangeRefusal::MajorityLost(member).into());
            }
            if member == self.config.member {
                // A leader that removes itself would leave the others without one: another one leads first.
                self.transfer(None);
                return refused(Refusal::NotLeader { leader: None });
            }
        }
        let index = self.node.raft.raft_log.last_index() + 1;
        match self.propose_conf_change(&change)? {
            true => {
                self.changing = Some(Proposed { index, term: self.node.raft.term, token, member });
                Ok(None)
            }
            false => refused(Refusal::Overloaded),
        }
    }

    fn propose_conf_change(&mut self, change: &ConfChange) -> Result<bool, LogFailure> {
        match self.node.propose_conf_change(Vec::new(), change.clone()) {
            Ok(()) => Ok(true),
            Err(raft::Error::ProposalDropped) => Ok(false),
            Err(error) => Err(LogFailure::Engine(error.to_string())),
        }
    }

    /// An entry that changes the members is committed. Like any other it is judged on every copy, with the same
    /// verdict.
    pub(crate) fn apply_change(&mut self, entry: &Entry, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let change = ConfChange::parse_from_carllerche_bytes(&entry.data)
            .map_err(|error| LogFailure::Engine(format!("entry {}: {error}", entry.index)))?;
        let judged = self.membership.judge(&change);
        if judged.is_ok() {
            self.node.apply_conf_change(&change).map_err(|error| LogFailure::Engine(error.to_string()))?;
            self.membership.apply(&change);
            self.transfers.forget(change.node_id, &self.membership);
        }
        self.answer_change(entry, judged.err(), out);
        if judged.is_ok() {
            out.push(LogEvent::Members(self.membership.members()));
            if self.membership.is_removed(self.config.member) {
                return Err(LogFailure::Removed { member: self.config.member });
            }
        }
        Ok(())
    }

    /// Answers the change that hoped for the place of `entry`, which is committed.
    pub(crate) fn answer_change(&mut self, entry: &Entry, refusal: Option<ChangeRefusal>, out: &mut Vec<LogEvent>) {
        let Some(Proposed { index, term, token, member }) = self.changing.take_if(|own| own.index <= entry.index)
        else {
            return;
        };
        // Raft puts an empty entry in the place of a change that comes while another one is pending.
        let there = (index, term) == (entry.index, entry.term) && !entry.data.is_empty();
        out.push(match (there, refusal) {
            (true, None) => LogEvent::MembersChanged { token, member },
            (true, Some(reason)) => LogEvent::Refused { token, reason: reason.into() },
            (false, _) => LogEvent::Refused { token, reason: Refusal::Superseded },
        });
    }

    /// Lets `to` lead, or the voter that is furthest of those that were heard of lately.
    pub(crate) fn transfer(&mut self, to: Option<u64>) {
        if self.node.raft.state != StateRole::Leader {
            return;
        }
        let progress = |member: u64| self.node.raft.prs().get(member).map_or(0, |progress| progress.matched);
        let others = self.membership.voters.iter().copied().filter(|voter| *voter != self.config.member);
        let furthest = others.filter(|voter| self.was_heard(*voter)).max_by_key(|voter| progress(*voter));
        if let Some(member) = to.or(furthest) {
            self.node.transfer_leader(member);
        }
    }

    fn has_caught_up(&self, member: u64) -> bool {
        let last = self.node.raft.raft_log.last_index();
        let matched = self.node.raft.prs().get(member).map_or(0, |progress| progress.matched);
        matched > 0 && matched + PROMOTION_GAP >= last && self.was_heard(member)
    }

    /// Whether `member` said something within the longest election time-out.
    fn was_heard(&self, member: u64) -> bool {
        let patience_ms = 2 * self.config.election_ticks as u64 * self.config.tick_ms;
        self.inbox.heard_ms(member).is_some_and(|heard_ms| heard_ms + patience_ms >= self.now_ms)
    }

    fn has_majority_without(&self, member: u64) -> bool {
        let left = self.membership.voters.iter().copied().filter(|voter| *voter != member);
        let (all, heard) = left.fold((0, 0), |(all, heard), voter| {
            (all + 1, heard + usize::from(voter == self.config.member || self.was_heard(voter)))
        });
        heard * 2 > all
    }
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
