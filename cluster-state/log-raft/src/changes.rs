//! Changes of members that are wished here, from the wish to its answer.

use crate::group::Group;
use crate::members;
use ohm_log::{ChangeRefusal, LogEvent, LogFailure, MemberChange, Refusal, SubmitError};
use ohm_stdx::bug::{Bug, is_planted};
use raft::eraftpb::{ConfChange, ConfChangeType, Entry};
use std::collections::VecDeque;

/// Changes that wait for an answer.
const CHANGES_MAX: usize = 16;

/// Changes of members that are wished, and the one that is proposed.
#[derive(Default)]
pub(crate) struct Changes {
    wished: VecDeque<(u64, MemberChange)>,
    proposed: Option<Proposed>,
}

/// A change that is in the log and waits to be committed.
struct Proposed {
    index: u64,
    term: u64,
    token: u64,
    member: u64,
}

impl Changes {
    /// Takes a wish for a change.
    pub(crate) fn wish(&mut self, token: u64, change: MemberChange) -> Result<(), SubmitError> {
        if self.wished.len() >= CHANGES_MAX {
            return Err(SubmitError::Busy { queued: self.wished.len() });
        }
        self.wished.push_back((token, change));
        Ok(())
    }

    /// Whether nothing waits to be proposed.
    pub(crate) fn is_idle(&self) -> bool {
        self.wished.is_empty()
    }

    /// Proposes what is wished, and promotes learners that have caught up.
    pub(crate) fn make(&mut self, group: &mut Group<'_>, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        while let Some((token, change)) = self.wished.pop_front() {
            if let Some(event) = self.propose(group, token, change)? {
                out.push(event);
            }
        }
        if group.leads()
            && !group.node.raft.has_pending_conf()
            && let Some(member) = group.learner_that_caught_up()
        {
            propose(group, &members::promotion(member))?;
        }
        Ok(())
    }

    /// Proposes one change; what comes back is its answer, if it has one already.
    fn propose(
        &mut self,
        group: &mut Group<'_>,
        token: u64,
        change: MemberChange,
    ) -> Result<Option<LogEvent>, LogFailure> {
        let refused = |reason: Refusal| Ok(Some(LogEvent::Refused { token, reason }));
        if !group.leads() {
            return refused(Refusal::NotLeader { leader: group.leader() });
        }
        let change = match change {
            MemberChange::Add { member, address, key } => {
                // Whoever asks has no log. One that never had one asks again because the answer was lost.
                if let Some(member) = group.membership.with_key(key) {
                    if group.had_log(member) && !is_planted(Bug::ReturnAmnesiac) {
                        return refused(ChangeRefusal::HadLog(member).into());
                    }
                    return Ok(Some(LogEvent::MembersChanged { token, member }));
                }
                let member = if member == 0 { group.membership.members().unused() } else { member };
                members::addition(member, address, key)
            }
            MemberChange::Promote { member } if group.membership.learners.contains(&member) => {
                if !group.has_caught_up(member) {
                    return refused(ChangeRefusal::Behind(member).into());
                }
                members::promotion(member)
            }
            MemberChange::Promote { member } => members::promotion(member),
            MemberChange::Remove { member } => members::removal(member),
        };
        if group.node.raft.has_pending_conf() {
            return refused(ChangeRefusal::Pending.into());
        }
        if let Err(reason) = group.membership.judge(&change) {
            return refused(reason.into());
        }
        let member = change.node_id;
        if change.get_change_type() == ConfChangeType::RemoveNode && group.membership.voters.contains(&member) {
            if !group.has_majority_without(member) {
                return refused(ChangeRefusal::MajorityLost(member).into());
            }
            if member == group.own {
                // A leader that removes itself would leave the others without one: another one leads first.
                group.transfer(None);
                return refused(Refusal::NotLeader { leader: None });
            }
        }
        let index = group.node.raft.raft_log.last_index() + 1;
        match propose(group, &change)? {
            true => {
                self.proposed = Some(Proposed { index, term: group.node.raft.term, token, member });
                Ok(None)
            }
            false => refused(Refusal::Overloaded),
        }
    }

    /// Answers the change that hoped for the place of `entry`, which is committed.
    pub(crate) fn answer(&mut self, entry: &Entry, refusal: Option<ChangeRefusal>, out: &mut Vec<LogEvent>) {
        let Some(Proposed { index, term, token, member }) = self.proposed.take_if(|own| own.index <= entry.index)
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

    /// Gives up the proposed change: a former leader does not learn what becomes of it.
    pub(crate) fn forget_proposed(&mut self, out: &mut Vec<LogEvent>) {
        out.extend(self.proposed.take().map(|change| LogEvent::Unknown { token: change.token }));
    }
}

/// Whether raft has taken the change.
fn propose(group: &mut Group<'_>, change: &ConfChange) -> Result<bool, LogFailure> {
    match group.node.propose_conf_change(Vec::new(), change.clone()) {
        Ok(()) => Ok(true),
        Err(raft::Error::ProposalDropped) => Ok(false),
        Err(error) => Err(LogFailure::Engine(error.to_string())),
    }
}
