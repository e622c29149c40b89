//! The watch of the log: entries in order, none left out, and the marks among them.
//!
//! ```text
//!   Idle ─▶ Reading (marks, snapshot, entries; see `reading`) ─▶ Watching ──broken──▶ Broken ─▶ Watching again
//!     ▲──────────────────────── compacted, an entry missed ─────────┴────────────────────┘
//! ```

use super::appends::Appends;
use super::call::{Pair, Response, WatchEvent};
use super::keys::EntryId;
use super::marks::{Expected, Marks};
use super::reading::{Brought, Reading};
use super::records::{self, CellRecord, Manifest};
use super::shared::Shared;
use super::trimming::Trimming;
use bytes::Bytes;
use ohm_log::{Alarm, LogEvent};
use ohm_model::Index;

/// What is in the log is shown by the watch within this time, or never: a watch that goes on gets more.
const EXPECTED_MS: u64 = 3_000;

/// Where the copy is, and what marks it has seen.
#[derive(Debug)]
pub(super) struct Following {
    stage: Stage,
    /// Everything up to this revision has been taken in.
    position: u64,
    /// The last entry that was taken in.
    last: Option<(u64, EntryId)>,
    /// The snapshot that the copy was given.
    installed: u64,
    /// What this process was told about the last entry of the one before; compared once.
    noted: Option<(u64, EntryId)>,
    /// The version of `head` with the last entry: how many there were.
    count: u64,
    pub(super) marks: Marks,
    /// An entry whose `head` has not come yet.
    half: Option<(u64, EntryId, Bytes)>,
    /// A revision that the watch must come to, and since when it has not gone on.
    expected: Option<(u64, u64)>,
    attempts: u64,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Reading(Reading),
    Watching(u64),
    Broken,
}

impl Following {
    pub(super) fn new(noted: Option<(u64, EntryId)>) -> Self {
        Following {
            stage: Stage::Idle,
            position: 0,
            last: None,
            installed: 0,
            noted,
            count: 0,
            marks: Marks::default(),
            half: None,
            expected: None,
            attempts: 0,
        }
    }

    /// Whether everything that was there at the start has been taken in.
    pub(super) fn has_read(&self) -> bool {
        self.position > 0
    }

    /// Up to where the log was taken in, if it is being watched.
    pub(super) fn watched_to(&self) -> Option<u64> {
        matches!(self.stage, Stage::Watching(_)).then_some(self.position)
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        self.expected.map(|(_, since_ms)| since_ms + EXPECTED_MS)
    }

    pub(super) fn last(&self) -> Option<(u64, EntryId)> {
        self.last
    }

    /// The index of the last entry or snapshot that was taken in.
    pub(super) fn applied(&self) -> u64 {
        self.last.map_or(0, |(index, _)| index).max(self.installed)
    }

    pub(super) fn tick(&mut self, now_ms: u64, shared: &mut Shared) {
        if !shared.calls.may_send(now_ms) {
            return;
        }
        match &mut self.stage {
            Stage::Idle => self.begin_reading(shared),
            Stage::Broken => self.watch_on(shared),
            Stage::Reading(reading) => reading.go_on(shared),
            Stage::Watching(_) => self.look_for_expected(now_ms, shared),
        }
    }

    fn begin_reading(&mut self, shared: &mut Shared) {
        self.attempts += 1;
        let seen = self.seen().map(|(_, id)| id);
        self.stage = Stage::Reading(Reading::begin(self.attempts, seen, shared));
    }

    /// The last entry that this server knows to be in the log.
    fn seen(&self) -> Option<(u64, EntryId)> {
        self.last.or(self.noted)
    }

    /// The watch should show this soon, or has missed it.
    pub(super) fn expect(&mut self, now_ms: u64, expected: Expected, shared: &mut Shared) {
        match expected {
            Expected::Mark(revision, seen)
                if revision <= self.position && revision != seen && self.watched_to().is_some() =>
            {
                self.missed(revision, 0, shared);
            }
            Expected::Entry(revision) | Expected::Mark(revision, _) => self.wait_for(now_ms, revision),
        }
    }

    /// The log holds something at `revision`: the watch should show it soon.
    fn wait_for(&mut self, now_ms: u64, revision: u64) {
        if revision > self.position {
            let known = self.expected.filter(|(expected, _)| *expected >= revision);
            self.expected = known.or(Some((revision, now_ms)));
        }
    }

    /// A watch that does not show what is there has lost it.
    fn look_for_expected(&mut self, now_ms: u64, shared: &mut Shared) {
        let Some((revision, since_ms)) = self.expected else { return };
        if revision <= self.position {
            self.expected = None;
        } else if since_ms + EXPECTED_MS <= now_ms {
            self.missed(revision, 0, shared);
        }
    }

    /// Watches from the first revision that was not taken in.
    fn watch_on(&mut self, shared: &mut Shared) {
        self.half = None;
        self.stage = Stage::Watching(shared.calls.watch(shared.keys.log(), self.position.saturating_add(1), false));
    }

    /// A watch has ended; true if it was ours and broke.
    pub(super) fn watch_ended(&mut self, watch: u64, compacted: bool) -> bool {
        let is_ours = matches!(self.stage, Stage::Watching(own) if own == watch);
        if is_ours {
            self.stage = if compacted { Stage::Idle } else { Stage::Broken };
        }
        is_ours && !compacted
    }

    pub(super) fn watched(
        &mut self,
        now_ms: u64,
        watch: u64,
        events: Vec<WatchEvent>,
        appends: &mut Appends,
        trimming: &mut Trimming,
        shared: &mut Shared,
    ) {
        if let Some((_, since_ms)) = &mut self.expected {
            *since_ms = now_ms;
        }
        for event in events {
            // An event may end the watch that it came through.
            let is_wanted = matches!(self.stage, Stage::Watching(own) if own == watch);
            if let WatchEvent::Put(pair) = event
                && is_wanted
                && pair.modified > self.position
                && !shared.told.has_failed()
            {
                self.take_in(pair, appends, trimming, shared);
            }
        }
    }

    /// One change of the log. What is of one revision belongs together: an entry comes before its `head`.
    fn take_in(&mut self, pair: Pair, appends: &mut Appends, trimming: &mut Trimming, shared: &mut Shared) {
        let revision = pair.modified;
        if let Some(id) = shared.keys.entry_of(&pair.key) {
            self.half = Some((revision, id, pair.value));
            return;
        }
        if pair.key == shared.keys.head() {
            let half = self.half.take().filter(|(half, ..)| *half == revision);
            let is_next = self.count.checked_add(1) == Some(pair.version);
            let (Some((_, id, value)), true) = (half, is_next) else {
                return self.missed(revision, pair.version, shared);
            };
            self.count = pair.version;
            self.position = revision;
            return self.yield_entry(revision, id, &value, appends, trimming, shared);
        }
        self.position = revision;
        self.take_mark(&pair, trimming, shared);
    }

    /// Something was lost on the way: what is there is read again. `version` is that of the entry which showed it.
    fn missed(&mut self, revision: u64, version: u64, shared: &mut Shared) {
        self.expected = None;
        if let Stage::Watching(watch) = self.stage {
            shared.calls.unwatch(watch);
        }
        let missing = version.saturating_sub(self.count).saturating_sub(1);
        shared.told.tell(LogEvent::Alarm(Alarm::EventsMissed { missing, at: Index(revision) }));
        self.stage = Stage::Idle;
    }

    /// A mark that is not an entry. Those of other versions are none of ours.
    fn take_mark(&mut self, pair: &Pair, trimming: &mut Trimming, shared: &mut Shared) {
        if pair.key == shared.keys.pointer() {
            match Manifest::of(&pair.value) {
                Ok(manifest) => {
                    self.marks.pointer = Some(manifest);
                    self.marks.pointer_revision = pair.modified;
                }
                Err(error) => shared.told.broken("the pointer to the snapshot", &error),
            }
        } else if pair.key == shared.keys.trim() {
            match records::trim_of(&pair.value) {
                Ok(below) => {
                    trimming.somebody_trimmed(self.marks.trimmed_below);
                    self.marks.trimmed_below = below;
                    self.marks.trim_revision = pair.modified;
                }
                Err(error) => shared.told.broken("the mark of the last trim", &error),
            }
        } else if pair.key == shared.keys.cell() {
            match CellRecord::of(&pair.value) {
                Ok(cell) if cell == shared.config.note.cell => {}
                Ok(_) => shared.told.was_restored(),
                Err(error) => shared.told.broken("who this cell is", &error),
            }
        }
    }

    pub(super) fn marks_read(
        &mut self,
        attempt: u64,
        answer: Option<Response>,
        trimming: &mut Trimming,
        shared: &mut Shared,
    ) {
        if !matches!(&self.stage, Stage::Reading(reading) if reading.is(attempt)) {
            return;
        }
        // What was read so far is of a revision that is gone, or an answer was lost: it is read again.
        let Some(Response::Txn { revision, found, .. }) = answer else {
            self.stage = Stage::Idle;
            return;
        };
        let head = found.iter().find(|pair| pair.key == shared.keys.head());
        let (count, newest) = head.map_or((0, 0), |pair| (pair.version, pair.modified));
        found.iter().for_each(|pair| self.take_mark(pair, trimming, shared));
        if !self.is_the_same_log(&found, newest, shared) {
            shared.told.was_restored();
        }
        if shared.told.has_failed() {
            return;
        }
        self.count = count;
        let applied = self.applied();
        // A copy that just starts takes the snapshot; one that runs only if entries that it lacks are gone.
        let needs_snapshot = applied == 0 || applied.saturating_add(1) < self.marks.trimmed_below;
        let is_newer = |manifest: &Manifest| needs_snapshot && manifest.index > applied;
        let snapshot = self.marks.pointer.clone().filter(is_newer);
        if let Stage::Reading(reading) = &mut self.stage {
            reading.go_to(revision, snapshot, shared);
        }
    }

    /// Whether etcd still holds the last entry that was seen here, or has trimmed it.
    fn is_the_same_log(&mut self, found: &[Pair], newest: u64, shared: &Shared) -> bool {
        let Some((index, id)) = self.seen() else { return newest >= self.applied() };
        self.noted = None;
        let key = shared.keys.entry(id);
        let is_there = found.iter().any(|pair| pair.key == key && pair.modified == index);
        newest >= index && (is_there || index < self.marks.trimmed_below)
    }

    pub(super) fn chunk_read(
        &mut self,
        attempt: u64,
        number: usize,
        answer: Option<Response>,
        appends: &mut Appends,
        trimming: &mut Trimming,
        shared: &mut Shared,
    ) {
        if let Stage::Reading(reading) = &mut self.stage
            && reading.is(attempt)
        {
            let brought = reading.chunk_read(number, answer);
            self.take_brought(brought, appends, trimming, shared);
        }
    }

    pub(super) fn entries_read(
        &mut self,
        attempt: u64,
        answer: Option<Response>,
        appends: &mut Appends,
        trimming: &mut Trimming,
        shared: &mut Shared,
    ) {
        let applied = self.applied();
        if let Stage::Reading(reading) = &mut self.stage
            && reading.is(attempt)
        {
            let brought = reading.entries_read(applied, answer, shared);
            self.take_brought(brought, appends, trimming, shared);
        }
    }

    fn take_brought(&mut self, brought: Brought, appends: &mut Appends, trimming: &mut Trimming, shared: &mut Shared) {
        let Stage::Reading(reading) = &mut self.stage else { return };
        match brought {
            Brought::More => reading.go_on(shared),
            Brought::Nothing => self.stage = Stage::Idle,
            Brought::Broken(what, reason) => shared.told.broken(&what, &reason),
            Brought::Snapshot(index, pieces) => {
                self.installed = index;
                let lost = appends.skipped(index);
                lost.into_iter().for_each(|token| shared.told.tell(LogEvent::Unknown { token }));
                shared.told.tell(LogEvent::InstallSnapshot { index: Index(index), pieces });
                reading.installed(shared);
            }
            Brought::Applied(old) => {
                old.into_iter().for_each(|(revision, id)| trimming.keep(revision, id));
                reading.go_on(shared);
            }
            Brought::Everything { revision, applied, entries } => {
                applied.into_iter().for_each(|(revision, id)| trimming.keep(revision, id));
                for (revision, id, value) in entries {
                    self.yield_entry(revision, id, &value, appends, trimming, shared);
                }
                self.position = revision;
                self.watch_on(shared);
            }
        }
    }

    fn yield_entry(
        &mut self,
        revision: u64,
        id: EntryId,
        value: &Bytes,
        appends: &mut Appends,
        trimming: &mut Trimming,
        shared: &mut Shared,
    ) {
        // Whoever else writes two keys at once would have two entries at one index, and every copy would end there.
        if self.applied() >= revision {
            return shared.told.broken(&format!("entry {revision}"), &"another one was written at the same revision");
        }
        let bytes = match records::entry_of(value) {
            Ok(bytes) => bytes,
            Err(error) => return shared.told.broken(&format!("entry {revision}"), &error),
        };
        self.last = Some((revision, id));
        trimming.keep(revision, id);
        let own = id.proposer == shared.config.proposer;
        let token = if own { appends.committed(id.sequence) } else { None };
        shared.told.tell(LogEvent::Committed { index: Index(revision), bytes, token });
    }
}
