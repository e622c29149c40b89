//! Sessions make commands happen exactly once; leases give one session at a time a duty or a shard.

use ohm_model::{Envelope, Epoch, Index, Lease, Outcome, Refusal, Role, Sequence, SessionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many answers a session may leave unacknowledged.
pub const ANSWERS_MAX: usize = 1024;
/// A session that did not speak for this long, in stamped time, is forgotten. Leases it held stay as they are: whoever
/// takes one still waits by its own clock.
pub const SESSION_TTL_MS: u64 = 3_600_000;

/// One process's conversation with the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Drawn by the process, so that a retried opening finds the same session.
    pub nonce: u64,
    /// What the process does.
    pub role: Role,
    /// For people.
    pub name: String,
    /// The last entry in which it renewed itself.
    pub renewed: Index,
    /// Stamped time of the last entry in which it spoke.
    pub spoke_ms: u64,
    /// Answers below this sequence are forgotten.
    pub done_below: Sequence,
    /// Written apart, a few at a time: answers may be large.
    #[serde(skip)]
    answers: BTreeMap<Sequence, Outcome>,
}

/// Who holds a lease, and what proves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseState {
    /// The holder; nothing after a release.
    pub holder: Option<SessionId>,
    /// How often the lease has changed hands.
    pub epoch: Epoch,
    /// The holder's last renewal.
    pub renewed: Index,
}

/// All sessions and leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    sessions: BTreeMap<SessionId, Arc<Session>>,
    leases: BTreeMap<Lease, LeaseState>,
    opened: u64,
}

/// What to do with a command that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new: apply it, then remember its outcome.
    Fresh,
    /// It was answered before: this is the answer.
    Known(Outcome),
}

impl Sessions {
    /// The session called `session`, while it is open.
    pub fn get(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session).map(Arc::as_ref)
    }

    /// Whether the replica of this session has started anew: a later session has its role and its name. The leases of
    /// the former are as good as free. Should both processes live after all, the epochs of their leases keep them
    /// apart.
    pub fn is_superseded(&self, session: SessionId) -> bool {
        let Some(former) = self.sessions.get(&session) else { return false };
        let mut later = self.sessions.range(session..).skip(1);
        later.any(|(_, later)| later.role == former.role && later.name == former.name)
    }

    /// All open sessions.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session.as_ref()))
    }

    /// All answers that are kept, for snapshots.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (SessionId, Sequence, &Outcome)> {
        self.sessions
            .iter()
            .flat_map(|(id, session)| session.answers.iter().map(|(sequence, answer)| (*id, *sequence, answer)))
    }

    /// Who holds `lease`.
    pub fn lease(&self, lease: Lease) -> LeaseState {
        self.leases.get(&lease).copied().unwrap_or_default()
    }

    /// All leases that were ever held.
    pub fn leases(&self) -> impl Iterator<Item = (Lease, LeaseState)> {
        self.leases.iter().map(|(lease, state)| (*lease, *state))
    }

    /// Whether `session` holds `lease` under `epoch`.
    pub fn holds(&self, lease: Lease, session: SessionId, epoch: Epoch) -> bool {
        let state = self.lease(lease);
        state.holder == Some(session) && state.epoch == epoch
    }

    pub(crate) fn open(&mut self, index: Index, now_ms: u64, nonce: u64, role: Role, name: String) -> SessionId {
        let known = self.sessions.iter().find(|(_, session)| session.nonce == nonce);
        if let Some((&id, _)) = known {
            return id;
        }
        // Where nothing else passes the time, this does: each start of a process leaves one session behind.
        self.expire(now_ms);
        self.opened += 1;
        let id = SessionId(self.opened);
        let session = Session {
            nonce,
            role,
            name,
            renewed: index,
            spoke_ms: now_ms,
            done_below: Sequence(1),
            answers: BTreeMap::new(),
        };
        self.sessions.insert(id, Arc::new(session));
        id
    }

    /// Judges whether the command in `envelope` is new, and forgets the answers it acknowledges.
    pub(crate) fn admit(&mut self, envelope: &Envelope, now_ms: u64) -> Result<Admission, Refusal> {
        let session = self.sessions.get_mut(&envelope.session).ok_or(Refusal::SessionGone(envelope.session))?;
        let session = Arc::make_mut(session);
        session.spoke_ms = now_ms;
        if envelope.done_below > session.done_below {
            session.done_below = envelope.done_below;
            session.answers = session.answers.split_off(&envelope.done_below);
        }
        if envelope.sequence < session.done_below {
            return Err(Refusal::Acknowledged);
        }
        if let Some(answer) = session.answers.get(&envelope.sequence) {
            return Ok(Admission::Known(answer.clone()));
        }
        if session.answers.len() >= ANSWERS_MAX {
            return Err(Refusal::Busy { kept: session.answers.len() as u32, limit: ANSWERS_MAX as u32 });
        }
        Ok(Admission::Fresh)
    }

    pub(crate) fn remember(&mut self, session: SessionId, sequence: Sequence, outcome: Outcome) {
        if let Some(session) = self.sessions.get_mut(&session) {
            Arc::make_mut(session).answers.insert(sequence, outcome);
        }
    }

    pub(crate) fn renew(&mut self, session: SessionId, index: Index) {
        if let Some(entry) = self.sessions.get_mut(&session) {
            Arc::make_mut(entry).renewed = index;
            let held = self.leases.values_mut().filter(|state| state.holder == Some(session));
            held.for_each(|state| state.renewed = index);
        }
    }

    /// Gives `lease` to `session` if it is free, or its holder was not renewed since `renewed`, and `epoch` is the
    /// last.
    pub(crate) fn take(
        &mut self,
        lease: Lease,
        session: SessionId,
        epoch: Epoch,
        renewed: Index,
        index: Index,
    ) -> Result<Epoch, Refusal> {
        let state = self.lease(lease);
        let is_held_here = state.holder == Some(session);
        if !is_held_here && (state.epoch != epoch || (state.holder.is_some() && state.renewed != renewed)) {
            return Err(Refusal::LeaseMoved { epoch: state.epoch });
        }
        // The holder counts from this command's sending, so nobody may take over on an older renewal.
        let epoch = if is_held_here { state.epoch } else { Epoch(epoch.0 + 1) };
        self.leases.insert(lease, LeaseState { holder: Some(session), epoch, renewed: index });
        Ok(epoch)
    }

    pub(crate) fn release(&mut self, lease: Lease, session: SessionId, epoch: Epoch) {
        if self.holds(lease, session, epoch)
            && let Some(state) = self.leases.get_mut(&lease)
        {
            state.holder = None;
        }
    }

    /// Ends a session by its own wish: its leases are free at once.
    pub(crate) fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        let held = self.leases.values_mut().filter(|state| state.holder == Some(session));
        held.for_each(|state| state.holder = None);
    }

    /// Forgets sessions that have been silent for too long; their leases stay with them.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        self.sessions.retain(|_, session| session.spoke_ms.saturating_add(SESSION_TTL_MS) > now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_lease_leaves_nothing_behind() {
        let mut sessions = Sessions::default();
        let session = sessions.open(Index(1), 0, 7, Role::Health, "h".into());
        for (epoch, renewed) in [(1, 0), (0, 9)] {
            let taken = sessions.take(Lease::Provisioning, session, Epoch(epoch), Index(renewed), Index(2));
            assert_eq!(taken.is_ok(), epoch == 0, "free leases have epoch 0, and nobody renewed them");
            assert_eq!(sessions.leases().count(), usize::from(epoch == 0));
        }
    }
}
