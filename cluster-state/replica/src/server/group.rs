//! What a server knows of the others, and what it waits for from them.

use crate::proposal::Ticket;
use ohm_log::Members;
use ohm_model::{Index, Outcome, SessionId};
use std::collections::BTreeMap;

/// How often a server says who competes for the health duty over it.
const DUTY_EVERY_MS: u64 = 1_000;
/// Answers to forwarded commands that do not come within this are not waited for any longer.
const FORWARD_MS: u64 = 10_000;

/// What this server knows of the others.
#[derive(Default)]
pub(crate) struct Group {
    /// Everybody but this one.
    pub(crate) others: Vec<u64>,
    pub(crate) members: Members,
    /// Who takes appends.
    pub(crate) leader: Option<u64>,
    pub(crate) leads: bool,
    /// Tickets whose commands went to another server: which one, and when.
    forwarded: BTreeMap<Ticket, (u64, u64)>,
    /// Answers that this copy has not reached yet.
    early: BTreeMap<(Index, Ticket), Vec<Outcome>>,
    duty_said_ms: Option<u64>,
    duty_said: usize,
}

impl Group {
    /// Learns who belongs to the group, of which `own` is this server.
    pub(crate) fn set_members(&mut self, own: u64, members: &Members) {
        self.others = members.all().filter(|member| *member != own).collect();
        self.members = members.clone();
    }

    /// The other server that takes commands, if one does.
    pub(crate) fn leader_elsewhere(&self) -> Option<u64> {
        self.leader.filter(|_| !self.leads)
    }

    /// Notes that what `ticket` stands for went to the server `to`.
    pub(crate) fn forwarded(&mut self, now_ms: u64, ticket: Ticket, to: u64) {
        self.forwarded.insert(ticket, (to, now_ms));
    }

    /// Whether `ticket` waited for an answer of another server; it waits no more.
    pub(crate) fn settle(&mut self, ticket: Ticket) -> bool {
        self.forwarded.remove(&ticket).is_some()
    }

    /// Gives up the forwarded commands of which `is_lost` holds, by server and time.
    pub(crate) fn give_up(&mut self, is_lost: impl Fn(u64, u64) -> bool) -> Vec<Ticket> {
        let lost = self.forwarded.extract_if(.., |_, (to, at_ms)| is_lost(*to, *at_ms));
        lost.map(|(ticket, _)| ticket).collect()
    }

    /// Gives up what was forwarded too long ago.
    pub(crate) fn give_up_late(&mut self, now_ms: u64) -> Vec<Ticket> {
        self.give_up(|_, at_ms| at_ms + FORWARD_MS <= now_ms)
    }

    /// Keeps an answer until the own copy has come as far as `index`.
    pub(crate) fn keep_early(&mut self, index: Index, ticket: Ticket, outcomes: Vec<Outcome>) {
        self.early.insert((index, ticket), outcomes);
    }

    /// The next of the kept answers that a copy at `applied` may give.
    pub(crate) fn next_early(&mut self, applied: Index) -> Option<(Index, Ticket, Vec<Outcome>)> {
        let first = self.early.first_entry().filter(|first| first.key().0 <= applied)?;
        let ((index, ticket), outcomes) = first.remove_entry();
        Some((index, ticket, outcomes))
    }

    /// Whether the others must be told now which `sessions` compete for the health duty here; then they are.
    pub(crate) fn tells_duty(&mut self, now_ms: u64, sessions: &[SessionId]) -> bool {
        let is_due = self.duty_said_ms.is_none_or(|said_ms| said_ms + DUTY_EVERY_MS <= now_ms);
        let tells = (is_due && !sessions.is_empty()) || sessions.len() != self.duty_said;
        if tells {
            (self.duty_said_ms, self.duty_said) = (Some(now_ms), sessions.len());
        }
        tells
    }

    /// When something between servers is due.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let duty_ms = self.duty_said_ms.filter(|_| self.duty_said > 0).map(|said_ms| said_ms + DUTY_EVERY_MS);
        let forwarded_ms = self.forwarded.values().map(|(_, at_ms)| at_ms + FORWARD_MS).min();
        [duty_ms, forwarded_ms].into_iter().flatten().min()
    }
}
