//! Beats and the node lease: an answered beat gives a lease that counts from the moment the beat was sent.

use crate::runner::LeaseFile;
use ohm_model::{Epoch, Incarnation};
use ohm_stdx::bug::{self, Bug};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Unanswered beats that are remembered; answers to older ones are worth nothing any more.
const BEATS_MAX: usize = 128;
/// Until the first answer beats are sent this many times as often, for so many beats: a new node is wanted soon.
const EAGER_FACTOR: u64 = 4;
const EAGER_BEATS: u64 = 8;

/// An answer of the health duty to one beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeatAnswer {
    /// The registration that the beat was sent under.
    pub incarnation: Incarnation,
    /// The duty's epoch; answers of older epochs than one seen before are ignored.
    pub duty_epoch: Epoch,
    /// Which beat.
    pub sequence: u64,
    /// The lease granted, counted from the sending of the beat.
    pub lease_ms: u64,
    /// Between two beats, as the duty wishes it for a cell of this size.
    pub interval_ms: u64,
}

/// The beats of one agent process, through all its registrations.
#[derive(Clone, Debug)]
pub(crate) struct Beats {
    interval_ms_min: u64,
    interval_ms: u64,
    duty_epoch: Epoch,
    sequence: u64,
    sent: VecDeque<(u64, u64)>,
    due_ms: u64,
    /// Whether the next beat starts a new rhythm.
    unsteady: bool,
    answered: bool,
    eager_left: u64,
    /// The lease of the current registration ends here; nothing is started shortly before it or later, nor before there
    /// is one.
    lease_ends_ms: Option<u64>,
    /// The last lease file known: from an earlier process at first, then as written.
    file: Option<LeaseFile>,
}

impl Beats {
    pub(crate) fn new(interval_ms: u64) -> Self {
        let interval_ms = interval_ms.max(1);
        Beats {
            interval_ms_min: interval_ms,
            interval_ms,
            duty_epoch: Epoch(0),
            sequence: 0,
            sent: VecDeque::new(),
            due_ms: 0,
            unsteady: true,
            answered: false,
            eager_left: EAGER_BEATS,
            lease_ends_ms: None,
            file: None,
        }
    }

    pub(crate) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Takes over the lease file that an earlier agent process left behind.
    pub(crate) fn adopt(&mut self, found: LeaseFile) {
        if self.file.is_none_or(|own| own.deadline_ms < found.deadline_ms) {
            self.file = Some(found);
        }
    }

    /// A new registration: beats go out at once, and earlier ones give no right to start anything.
    pub(crate) fn restart(&mut self, now_ms: u64) {
        self.sent.clear();
        self.lease_ends_ms = None;
        self.answered = false;
        self.eager_left = EAGER_BEATS;
        self.due_ms = now_ms;
    }

    /// The next beat is due now.
    pub(crate) fn hurry(&mut self, now_ms: u64) {
        self.due_ms = self.due_ms.min(now_ms);
        self.unsteady = true;
    }

    /// The number of the beat to send now, if one is due. `spread` is drawn at random: agents that all lost the same
    /// server must not beat in step for ever.
    pub(crate) fn next(&mut self, now_ms: u64, spread: impl FnOnce(u64) -> u64) -> Option<u64> {
        if now_ms < self.due_ms {
            return None;
        }
        let eager = !self.answered && self.eager_left > 0;
        let interval_ms = if eager { (self.interval_ms / EAGER_FACTOR).max(1) } else { self.interval_ms };
        self.eager_left = self.eager_left.saturating_sub(1);
        self.unsteady |= now_ms - self.due_ms > interval_ms / 2;
        self.due_ms = match std::mem::take(&mut self.unsteady) {
            true => now_ms.saturating_add((interval_ms / 2 + spread(interval_ms / 2)).max(1)),
            false => self.due_ms.saturating_add(interval_ms),
        };
        self.sequence += 1;
        if self.sent.len() == BEATS_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((self.sequence, now_ms));
        Some(self.sequence)
    }

    /// Takes an answer to a beat of `incarnation`, the current registration. The new lease file, if it moves forward.
    pub(crate) fn on_answer(&mut self, incarnation: Incarnation, answer: &BeatAnswer) -> Option<LeaseFile> {
        if answer.incarnation != incarnation || answer.duty_epoch < self.duty_epoch {
            return None;
        }
        self.duty_epoch = answer.duty_epoch;
        let position = self.sent.iter().position(|(sequence, _)| *sequence == answer.sequence)?;
        let sent_ms = self.sent.drain(..=position).next_back().map(|(_, sent_ms)| sent_ms)?;
        self.answered = true;
        self.stretch(answer);
        let times = 1 + u64::from(bug::is_planted(Bug::LongLease));
        let deadline_ms = sent_ms.saturating_add(answer.lease_ms * times);
        self.lease_ends_ms = self.lease_ends_ms.max(Some(deadline_ms));
        let since_ms = match self.file {
            Some(file) if deadline_ms <= file.deadline_ms => return None,
            Some(file) if sent_ms <= file.deadline_ms => file.since_ms,
            _ => sent_ms,
        };
        self.file = Some(LeaseFile { deadline_ms, since_ms, incarnation });
        self.file
    }

    /// The wished interval, but never so long that a lost beat or two would end the lease.
    fn stretch(&mut self, answer: &BeatAnswer) {
        let longest_ms = (answer.lease_ms / 3).max(1);
        self.interval_ms = answer.interval_ms.max(self.interval_ms_min).min(longest_ms);
        if let Some((_, last_ms)) = self.sent.back() {
            self.due_ms = self.due_ms.min(last_ms.saturating_add(self.interval_ms));
        }
    }

    /// Whether the current registration has a lease under which something may be started at `now_ms`.
    pub(crate) fn may_start(&self, now_ms: u64, fence_lead_ms: u64) -> bool {
        self.lease_ends_ms.is_some_and(|ends_ms| may_start(now_ms, ends_ms, fence_lead_ms))
    }
}

/// Whether something may be started at `now_ms` under a lease that ends at `deadline_ms`: only before the fence may ask
/// anybody to end. What is started later ends with the lease, is placed again, and starts there as late.
pub fn may_start(now_ms: u64, deadline_ms: u64, fence_lead_ms: u64) -> bool {
    let lead_ms = if bug::is_planted(Bug::StartLate) { 0 } else { fence_lead_ms };
    now_ms.saturating_add(lead_ms) < deadline_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sequence: u64, epoch: u64) -> BeatAnswer {
        let (incarnation, duty_epoch) = (Incarnation(1), Epoch(epoch));
        BeatAnswer { incarnation, duty_epoch, sequence, lease_ms: 10_000, interval_ms: 1000 }
    }

    #[test]
    fn the_lease_counts_from_the_sending_and_moves_only_forward() {
        let mut beats = Beats::new(1000);
        beats.restart(0);
        let first = beats.next(0, |_| 0).unwrap();
        let second = beats.next(5000, |_| 0).unwrap();
        assert!(!beats.may_start(1, 0));
        let file = beats.on_answer(Incarnation(1), &answer(second, 3)).unwrap();
        assert_eq!((file.deadline_ms, file.since_ms), (15_000, 5000));
        assert!(beats.may_start(14_999, 0) && !beats.may_start(15_000, 0));
        assert!(beats.may_start(12_999, 2_000) && !beats.may_start(13_000, 2_000), "the fence is about to act");
        assert_eq!(beats.on_answer(Incarnation(1), &answer(first, 3)), None, "the older beat gives nothing");
        let third = beats.next(7000, |_| 0).unwrap();
        assert_eq!(beats.on_answer(Incarnation(1), &answer(third, 2)), None, "an older duty is not believed");
        assert_eq!(beats.on_answer(Incarnation(2), &answer(third, 3)), None, "another registration was meant");
        let file = beats.on_answer(Incarnation(1), &answer(third, 3)).unwrap();
        assert_eq!((file.deadline_ms, file.since_ms), (17_000, 5000), "no gap since the first one");
        let late = beats.next(17_001, |_| 0).unwrap();
        let file = beats.on_answer(Incarnation(1), &answer(late, 4)).unwrap();
        assert_eq!((file.deadline_ms, file.since_ms), (27_001, 17_001), "after a gap it starts anew");
    }

    #[test]
    fn a_found_file_is_continued_but_gives_no_lease() {
        let mut beats = Beats::new(1000);
        beats.adopt(LeaseFile { deadline_ms: 9000, since_ms: 100, incarnation: Incarnation(1) });
        beats.restart(2000);
        assert!(!beats.may_start(2000, 0));
        let beat = beats.next(2000, |_| 0).unwrap();
        let file = beats.on_answer(Incarnation(1), &answer(beat, 1)).unwrap();
        assert_eq!((file.deadline_ms, file.since_ms), (12_000, 100));
    }
}
