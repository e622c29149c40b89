//! The time of the cell as one server has it: its stamps, and the clocks it knows of.

use crate::clock::Clock;
use crate::stamp::{Moment, NEAR_MS, Noted, StampClock, TimeNote, ahead};
use crate::witnesses::Witnesses;
use ohm_log::Members;

/// How often the shell is told at most, while nothing changes.
const SAY_EVERY_MS: u64 = 10_000;
/// The shell is told when time has moved by so much against the own wall clock.
const MOVED_MS: u64 = 1_000;

/// What time it is, and how the clocks differ from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeView {
    /// The time of the cell, as far as this server knows it.
    pub stamp_ms: u64,
    /// By how much the wall clock of each server is ahead of it; those that were heard lately.
    pub offsets_ms: Vec<(u64, i64)>,
}

/// What the shell is told about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWord {
    /// To be kept for the next process. While this one has neither led nor followed, the note of the former process is
    /// better: it says how far time was behind when the cell was there.
    pub note: Option<TimeNote>,
    /// By how much the own wall clock is ahead.
    pub offset_ms: i64,
    /// Whether that is more than is believed, so that time is held.
    pub is_held: bool,
}

/// The time of the cell.
pub(crate) struct CellTime {
    /// Which voter this server is.
    pub(crate) server: u64,
    pub(crate) witnesses: Witnesses,
    stamps: StampClock,
    voters: Vec<u64>,
    /// What the shell was told last, and when.
    said: Option<(u64, TimeWord)>,
}

impl CellTime {
    pub(crate) fn new(noted: Noted) -> Self {
        CellTime {
            server: 0,
            witnesses: Witnesses::default(),
            stamps: StampClock::new(noted),
            voters: Vec::new(),
            said: None,
        }
    }

    pub(crate) fn set_members(&mut self, members: &Members) {
        self.voters = members.voters.to_vec();
    }

    /// The stamp for an entry made now, and what the shell is to know.
    pub(crate) fn pass(&mut self, clock: Clock, applied_ms: u64, leads: bool) -> (Option<u64>, Option<TimeWord>) {
        let Clock { now_ms, wall_ms } = clock;
        let majority_ms = self.witnesses.majority_ms(now_ms, (self.server, wall_ms), &self.voters);
        let is_alone = self.voters.len() < 2;
        let moment = Moment { now_ms, wall_ms, applied_ms, majority_ms, leads, is_alone };
        let stamp_ms = self.stamps.stamp_ms(moment);
        (stamp_ms, stamp_ms.and_then(|stamp_ms| self.word(clock, stamp_ms)))
    }

    fn word(&mut self, clock: Clock, stamp_ms: u64) -> Option<TimeWord> {
        let offset_ms = ahead(clock.wall_ms, stamp_ms);
        let note = TimeNote { now_ms: clock.now_ms, stamp_ms, wall_ms: clock.wall_ms };
        let note = self.stamps.is_sure().then_some(note);
        let word = TimeWord { note, offset_ms, is_held: offset_ms > NEAR_MS as i64 };
        let is_news = |said: &TimeWord| {
            let moved_ms = said.offset_ms.abs_diff(offset_ms);
            said.is_held != word.is_held || said.note.is_some() != note.is_some() || moved_ms > MOVED_MS
        };
        let says = self.said.is_none_or(|(at_ms, said)| at_ms + SAY_EVERY_MS <= clock.now_ms || is_news(&said));
        says.then(|| self.said.insert((clock.now_ms, word)).1)
    }

    /// The time and the clocks.
    pub(crate) fn view(&self, clock: Clock) -> Option<TimeView> {
        let stamp_ms = self.stamps.shows_ms(clock.now_ms)?;
        let others = self.witnesses.heard(clock.now_ms).map(|(server, wall_ms)| (server, ahead(wall_ms, stamp_ms)));
        let mut offsets_ms: Vec<(u64, i64)> = others.collect();
        offsets_ms.push((self.server, ahead(clock.wall_ms, stamp_ms)));
        offsets_ms.sort_unstable();
        Some(TimeView { stamp_ms, offsets_ms })
    }

    /// The operator believes the wall clock of `server`. False when it is not known.
    pub(crate) fn believe(&mut self, clock: Clock, server: u64) -> bool {
        let shown = match server == self.server {
            true => Some(clock.wall_ms),
            false => self.witnesses.wall_ms(clock.now_ms, server),
        };
        shown.inspect(|wall_ms| self.stamps.believe(clock.now_ms, *wall_ms)).is_some()
    }

    /// Whether time was moved, and an entry is to say so.
    pub(crate) fn take_step(&mut self) -> bool {
        self.stamps.take_step()
    }
}
