//! Which commands an append reply speaks of.

use ohm_client::SessionInput;
use ohm_model::{Command, Envelope, Outcome, Sequence, SessionId};
use ohm_wire::{AppendReply, AppendRequest, Malformed, append_reply, read};
use std::collections::BTreeMap;

/// Commands of one request travel in one entry, which holds 1 MiB; a longer command goes alone.
const REQUEST_BYTES: usize = 256 << 10;
/// Requests without a reply that are remembered. The session core sends again what it misses.
const WAITING_MAX: usize = 4096;

/// Which answer a core expects.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Opening(u64),
    Command(SessionId, Sequence),
}

impl Expected {
    fn of(envelope: &Envelope) -> Self {
        match envelope.command {
            Command::OpenSession { nonce, .. } => Expected::Opening(nonce),
            _ => Expected::Command(envelope.session, envelope.sequence),
        }
    }

    fn input(self, outcome: Outcome) -> SessionInput {
        match self {
            Expected::Opening(nonce) => SessionInput::OpenAnswer { nonce, outcome },
            Expected::Command(session, sequence) => SessionInput::Answer { session, sequence, outcome },
        }
    }
}

/// The requests under way.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    last: u64,
    waiting: BTreeMap<u64, Vec<Expected>>,
}

impl Tickets {
    /// Puts `envelopes` into requests, in order.
    pub(crate) fn requests(&mut self, envelopes: &[Envelope]) -> Vec<AppendRequest> {
        let mut requests: Vec<AppendRequest> = Vec::new();
        let mut bytes = 0;
        for envelope in envelopes {
            let command = envelope.encode();
            let fits = |_: &&mut AppendRequest| bytes + command.len() <= REQUEST_BYTES;
            bytes = match requests.last_mut().filter(fits) {
                Some(request) => {
                    let longer = bytes + command.len();
                    request.command_bytes.push(command.into());
                    longer
                }
                None => {
                    self.last += 1;
                    let length = command.len();
                    requests.push(AppendRequest { ticket: self.last, command_bytes: vec![command.into()] });
                    length
                }
            };
            self.waiting.entry(self.last).or_default().push(Expected::of(envelope));
        }
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_first();
        }
        requests
    }

    /// The answers in `reply`. Busy and unknown have none: the session core asks again by itself.
    pub(crate) fn answers(&mut self, reply: AppendReply) -> Result<Vec<SessionInput>, Malformed> {
        let expected = self.waiting.remove(&reply.ticket).unwrap_or_default();
        match reply.result {
            Some(append_reply::Result::Committed(committed)) => {
                let outcomes = committed.outcome_bytes.iter().map(|bytes| read::<Outcome>("an outcome", bytes));
                expected.into_iter().zip(outcomes).map(|(one, outcome)| Ok(one.input(outcome?))).collect()
            }
            Some(append_reply::Result::Busy(reason)) => {
                tracing::debug!(reason, "the server is busy");
                Ok(Vec::new())
            }
            Some(append_reply::Result::Unknown(reason)) => {
                tracing::debug!(reason, "the outcome is not known");
                Ok(Vec::new())
            }
            None => Ok(Vec::new()),
        }
    }

    /// The connection is over: no reply will come.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Role;
    use ohm_wire::{Committed, write};

    fn cancel(sequence: u64, bytes: usize) -> Envelope {
        let command = Command::CancelJob { name: "x".repeat(bytes), grace_ms: None };
        Envelope::new(SessionId(7), Sequence(sequence), Sequence(1), command)
    }

    fn committed(ticket: u64, outcomes: &[Outcome]) -> AppendReply {
        let outcome_bytes = outcomes.iter().map(write).collect();
        AppendReply { ticket, result: Some(append_reply::Result::Committed(Committed { index: 1, outcome_bytes })) }
    }

    #[test]
    fn answers_find_their_commands_whatever_was_sent_together() {
        let mut tickets = Tickets::default();
        let opening = Command::OpenSession { nonce: 9, role: Role::Health, name: "health".into() };
        let large = REQUEST_BYTES / 2 + 1;
        let envelopes = [Envelope::without_session(opening), cancel(1, large), cancel(2, large), cancel(3, 4 * large)];
        let requests = tickets.requests(&envelopes);
        let counts: Vec<usize> = requests.iter().map(|request| request.command_bytes.len()).collect();
        assert_eq!(counts, [2, 1, 1]);
        let first = tickets.answers(committed(requests[0].ticket, &[Outcome::Session(SessionId(7)), Outcome::Done]));
        let first = first.unwrap();
        assert!(matches!(first[0], SessionInput::OpenAnswer { nonce: 9, .. }));
        assert!(matches!(first[1], SessionInput::Answer { sequence: Sequence(1), .. }));
        let busy = append_reply::Result::Busy("later".into());
        let busy = AppendReply { ticket: requests[1].ticket, result: Some(busy) };
        assert!(tickets.answers(busy).unwrap().is_empty());
        let damaged = Committed { index: 1, outcome_bytes: vec![bytes::Bytes::from_static(&[250])] };
        let damaged =
            AppendReply { ticket: requests[2].ticket, result: Some(append_reply::Result::Committed(damaged)) };
        assert!(tickets.answers(damaged).is_err());
        assert!(tickets.answers(committed(99, &[Outcome::Done])).unwrap().is_empty(), "a reply nobody waits for");
    }
}
