//! What entries are stamped with: the time of the cell. It never falls, never stands still, and goes forward only as
//! fast as time surely passes.
//!
//! ```text
//!  time = last stamp + what the monotonic clock has passed since ── closes in on wall clocks within NEAR_MS
//!            │                                                  └── steps with wall clocks that are believed
//!            └── whoever follows: the last stamp that it got, whoever it is from
//!                after a restart: the last stamp in its log; without others, the note of the former process
//!                (of the same boot: the boot-time clock; of a former boot: what the wall clock has passed since)
//! ```
//! Back-offs, deadlines, the time that finished jobs are kept and time-outs of sessions are counted in stamped time, so
//! a wall clock that somebody sets must neither freeze them (set back) nor end them all at once (set forward). Time
//! goes on with the monotonic clock and closes in on the wall clock a little faster or slower, as NTP slews a clock. A
//! wall clock further ahead is believed only when
//! - a majority of the voters (see [`crate::witnesses`]) moves on by so much, or shows it when the cell comes up again,
//! - the operator says so,
//! - the cell is new: there is nothing yet that could end too early,
//! - or a server without others to ask comes up after a boot, and what it has passed since the former process noted it
//!   is no more than a boot takes. What it was ahead by then is not taken: jobs have come since time fell behind.
//!
//! Until then time is held: it goes on at its own pace, and all else works. The boot-time clock runs over a restart of
//! the process and is set by nobody, so the note of the former process of the same boot tells how long it was down.
//!
//! Entries are on their way for a while, so whoever follows is a little behind whoever leads, and time loses that when
//! another one leads. No server makes that good at once, although a majority of the clocks shows it: jobs have come
//! since, and would lose the difference. Time only goes a little faster. A cell that comes up again has stood still for
//! all of its jobs: whoever leads first asks the others what time it is before it stamps anything. What time was behind
//! before, as the note of its former process says, it does not take.

use ohm_stdx::bug::{Bug, is_planted};

/// Clocks that are no further apart show the same time. Time closes in on a wall clock that is no further ahead.
pub const NEAR_MS: u64 = 10_000;
/// Time goes faster or slower than the monotonic clock by one part in so many while it closes in on a wall clock.
const SLEW_PART: u64 = 10;
/// How long stamps are counted from the same moment: long enough that a part of it can be left out.
const ANCHOR_MS: u64 = 1_000;
/// How long whoever leads first waits for the others to say what their clocks show.
const ASK_MS: u64 = 4_000;
/// What a boot of the machine takes at most, where nothing else tells how long a server was down.
const BOOT_MS_MAX: u64 = 600_000;

/// What time it was in the cell at a moment of the boot-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    now_ms: u64,
    stamp_ms: u64,
}

/// What a process notes of time for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeNote {
    /// The boot-time clock. Good for the processes of one boot.
    pub now_ms: u64,
    /// The time of the cell.
    pub stamp_ms: u64,
    /// The wall clock.
    pub wall_ms: u64,
}

impl TimeNote {
    /// How far the wall clock was ahead of time.
    pub fn ahead_ms(&self) -> i64 {
        ahead(self.wall_ms, self.stamp_ms)
    }
}

/// What a process finds of a former one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noted {
    /// Nothing.
    #[default]
    Nothing,
    /// A note of the boot that still lasts.
    ThisBoot(TimeNote),
    /// A note of a former boot.
    FormerBoot(TimeNote),
}

/// By how much `wall_ms` is ahead of `stamp_ms`.
pub(crate) fn ahead(wall_ms: u64, stamp_ms: u64) -> i64 {
    i64::try_from(i128::from(wall_ms) - i128::from(stamp_ms)).unwrap_or(i64::MAX)
}

/// What is known about the moment of a stamp.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// The boot-time clock.
    pub(crate) now_ms: u64,
    /// The own wall clock.
    pub(crate) wall_ms: u64,
    /// The stamp of the last entry applied here; 0 when there is none.
    pub(crate) applied_ms: u64,
    /// What a majority of the voters takes for the time.
    pub(crate) majority_ms: Option<u64>,
    /// Whether this server stamps entries.
    pub(crate) leads: bool,
    /// Whether there are others whose clocks could be asked.
    pub(crate) is_alone: bool,
}

/// The stamps of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampClock {
    /// A moment of the monotonic clock, and the time at it.
    anchor: Option<Anchor>,
    /// What a former process of the same boot has noted; it counts until this one leads.
    noted: Option<TimeNote>,
    /// Since when it leads, as the first one that does since it began.
    asks_ms: Option<u64>,
    /// Whether it has stamped entries.
    led: bool,
    /// Whether it has got entries from others since it began.
    followed: bool,
    /// How far time is behind the clocks of a majority, as far as that is no move of theirs.
    behind_ms: Option<u64>,
    /// How far the wall clock was ahead before the machine booted, until the boot is counted.
    ahead_ms: Option<i64>,
    /// How far time was behind the wall clock while the former process was there.
    was_behind_ms: u64,
    /// The stamp of the last entry applied, as far as it was looked at.
    applied_ms: u64,
    last_ms: u64,
    /// Time was moved on, and no entry says so yet.
    stepped: bool,
}

impl StampClock {
    /// The stamps of a process.
    pub(crate) fn new(noted: Noted) -> Self {
        let (noted, ahead_ms, was_behind_ms) = match noted {
            Noted::Nothing => (None, Some(0), 0),
            Noted::ThisBoot(note) => (Some(note), None, note.ahead_ms()),
            Noted::FormerBoot(note) => (None, Some(note.ahead_ms()), note.ahead_ms()),
        };
        StampClock {
            anchor: None,
            noted,
            asks_ms: None,
            led: false,
            followed: false,
            behind_ms: None,
            ahead_ms,
            was_behind_ms: u64::try_from(was_behind_ms).unwrap_or(0),
            applied_ms: 0,
            last_ms: 0,
            stepped: false,
        }
    }

    /// What time it is; the stamp for an entry made now. Nothing while a server that does not lead knows no entry, and
    /// while one that leads asks the others what time it is.
    pub(crate) fn stamp_ms(&mut self, moment: Moment) -> Option<u64> {
        let Moment { now_ms, wall_ms, applied_ms, leads, .. } = moment;
        if applied_ms == 0 && self.anchor.is_none() {
            self.ahead_ms = self.ahead_ms.filter(|_| !leads);
            self.led |= leads;
            return leads.then(|| self.set(now_ms, wall_ms));
        }
        self.follow(moment);
        if self.asks(moment) {
            return None;
        }
        let anchor = self.anchor?;
        let elapsed_ms = now_ms.saturating_sub(anchor.now_ms);
        let held_ms = anchor.stamp_ms.saturating_add(elapsed_ms);
        if let Some(step_ms) = self.step_ms(moment, held_ms).filter(|_| leads) {
            (self.led, self.stepped) = (true, true);
            return Some(self.set(now_ms, held_ms + step_ms));
        }
        self.led |= leads;
        let reference_ms = moment.majority_ms.unwrap_or(wall_ms);
        let is_held = moment.majority_ms.is_none() && reference_ms.saturating_sub(held_ms) > NEAR_MS;
        let part_ms = elapsed_ms / SLEW_PART;
        let (slowest_ms, fastest_ms) = (elapsed_ms - part_ms, elapsed_ms + part_ms);
        let passed_ms = match is_held {
            true => elapsed_ms,
            false => reference_ms.saturating_sub(anchor.stamp_ms).clamp(slowest_ms, fastest_ms),
        };
        let slewed_ms = anchor.stamp_ms.saturating_add(passed_ms);
        let stamp_ms = slewed_ms.max(self.last_ms);
        if elapsed_ms >= ANCHOR_MS || stamp_ms > slewed_ms {
            self.set(now_ms, stamp_ms);
        }
        self.last_ms = stamp_ms;
        Some(stamp_ms)
    }

    /// Learns from entries that others stamped, and from the note. Whoever leads takes them only to move on.
    fn follow(&mut self, moment: Moment) {
        let Moment { now_ms, wall_ms, applied_ms, leads, is_alone, .. } = moment;
        let own_ms = self.shows_ms(now_ms);
        let is_news = applied_ms != std::mem::replace(&mut self.applied_ms, applied_ms) && !leads;
        self.followed |= is_news && own_ms.is_some();
        if own_ms.is_none_or(|own_ms| applied_ms > own_ms) || is_news {
            self.set(now_ms, applied_ms);
        }
        if !leads || self.led {
            return;
        }
        // Two clocks that are independent must say that so much time has passed. Where others stamp, they know better.
        let noted = self.noted.filter(|noted| noted.now_ms <= now_ms && is_alone);
        let noted_ms = noted.map(|noted| {
            let passed_ms = wall_ms.saturating_add(NEAR_MS).saturating_sub(noted.wall_ms);
            noted.stamp_ms.saturating_add(passed_ms.min(now_ms - noted.now_ms))
        });
        let known_ms = self.shows_ms(now_ms).unwrap_or(0);
        if let Some(noted_ms) = noted_ms.filter(|noted_ms| *noted_ms > known_ms) {
            self.set(now_ms, noted_ms);
        }
        if is_planted(Bug::BelieveClocks) {
            self.set(now_ms, wall_ms.max(applied_ms));
        }
    }

    /// Whether it leads a cell that comes up again: it has stamped nothing since it began, and got nothing from others.
    fn begins(&self, leads: bool) -> bool {
        leads && !self.led && !self.followed
    }

    /// Whether it leads a cell that has come up again, and may still hear what time it is.
    fn asks(&mut self, moment: Moment) -> bool {
        let Moment { now_ms, majority_ms, leads, is_alone, .. } = moment;
        if !leads {
            self.asks_ms = None;
        }
        let is_unsure = self.begins(leads) && !is_alone && majority_ms.is_none();
        is_unsure && now_ms.saturating_sub(*self.asks_ms.get_or_insert(now_ms)) < ASK_MS
    }

    /// By how much time is to step, if this server leads, from what it is at the pace of the monotonic clock.
    fn step_ms(&mut self, moment: Moment, held_ms: u64) -> Option<u64> {
        let Moment { wall_ms, majority_ms, leads, is_alone, .. } = moment;
        // What a boot takes is taken once, with the first stamp, and however little it is: what several took would add
        // up, to be taken at once from jobs that came since.
        let booted = if leads { self.ahead_ms.take() } else { None };
        if let Some(majority_ms) = majority_ms {
            let ahead_ms = majority_ms.saturating_sub(held_ms);
            let behind_ms = self.behind_ms.map_or(ahead_ms, |behind_ms| behind_ms.min(ahead_ms));
            // A cell that comes up again has stood still for all of its jobs, but not for what it was behind before.
            let behind_ms = if self.begins(leads) { self.was_behind_ms.min(ahead_ms) } else { behind_ms };
            self.behind_ms = Some(behind_ms);
            return Some(ahead_ms - behind_ms).filter(|step_ms| *step_ms > NEAR_MS);
        }
        let passed_ms = u64::try_from(ahead(wall_ms, held_ms).saturating_sub(booted?)).ok()?;
        (is_alone && (1..=BOOT_MS_MAX).contains(&passed_ms)).then_some(passed_ms)
    }

    /// The operator says what time it is. Time never falls.
    pub(crate) fn believe(&mut self, now_ms: u64, stamp_ms: u64) {
        if self.shows_ms(now_ms).is_some_and(|own_ms| stamp_ms > own_ms) {
            self.set(now_ms, stamp_ms);
            self.stepped = true;
        }
    }

    /// What time it is, without moving it.
    pub(crate) fn shows_ms(&self, now_ms: u64) -> Option<u64> {
        self.anchor.map(|anchor| anchor.stamp_ms + now_ms.saturating_sub(anchor.now_ms))
    }

    /// Whether it has heard what time it is in the cell, or said so.
    pub(crate) fn is_sure(&self) -> bool {
        self.led || self.followed
    }

    /// Whether an entry is wanted that says what time it is. Asked once for each step.
    pub(crate) fn take_step(&mut self) -> bool {
        std::mem::take(&mut self.stepped)
    }

    fn set(&mut self, now_ms: u64, stamp_ms: u64) -> u64 {
        self.anchor = Some(Anchor { now_ms, stamp_ms });
        self.last_ms = stamp_ms;
        stamp_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const WALL_MS: u64 = 1_000 * HOUR_MS;

    fn alone(now_ms: u64, wall_ms: u64, applied_ms: u64) -> Moment {
        Moment { now_ms, wall_ms, applied_ms, majority_ms: None, leads: true, is_alone: true }
    }

    /// The note of a former process of the same boot, when the wall clock was right.
    fn noted(now_ms: u64) -> Noted {
        Noted::ThisBoot(TimeNote { now_ms, stamp_ms: WALL_MS, wall_ms: WALL_MS })
    }

    /// How far stamps of every 10 ms get within a second, the wall clock being off by `jump_ms` after the first.
    fn second(jump_ms: i64, majority: bool) -> u64 {
        let mut clock = StampClock::new(Noted::Nothing);
        let first = clock.stamp_ms(alone(500, WALL_MS, 0)).unwrap();
        let known = Moment { majority_ms: majority.then_some(WALL_MS), ..alone(500, WALL_MS, first) };
        clock.stamp_ms(known).unwrap();
        let stamps = (1..=100).map(|step| {
            let wall_ms = (WALL_MS + step * 10).saturating_add_signed(jump_ms);
            let majority_ms = majority.then_some(wall_ms);
            clock.stamp_ms(Moment { majority_ms, ..alone(500 + step * 10, wall_ms, first) }).unwrap()
        });
        stamps.last().unwrap() - first
    }

    #[test]
    fn stamps_follow_a_wall_clock_that_behaves() {
        assert_eq!(second(0, false), 1_000);
        assert_eq!(second(50, false), 1_050, "a small correction is taken over");
        assert_eq!(second(9_000, false), 1_100);
        assert_eq!(second(-9_000, false), 900);
    }

    #[test]
    fn a_jump_neither_freezes_nor_ends_anything() {
        assert_eq!(second(24 * HOUR_MS as i64, false), 1_000, "the pace of the monotonic clock");
        assert!((900..=1_000).contains(&second(-24 * HOUR_MS as i64, false)));
    }

    #[test]
    fn a_majority_moves_time() {
        assert_eq!(second(24 * HOUR_MS as i64, true), 1_000 + 24 * HOUR_MS);
    }

    #[test]
    fn a_process_that_begins_behind_goes_on_from_what_was_applied() {
        let mut clock = StampClock::new(Noted::Nothing);
        assert_eq!(clock.stamp_ms(alone(0, HOUR_MS, 3 * HOUR_MS)), Some(3 * HOUR_MS));
        assert_eq!(clock.stamp_ms(alone(1_000, HOUR_MS + 1_000, 3 * HOUR_MS)), Some(3 * HOUR_MS + 900));
    }

    #[test]
    fn a_restart_goes_on_with_the_boot_time_clock_whatever_the_wall_clock_shows() {
        for ahead_ms in [0, 24 * HOUR_MS] {
            let mut clock = StampClock::new(noted(5_000));
            let stamp_ms = clock.stamp_ms(alone(65_000, WALL_MS + 60_000 + ahead_ms, WALL_MS + 10));
            assert_eq!(stamp_ms, Some(WALL_MS + 60_000), "a minute has passed");
        }
        let mut clock = StampClock::new(noted(70_000));
        let stamp_ms = clock.stamp_ms(alone(65_000, WALL_MS + HOUR_MS, WALL_MS + 10));
        assert_eq!(stamp_ms, Some(WALL_MS + 10), "a note from the future is of another boot");
        let mut clock = StampClock::new(noted(0));
        let stamp_ms = clock.stamp_ms(alone(HOUR_MS, WALL_MS + 1_000, WALL_MS)).unwrap();
        assert!(stamp_ms <= WALL_MS + 1_000 + NEAR_MS, "the wall clock saw no hour pass");
    }

    #[test]
    fn after_a_boot_a_lone_server_believes_what_a_boot_takes_and_no_more() {
        for (ahead_ms, taken_ms) in [(8_000, 8_000), (BOOT_MS_MAX, BOOT_MS_MAX), (BOOT_MS_MAX + 1, 0)] {
            let mut clock = StampClock::new(Noted::Nothing);
            assert_eq!(clock.stamp_ms(alone(0, WALL_MS + ahead_ms, WALL_MS)), Some(WALL_MS + taken_ms));
        }
        let mut clock = StampClock::new(Noted::Nothing);
        clock.stamp_ms(alone(0, WALL_MS + BOOT_MS_MAX, WALL_MS));
        let stamp_ms = clock.stamp_ms(alone(10, WALL_MS + 2 * BOOT_MS_MAX, WALL_MS + BOOT_MS_MAX));
        assert_eq!(stamp_ms, Some(WALL_MS + BOOT_MS_MAX + 10), "once");
        let mut clock = StampClock::new(Noted::Nothing);
        let among_others = Moment { is_alone: false, ..alone(0, WALL_MS + HOUR_MS / 10, WALL_MS) };
        assert_eq!(clock.stamp_ms(among_others), None, "the others can be asked");
    }

    #[test]
    fn after_a_boot_a_lone_server_takes_what_its_wall_clock_has_passed_not_what_it_was_ahead() {
        let after = |was_ahead_ms: i64, passed_ms: u64, moved_ms: i64| {
            let wall_ms = WALL_MS.saturating_add_signed(was_ahead_ms);
            let note = TimeNote { now_ms: 70_000, stamp_ms: WALL_MS, wall_ms };
            let mut clock = StampClock::new(Noted::FormerBoot(note));
            let wall_ms = (wall_ms + passed_ms).saturating_add_signed(moved_ms);
            clock.stamp_ms(alone(0, wall_ms, WALL_MS)).unwrap() - WALL_MS
        };
        let hour_ms = HOUR_MS as i64;
        assert_eq!(after(6_700, 30_000, 0), 30_000, "it was 7 s ahead before");
        assert_eq!(after(-hour_ms, 30_000, 0), 30_000, "it was an hour behind before");
        assert_eq!(after(0, 30_000, -hour_ms), 0, "set back while the machine was off");
        assert_eq!(after(0, 30_000, hour_ms), 0, "set forward while the machine was off");
    }

    #[test]
    fn a_restart_counts_what_the_wall_clock_has_passed_although_it_was_set_back_before() {
        let note = TimeNote { now_ms: 5_000, stamp_ms: WALL_MS, wall_ms: WALL_MS - HOUR_MS };
        let mut clock = StampClock::new(Noted::ThisBoot(note));
        assert_eq!(clock.stamp_ms(alone(65_000, WALL_MS - HOUR_MS + 60_000, WALL_MS)), Some(WALL_MS + 60_000));
    }

    #[test]
    fn the_operator_moves_time_forward_only() {
        let mut clock = StampClock::new(Noted::Nothing);
        clock.stamp_ms(alone(0, WALL_MS + 48 * HOUR_MS, WALL_MS));
        assert!(!clock.take_step());
        clock.believe(10, WALL_MS + 48 * HOUR_MS);
        assert!(clock.take_step() && !clock.take_step());
        let moved = clock.stamp_ms(alone(10, WALL_MS + 48 * HOUR_MS + 10, WALL_MS)).unwrap();
        assert!(moved >= WALL_MS + 48 * HOUR_MS);
        clock.believe(10, WALL_MS);
        assert!(clock.stamp_ms(alone(20, WALL_MS + 48 * HOUR_MS + 20, WALL_MS)).unwrap() >= moved);
    }

    #[test]
    fn whoever_follows_keeps_the_time_of_whoever_leads() {
        let mut clock = StampClock::new(Noted::Nothing);
        let follower = |now_ms, applied_ms| Moment { leads: false, ..alone(now_ms, 9 * WALL_MS, applied_ms) };
        assert_eq!(clock.stamp_ms(follower(0, 0)), None);
        assert_eq!(clock.stamp_ms(follower(10, HOUR_MS)), Some(HOUR_MS));
        assert_eq!(clock.stamp_ms(follower(1_010, HOUR_MS)), Some(HOUR_MS + 1_000));
        assert_eq!(clock.stamp_ms(follower(1_020, HOUR_MS + 500)), Some(HOUR_MS + 500), "its time was slower");
        assert_eq!(clock.stamp_ms(alone(2_020, 9 * WALL_MS, HOUR_MS + 500)), Some(HOUR_MS + 1_500));
    }

    fn among_others(now_ms: u64, applied_ms: u64, majority_ms: u64) -> Moment {
        let majority_ms = (majority_ms > 0).then_some(majority_ms);
        Moment { majority_ms, is_alone: false, ..alone(now_ms, 9 * WALL_MS, applied_ms) }
    }

    #[test]
    fn what_entries_lose_on_their_way_is_not_made_good_at_once() {
        let mut clock = StampClock::new(noted(0));
        let follower =
            |now_ms, applied_ms| Moment { leads: false, ..among_others(now_ms, applied_ms, WALL_MS + now_ms) };
        assert_eq!(clock.stamp_ms(follower(0, WALL_MS)), Some(WALL_MS));
        assert_eq!(clock.stamp_ms(follower(40_000, WALL_MS + 10_000)), Some(WALL_MS + 10_000), "30 s on its way");
        let stamp_ms = clock.stamp_ms(among_others(41_000, WALL_MS + 10_000, WALL_MS + 41_000)).unwrap();
        assert_eq!(stamp_ms, WALL_MS + 41_000, "another entry has shown that the cell is not behind");
        let mut clock = StampClock::new(Noted::Nothing);
        let late = |now_ms, applied_ms| Moment { leads: false, ..among_others(now_ms, applied_ms, 0) };
        assert_eq!(clock.stamp_ms(late(0, WALL_MS)), Some(WALL_MS));
        assert_eq!(clock.stamp_ms(late(40_000, WALL_MS + 10_000)), Some(WALL_MS + 10_000));
        let stamp_ms = clock.stamp_ms(among_others(41_000, WALL_MS + 10_000, WALL_MS + 41_000)).unwrap();
        assert_eq!(stamp_ms, WALL_MS + 11_100, "time goes a little faster");
        let stamp_ms = clock.stamp_ms(among_others(41_000, WALL_MS + 10_000, WALL_MS + 81_000)).unwrap();
        assert_eq!(stamp_ms, WALL_MS + 51_000, "a move of the clocks is believed");
    }

    #[test]
    fn whoever_leads_a_cell_that_comes_up_asks_what_time_it_is() {
        let comes_up = || {
            let mut clock = StampClock::new(noted(0));
            assert_eq!(clock.stamp_ms(among_others(500_000, WALL_MS, 0)), None);
            clock
        };
        let stamp_ms = comes_up().stamp_ms(among_others(501_000, WALL_MS, WALL_MS + 60_000));
        assert_eq!(stamp_ms, Some(WALL_MS + 60_000), "a minute has passed");
        let mut clock = comes_up();
        let stamp_ms = clock.stamp_ms(among_others(500_000 + ASK_MS, WALL_MS, 0));
        assert_eq!(stamp_ms, Some(WALL_MS + ASK_MS), "it does not wait for ever");
        let stamp_ms = clock.stamp_ms(among_others(501_000 + ASK_MS, WALL_MS, WALL_MS + 60_000)).unwrap();
        assert!(stamp_ms <= WALL_MS + ASK_MS + 1_100, "jobs have come since");
    }
    #[test]
    fn a_cell_that_comes_up_takes_what_it_stood_still_and_not_what_it_was_behind() {
        let note = TimeNote { now_ms: 0, stamp_ms: WALL_MS, wall_ms: WALL_MS + 20_000 };
        for noted in [Noted::ThisBoot(note), Noted::FormerBoot(note)] {
            let mut clock = StampClock::new(noted);
            let stamp_ms = clock.stamp_ms(among_others(60_000, WALL_MS, WALL_MS + 80_000));
            assert_eq!(stamp_ms, Some(WALL_MS + 60_000), "jobs have come since it was 20 s behind");
        }
    }
}
