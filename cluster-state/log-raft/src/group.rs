//! The group as one member sees it: how far the others are, and who of them was heard of lately.

use crate::inbox::Inbox;
use crate::members::Membership;
use crate::storage::Durable;
use raft::{RawNode, StateRole};

/// A learner votes once it lacks at most this many entries.
const PROMOTION_GAP: u64 = 256;

/// What this member knows of the others at one moment.
pub(crate) struct Group<'g> {
    /// Its raft.
    pub(crate) node: &'g mut RawNode<Durable>,
    /// Who belongs to the group.
    pub(crate) membership: &'g Membership,
    inbox: &'g Inbox,
    /// This member.
    pub(crate) own: u64,
    now_ms: u64,
}

impl<'g> Group<'g> {
    pub(crate) fn new(
        node: &'g mut RawNode<Durable>,
        membership: &'g Membership,
        inbox: &'g Inbox,
        own: u64,
        now_ms: u64,
    ) -> Self {
        Group { node, membership, inbox, own, now_ms }
    }

    /// Whether this member leads.
    pub(crate) fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// The member that leads, if one is known.
    pub(crate) fn leader(&self) -> Option<u64> {
        Some(self.node.raft.leader_id).filter(|leader| *leader != raft::INVALID_ID)
    }

    /// Lets `to` lead, or the voter that is furthest of those that were heard of lately.
    pub(crate) fn transfer(&mut self, to: Option<u64>) {
        if !self.leads() {
            return;
        }
        let others = self.membership.voters.iter().copied().filter(|voter| *voter != self.own);
        let furthest = others.filter(|voter| self.was_heard(*voter)).max_by_key(|voter| self.matched(*voter));
        if let Some(member) = to.or(furthest) {
            self.node.transfer_leader(member);
        }
    }

    /// A learner that may vote now.
    pub(crate) fn learner_that_caught_up(&self) -> Option<u64> {
        self.membership.learners.iter().copied().find(|member| self.has_caught_up(*member))
    }

    /// Whether `member` lacks little enough to vote.
    pub(crate) fn has_caught_up(&self, member: u64) -> bool {
        let (last, matched) = (self.node.raft.raft_log.last_index(), self.matched(member));
        matched > 0 && matched + PROMOTION_GAP >= last && self.was_heard(member)
    }

    /// Whether `member` surely had a log: it voted, or this leader knows of entries in it.
    pub(crate) fn had_log(&self, member: u64) -> bool {
        self.membership.voters.contains(&member) || self.matched(member) > 0
    }

    /// Whether a majority of the other voters was heard of lately.
    pub(crate) fn has_majority_without(&self, member: u64) -> bool {
        let left = self.membership.voters.iter().copied().filter(|voter| *voter != member);
        let (all, heard) = left.fold((0, 0), |(all, heard), voter| {
            (all + 1, heard + usize::from(voter == self.own || self.was_heard(voter)))
        });
        heard * 2 > all
    }

    fn matched(&self, member: u64) -> u64 {
        self.node.raft.prs().get(member).map_or(0, |progress| progress.matched)
    }

    fn was_heard(&self, member: u64) -> bool {
        self.inbox.was_heard(member, self.now_ms)
    }
}
