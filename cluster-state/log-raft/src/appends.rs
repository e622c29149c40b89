//! The appends of this member, from the hand-in to the answer.

use bytes::Bytes;
use ohm_log::{LogEvent, Refusal, SubmitError};
use std::collections::VecDeque;

/// Appends that wait to be proposed, and those that were proposed and wait to be committed.
pub(crate) struct Appends {
    entries_max: usize,
    bytes_max: usize,
    waiting: VecDeque<(u64, Bytes)>,
    waiting_bytes: usize,
    proposed: VecDeque<Proposed>,
    proposed_bytes: usize,
}

struct Proposed {
    index: u64,
    term: u64,
    token: u64,
    bytes: usize,
}

impl Appends {
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Appends {
            entries_max,
            bytes_max,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            proposed: VecDeque::new(),
            proposed_bytes: 0,
        }
    }

    pub(crate) fn submit(&mut self, token: u64, bytes: Bytes) -> Result<(), SubmitError> {
        if self.waiting.len() >= self.entries_max || self.waiting_bytes + bytes.len() > self.bytes_max {
            return Err(SubmitError::Busy { queued: self.waiting.len() });
        }
        self.waiting_bytes += bytes.len();
        self.waiting.push_back((token, bytes));
        Ok(())
    }

    /// Whether a batch can be proposed now.
    pub(crate) fn ready(&self) -> bool {
        self.waiting.front().is_some_and(|(_, bytes)| self.has_room(bytes.len(), 0, 0))
    }

    /// Takes the appends that are to be proposed together.
    pub(crate) fn take_batch(&mut self) -> Vec<(u64, Bytes)> {
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        while let Some((_, bytes)) = self.waiting.front()
            && self.has_room(bytes.len(), batch.len(), batch_bytes)
        {
            batch_bytes += bytes.len();
            batch.extend(self.waiting.pop_front());
        }
        self.waiting_bytes -= batch_bytes;
        batch
    }

    /// An append now stands at `index`, if the entry of this `term` stays there.
    pub(crate) fn proposed(&mut self, index: u64, term: u64, token: u64, bytes: usize) {
        self.proposed_bytes += bytes;
        self.proposed.push_back(Proposed { index, term, token, bytes });
    }

    /// The entry at `index` is committed and was proposed in `term`: returns the token if it is one of ours. Others of
    /// ours that hoped for this place have lost it for good.
    pub(crate) fn committed(&mut self, index: u64, term: u64, out: &mut Vec<LogEvent>) -> Option<u64> {
        while let Some(first) = self.proposed.front()
            && first.index <= index
        {
            let Proposed { index: hoped, term: own, token, bytes } = self.proposed.pop_front()?;
            self.proposed_bytes -= bytes;
            if (hoped, own) == (index, term) {
                return Some(token);
            }
            out.push(LogEvent::Refused { token, reason: Refusal::Superseded });
        }
        None
    }

    /// Nobody here can say any more what becomes of those that were proposed.
    pub(crate) fn forget_proposed(&mut self, out: &mut Vec<LogEvent>) {
        self.proposed_bytes = 0;
        out.extend(self.proposed.drain(..).map(|proposed| LogEvent::Unknown { token: proposed.token }));
    }

    /// Refuses all that wait.
    pub(crate) fn refuse_waiting(&mut self, reason: Refusal, out: &mut Vec<LogEvent>) {
        self.waiting_bytes = 0;
        out.extend(self.waiting.drain(..).map(|(token, _)| LogEvent::Refused { token, reason }));
    }

    fn has_room(&self, bytes: usize, batch: usize, batch_bytes: usize) -> bool {
        self.proposed.len() + batch < self.entries_max && self.proposed_bytes + batch_bytes + bytes <= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_append_gets_its_answer() {
        let mut appends = Appends::new(3, 10);
        for token in 0..3 {
            appends.submit(token, Bytes::from_static(b"abc")).unwrap();
        }
        assert_eq!(appends.submit(3, Bytes::from_static(b"a")), Err(SubmitError::Busy { queued: 3 }));
        let batch = appends.take_batch();
        assert_eq!(batch.len(), 3);
        for (place, (token, bytes)) in batch.into_iter().enumerate() {
            appends.proposed(10 + place as u64, 2, token, bytes.len());
        }
        appends.submit(4, Bytes::from_static(b"ab")).unwrap();
        assert!(!appends.ready(), "nine of ten bytes are under way");
        let mut out = Vec::new();
        assert_eq!(appends.committed(9, 2, &mut out), None);
        assert_eq!(appends.committed(10, 2, &mut out), Some(0));
        assert!(appends.ready());
        assert_eq!(appends.committed(11, 3, &mut out), None);
        appends.forget_proposed(&mut out);
        appends.refuse_waiting(Refusal::DiskFull, &mut out);
        let expected = [
            LogEvent::Refused { token: 1, reason: Refusal::Superseded },
            LogEvent::Unknown { token: 2 },
            LogEvent::Refused { token: 4, reason: Refusal::DiskFull },
        ];
        assert_eq!(out, expected);
    }
}
