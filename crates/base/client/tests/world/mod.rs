//! A cell with nothing but sessions and leases, and a network that loses, repeats, delays and reorders.

use ohm_model::{Command, Envelope, Epoch, Index, Lease, Outcome, Refusal, Sequence, SessionId};
use ohm_stdx::Prng;
use std::collections::{BTreeMap, BTreeSet};

/// The cell's bound on kept answers.
const ANSWERS_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
struct Session {
    nonce: u64,
    done_below: u64,
    outcomes: BTreeMap<u64, Outcome>,
    renewed: Index,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LeaseState {
    pub(crate) holder: Option<SessionId>,
    pub(crate) epoch: Epoch,
    pub(crate) renewed: Index,
}

/// What an envelope was answered with.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Open { nonce: u64, outcome: Outcome },
    Command { session: SessionId, sequence: Sequence, outcome: Outcome },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MiniCell {
    index: Index,
    sessions: BTreeMap<SessionId, Session>,
    pub(crate) leases: BTreeMap<Lease, LeaseState>,
    /// How often each named command took effect.
    pub(crate) effects: BTreeMap<String, u32>,
}

impl MiniCell {
    pub(crate) fn peers(&self) -> Vec<(SessionId, Index)> {
        self.sessions.iter().map(|(&id, session)| (id, session.renewed)).collect()
    }

    /// Forgets one session, as a clean-up would. Its leases stay with it until somebody takes them.
    pub(crate) fn forget_session(&mut self, dice: &mut Prng) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        if let Some(id) = dice.pick(&ids) {
            self.sessions.remove(id);
        }
    }

    pub(crate) fn apply(&mut self, envelope: &Envelope) -> Reply {
        self.index.0 += 1;
        if let Command::OpenSession { nonce, .. } = envelope.command {
            let known = self.sessions.iter().find(|(_, session)| session.nonce == nonce).map(|(&id, _)| id);
            let id = known.unwrap_or(SessionId(self.index.0));
            let renewed = self.index;
            self.sessions.entry(id).or_insert(Session { nonce, renewed, ..Session::default() });
            return Reply::Open { nonce, outcome: Outcome::Session(id) };
        }
        let outcome = self.answer(envelope);
        Reply::Command { session: envelope.session, sequence: envelope.sequence, outcome }
    }

    fn answer(&mut self, envelope: &Envelope) -> Outcome {
        let Some(session) = self.sessions.get_mut(&envelope.session) else {
            return Outcome::Refused(Refusal::SessionGone(envelope.session));
        };
        session.done_below = session.done_below.max(envelope.done_below.0);
        session.outcomes = session.outcomes.split_off(&session.done_below);
        if envelope.sequence.0 < session.done_below {
            return Outcome::Refused(Refusal::Acknowledged);
        }
        if let Some(outcome) = session.outcomes.get(&envelope.sequence.0) {
            return outcome.clone();
        }
        assert!(session.outcomes.len() < ANSWERS_MAX, "a well-behaved session is never busy");
        let outcome = self.perform(envelope.session, &envelope.command);
        if let Some(session) = self.sessions.get_mut(&envelope.session) {
            session.outcomes.insert(envelope.sequence.0, outcome.clone());
        }
        outcome
    }

    fn perform(&mut self, session: SessionId, command: &Command) -> Outcome {
        let index = self.index;
        match command {
            Command::KeepAlive => {
                self.sessions.entry(session).and_modify(|session| session.renewed = index);
                let own = self.leases.values_mut().filter(|lease| lease.holder == Some(session));
                own.for_each(|lease| lease.renewed = index);
            }
            Command::CloseSession => {
                self.sessions.remove(&session);
                let own = self.leases.values_mut().filter(|lease| lease.holder == Some(session));
                own.for_each(|lease| lease.holder = None);
            }
            Command::TakeLease { lease, epoch, renewed } => {
                let state = self.leases.entry(*lease).or_default();
                if state.holder == Some(session) {
                    // Answered, but not renewed: what the holder must not count from.
                    return Outcome::Lease(state.epoch);
                }
                if state.epoch != *epoch || (state.holder.is_some() && state.renewed != *renewed) {
                    return Outcome::Refused(Refusal::LeaseMoved { epoch: state.epoch });
                }
                *state = LeaseState { holder: Some(session), epoch: Epoch(epoch.0 + 1), renewed: index };
                return Outcome::Lease(state.epoch);
            }
            Command::ReleaseLease { lease, epoch } => {
                let state = self.leases.entry(*lease).or_default();
                if state.epoch == *epoch && state.holder == Some(session) {
                    state.holder = None;
                }
            }
            Command::CordonNode { name, .. } => *self.effects.entry(name.clone()).or_default() += 1,
            _ => {}
        }
        Outcome::Done
    }
}

/// A wall clock that runs at its own rate from its own start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start_ms: u64,
    pub(crate) rate_permille: u64,
}

impl Clock {
    pub(crate) fn draw(dice: &mut Prng, drift_permille: u64) -> Self {
        let rate_permille = dice.between(1000 - drift_permille, 1000 + drift_permille);
        Clock { start_ms: dice.below(1_000_000), rate_permille }
    }

    pub(crate) fn read(&self, real_ms: u64) -> u64 {
        self.start_ms + real_ms * self.rate_permille / 1000
    }
}

/// Messages under way: by arrival, then by number, so that one seed gives one order.
#[derive(Debug)]
pub(crate) struct Network<M> {
    pub(crate) dice: Prng,
    pub(crate) loss_permille: u64,
    pub(crate) repeat_permille: u64,
    pub(crate) delay_ms_max: u64,
    number: u64,
    due: BTreeMap<(u64, u64), M>,
    /// Members that are cut off in both directions.
    pub(crate) cut: BTreeSet<usize>,
}

impl<M: Clone> Network<M> {
    pub(crate) fn new(mut dice: Prng) -> Self {
        let (loss_permille, repeat_permille) = (dice.below(300), dice.below(100));
        let delay_ms_max = *dice.pick(&[2, 20, 200]).unwrap();
        Network {
            dice,
            loss_permille,
            repeat_permille,
            delay_ms_max,
            number: 0,
            due: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }

    pub(crate) fn heal(&mut self) {
        (self.loss_permille, self.repeat_permille, self.delay_ms_max) = (0, 0, 5);
        self.cut.clear();
    }

    pub(crate) fn send(&mut self, now_ms: u64, member: usize, message: M) {
        let copies = if self.dice.chance(self.repeat_permille) { 2 } else { 1 };
        for _ in 0..copies {
            if self.cut.contains(&member) || self.dice.chance(self.loss_permille) {
                continue;
            }
            // Now and then one is held up for far longer than any time-out.
            let slow = if self.dice.chance(10) && self.loss_permille > 0 { self.dice.below(6000) } else { 0 };
            let at_ms = now_ms + 1 + self.dice.below(self.delay_ms_max) + slow;
            self.number += 1;
            self.due.insert((at_ms, self.number), message.clone());
        }
    }

    pub(crate) fn arrived(&mut self, now_ms: u64) -> Option<M> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now_ms)?;
        Some(entry.remove())
    }
}
