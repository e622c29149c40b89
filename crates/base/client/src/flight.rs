//! Commands that were sent and not answered yet: numbers, deadlines, and how far everything is answered.

use ohm_model::{Asked, Envelope, Sequence, SessionId};
use std::collections::BTreeMap;

/// One unanswered command.
#[derive(Clone, Debug)]
pub(crate) struct Sent<P> {
    /// Whose it is.
    pub(crate) purpose: P,
    /// What was asked.
    pub(crate) asked: Asked,
    /// When it was sent for the first time: it may have taken effect at any moment since.
    pub(crate) sent_ms: u64,
    due_ms: u64,
    attempt: u32,
    repeats: bool,
}

/// The unanswered commands of one session, by number.
#[derive(Clone, Debug)]
pub(crate) struct Flight<P> {
    next: Sequence,
    sent: BTreeMap<Sequence, Sent<P>>,
    /// No command is due before this; may be too early, never too late.
    due_ms: u64,
    resend_ms: u64,
    resend_ms_max: u64,
}

impl<P> Flight<P> {
    pub(crate) fn new(resend_ms: u64, resend_ms_max: u64) -> Self {
        let resend_ms = resend_ms.max(1);
        Flight { next: Sequence(1), sent: BTreeMap::new(), due_ms: u64::MAX, resend_ms, resend_ms_max }
    }

    /// Every sequence below is answered, or of no interest any more.
    pub(crate) fn done_below(&self) -> Sequence {
        self.sent.first_key_value().map_or(self.next, |(&sequence, _)| sequence)
    }

    /// How many numbers lie between the oldest unanswered command and the next one.
    pub(crate) fn window(&self) -> u64 {
        self.next.0 - self.done_below().0
    }

    /// The earliest moment at which something may have to be sent again.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        (self.due_ms != u64::MAX).then_some(self.due_ms)
    }

    /// Numbers a command. With `repeats` it is sent again until it is answered.
    pub(crate) fn add(&mut self, now_ms: u64, purpose: P, asked: Asked, repeats: bool) -> Sequence {
        let sequence = self.next;
        self.next = Sequence(sequence.0 + 1);
        let due_ms = if repeats { now_ms.saturating_add(self.resend_ms) } else { u64::MAX };
        self.due_ms = self.due_ms.min(due_ms);
        self.sent.insert(sequence, Sent { purpose, asked, sent_ms: now_ms, due_ms, attempt: 0, repeats });
        sequence
    }

    /// The message that carries `sequence`, with everything known by now about what is answered.
    pub(crate) fn envelope(&self, session: SessionId, sequence: Sequence) -> Option<Envelope> {
        let asked = self.sent.get(&sequence)?.asked.clone();
        Some(Envelope::new(session, sequence, self.done_below(), asked))
    }

    pub(crate) fn get(&self, sequence: Sequence) -> Option<&Sent<P>> {
        self.sent.get(&sequence)
    }

    /// The oldest unanswered command, if it has been under way for longer than the first time-out.
    pub(crate) fn oldest_late(&self, now_ms: u64) -> Option<(Sequence, &Sent<P>)> {
        let (&sequence, sent) = self.sent.first_key_value()?;
        (now_ms.saturating_sub(sent.sent_ms) >= self.resend_ms).then_some((sequence, sent))
    }

    /// Takes `sequence` out: it is answered or of no interest any more.
    pub(crate) fn remove(&mut self, sequence: Sequence) -> Option<Sent<P>> {
        self.sent.remove(&sequence)
    }

    /// Everything unanswered, oldest first; the numbering starts again for the next session.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Sent<P>> + use<P> {
        self.next = Sequence(1);
        self.due_ms = u64::MAX;
        std::mem::take(&mut self.sent).into_values()
    }

    /// The commands that are to be sent again now: those whose time-out passed, or `all` that repeat at all. Each later
    /// time-out is twice as long, up to the bound, so that an overloaded cell is not asked ever more.
    pub(crate) fn resend(&mut self, now_ms: u64, session: SessionId, all: bool) -> Vec<Envelope> {
        if !all && now_ms < self.due_ms {
            return Vec::new();
        }
        let done_below = self.done_below();
        let (mut envelopes, mut earliest) = (Vec::new(), u64::MAX);
        for (&sequence, sent) in self.sent.iter_mut().filter(|(_, sent)| sent.repeats) {
            if all || sent.due_ms <= now_ms {
                sent.attempt = (sent.attempt + 1).min(16);
                let delay_ms = self.resend_ms.saturating_mul(1 << sent.attempt).min(self.resend_ms_max);
                sent.due_ms = now_ms.saturating_add(delay_ms.max(self.resend_ms));
                envelopes.push(Envelope::new(session, sequence, done_below, sent.asked.clone()));
            }
            earliest = earliest.min(sent.due_ms);
        }
        self.due_ms = earliest;
        envelopes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::Command;

    #[test]
    fn answers_in_any_order_move_the_mark_to_the_oldest_unanswered() {
        let mut flight: Flight<u8> = Flight::new(100, 1000);
        let numbers: Vec<Sequence> = (0..3).map(|tag| flight.add(0, tag, Command::Tick.into(), true)).collect();
        flight.remove(numbers[1]);
        assert_eq!((flight.done_below(), flight.window()), (Sequence(1), 3));
        flight.remove(numbers[0]);
        assert_eq!((flight.done_below(), flight.window()), (Sequence(3), 1));
        flight.remove(numbers[2]);
        assert_eq!((flight.done_below(), flight.window()), (Sequence(4), 0));
    }

    #[test]
    fn time_outs_double_up_to_the_bound() {
        let mut flight: Flight<u8> = Flight::new(100, 300);
        flight.add(0, 1, Command::Tick.into(), true);
        flight.add(0, 2, Command::KeepAlive.into(), false);
        let mut sent_at = Vec::new();
        for now_ms in 0..1500 {
            if !flight.resend(now_ms, SessionId(9), false).is_empty() {
                sent_at.push(now_ms);
            }
        }
        assert_eq!(sent_at, [100, 300, 600, 900, 1200]);
    }
}
