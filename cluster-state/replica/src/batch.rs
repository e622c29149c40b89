//! Group commit: commands that arrive while the log is busy travel together in the next entry.

use crate::proposal::{ProposeError, Ticket};
use ohm_log::{Bytes, ENTRY_BYTES_MAX};
use ohm_model::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Room for the frame and the stamp in an entry.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// Commands on their way into the log.
pub(crate) struct Batches {
    waiting: VecDeque<(Ticket, Vec<Bytes>)>,
    waiting_bytes: usize,
    limit_bytes: usize,
    in_flight: BTreeMap<u64, Vec<(Ticket, usize)>>,
    in_flight_max: usize,
    next_token: u64,
}

impl Batches {
    pub(crate) fn new(limit_bytes: usize, in_flight_max: usize) -> Self {
        Batches {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            limit_bytes,
            in_flight: BTreeMap::new(),
            in_flight_max,
            next_token: 1,
        }
    }

    pub(crate) fn push(&mut self, ticket: Ticket, commands: Vec<Bytes>) -> Result<(), ProposeError> {
        let bytes: usize = commands.iter().map(Bytes::len).sum();
        let limit = ENTRY_BYTES_MAX - ENTRY_OVERHEAD_BYTES;
        if bytes > limit {
            return Err(ProposeError::TooLong { bytes, limit });
        }
        // Asked before these are added: what fits into an entry must have its turn, also where it alone is more than
        // the bound. Its sender would send the same again for ever.
        if self.waiting_bytes >= self.limit_bytes {
            return Err(ProposeError::Busy { waiting: self.waiting_bytes, limit: self.limit_bytes });
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back((ticket, commands));
        Ok(())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// The next entry to append, with its token; nothing when nothing waits or enough is in flight.
    pub(crate) fn next(&mut self, stamp_ms: u64) -> Option<(u64, Bytes)> {
        if self.waiting.is_empty() || self.in_flight.len() >= self.in_flight_max {
            return None;
        }
        let (mut commands, mut tickets, mut bytes): (Vec<Bytes>, _, _) = (Vec::new(), Vec::new(), ENTRY_OVERHEAD_BYTES);
        while let Some((_, next)) = self.waiting.front() {
            let length: usize = next.iter().map(Bytes::len).sum();
            if bytes + length > ENTRY_BYTES_MAX {
                break;
            }
            let Some((ticket, next)) = self.waiting.pop_front() else { break };
            bytes += length;
            self.waiting_bytes -= length;
            tickets.push((ticket, next.len()));
            commands.extend(next);
        }
        let token = self.next_token;
        self.next_token += 1;
        self.in_flight.insert(token, tickets);
        Some((token, Entry::assemble(stamp_ms, commands.iter().map(|command| &command[..])).into()))
    }

    /// Whose commands the entry with `token` held, in order, each with how many.
    pub(crate) fn settle(&mut self, token: u64) -> Vec<(Ticket, usize)> {
        self.in_flight.remove(&token).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_travels_together_up_to_the_size_of_an_entry() {
        let mut batches = Batches::new(3 << 20, 2);
        let command = |length: usize| vec![Bytes::from(vec![0u8; length])];
        for ticket in 0..3 {
            batches.push(Ticket(ticket), command(400 << 10)).unwrap();
        }
        let (first, bytes) = batches.next(1).unwrap();
        assert!(bytes.len() <= ENTRY_BYTES_MAX);
        assert_eq!(batches.settle(first), [(Ticket(0), 1), (Ticket(1), 1)]);
        let (second, _) = batches.next(1).unwrap();
        assert_eq!(batches.settle(second), [(Ticket(2), 1)]);
        assert!(batches.next(1).is_none() && batches.is_idle());
        assert!(matches!(batches.push(Ticket(9), command(2 << 20)), Err(ProposeError::TooLong { .. })));
        for ticket in 0..3 {
            batches.push(Ticket(ticket), command(1 << 19)).unwrap();
            batches.push(Ticket(ticket), command(1 << 19)).unwrap();
        }
        assert!(matches!(batches.push(Ticket(9), command(1)), Err(ProposeError::Busy { .. })));
    }

    #[test]
    fn what_is_longer_than_the_bound_has_its_turn() {
        let mut batches = Batches::new(100, 2);
        let command = |length: usize| vec![Bytes::from(vec![0u8; length])];
        batches.push(Ticket(1), command(99)).unwrap();
        batches.push(Ticket(2), command(1000)).unwrap();
        assert_eq!(batches.push(Ticket(3), command(1)), Err(ProposeError::Busy { waiting: 1099, limit: 100 }));
        let (token, _) = batches.next(1).unwrap();
        assert_eq!(batches.settle(token), [(Ticket(1), 1), (Ticket(2), 1)]);
        batches.push(Ticket(3), command(1)).unwrap();
    }
}
