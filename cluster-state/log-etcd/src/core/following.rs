//! The watch of the log: entries in order, none left out, and the marks among them.
//!
//! ```text
//!   Idle ─▶ Reading (marks, snapshot, entries; see `reading`) ─▶ Watching ──broken──▶ Broken ─▶ Watching again
//!     ▲──────────────────────── compacted, an entry missed ─────────┴────────────────────┘
//! ```

use super::call::{Command, Pair, WatchEvent};
use super::keys::EntryId;
use super::reading::Reading;
use super::records::{self, CellRecord, Manifest};
use super::{EtcdCore, index};
use bytes::Bytes;
use ohm_log::{Alarm, LogEvent, LogFailure};

/// What is in the log is shown by the watch within this time, or never: a watch that goes on gets more.
const EXPECTED_MS: u64 = 3_000;

/// Where the copy is, and what marks it has seen.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) stage: Stage,
    /// Everything up to this revision has been taken in.
    pub(super) position: u64,
    /// The last entry that was taken in.
    last: Option<(u64, EntryId)>,
    /// The snapshot that the copy was given.
    pub(super) installed: u64,
    /// What this process was told about the last entry of the one before; compared once.
    pub(super) noted: Option<(u64, EntryId)>,
    /// The version of `head` with the last entry: how many there were.
    pub(super) count: u64,
    /// The newest snapshot, and the revision of the pointer.
    pub(super) pointer: Option<Manifest>,
    pub(super) pointer_revision: u64,
    /// Which entries are gone, and the revision of the mark.
    pub(super) trimmed_below: u64,
    pub(super) trim_revision: u64,
    /// An entry whose `head` has not come yet.
    half: Option<(u64, EntryId, Bytes)>,
    /// A revision that the watch must come to, and since when it has not gone on.
    expected: Option<(u64, u64)>,
    pub(super) attempts: u64,
}

#[derive(Debug)]
pub(super) enum Stage {
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
            pointer: None,
            pointer_revision: 0,
            trimmed_below: 0,
            trim_revision: 0,
            half: None,
            expected: None,
            attempts: 0,
        }
    }

    pub(super) fn is_watching(&self) -> bool {
        matches!(self.stage, Stage::Watching(_))
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
}

impl EtcdCore {
    pub(super) fn tick_following(&mut self, now_ms: u64) {
        if !self.may_send(now_ms) {
            return;
        }
        match self.following.stage {
            Stage::Idle => self.begin_reading(),
            Stage::Broken => self.watch_on(),
            Stage::Reading(_) => self.go_on_reading(),
            Stage::Watching(_) => self.look_for_expected(now_ms),
        }
    }

    /// The log holds something at `revision`: the watch should show it soon.
    pub(super) fn expect(&mut self, now_ms: u64, revision: u64) {
        if revision > self.following.position {
            let known = self.following.expected.filter(|(expected, _)| *expected >= revision);
            self.following.expected = known.or(Some((revision, now_ms)));
        }
    }

    /// A mark stands at `revision`, and the last one that was seen here at `seen`.
    pub(super) fn expect_mark(&mut self, now_ms: u64, revision: u64, seen: u64) {
        match revision <= self.following.position {
            true if revision != seen && self.following.is_watching() => self.missed(revision, 0),
            _ => self.expect(now_ms, revision),
        }
    }

    /// A watch that does not show what is there has lost it.
    fn look_for_expected(&mut self, now_ms: u64) {
        let Some((revision, since_ms)) = self.following.expected else { return };
        if revision <= self.following.position {
            self.following.expected = None;
        } else if since_ms + EXPECTED_MS <= now_ms {
            self.missed(revision, 0);
        }
    }

    /// Watches from the first revision that was not taken in.
    pub(super) fn watch_on(&mut self) {
        let watch = self.next_watch;
        self.next_watch += 1;
        self.following.half = None;
        self.following.stage = Stage::Watching(watch);
        let (prefix, from) = (self.keys.log(), self.following.position + 1);
        self.commands.push(Command::Watch { watch, prefix, from, deletions: false });
    }

    pub(super) fn watch_ended(&mut self, now_ms: u64, watch: u64, compacted: bool, reason: &str) {
        if self.peers.watch == Some(watch) {
            self.peers.watch = None;
            self.watch_went_wrong(now_ms, reason);
        }
        if matches!(self.following.stage, Stage::Watching(own) if own == watch) {
            self.following.stage = if compacted { Stage::Idle } else { Stage::Broken };
            if !compacted {
                self.watch_went_wrong(now_ms, reason);
            }
        }
    }

    pub(super) fn watched(&mut self, now_ms: u64, watch: u64, events: Vec<WatchEvent>) {
        if self.peers.watch == Some(watch) {
            return self.peers_watched(events);
        }
        if let Some((_, since_ms)) = &mut self.following.expected {
            *since_ms = now_ms;
        }
        for event in events {
            // An event may end the watch that it came through.
            let is_wanted = matches!(self.following.stage, Stage::Watching(own) if own == watch);
            if let WatchEvent::Put(pair) = event
                && is_wanted
                && pair.modified > self.following.position
                && self.failure.is_none()
            {
                self.take_in(pair);
            }
        }
    }

    /// One change of the log. What is of one revision belongs together: an entry comes before its `head`.
    fn take_in(&mut self, pair: Pair) {
        let revision = pair.modified;
        if let Some(id) = self.keys.entry_of(&pair.key) {
            self.following.half = Some((revision, id, pair.value));
            return;
        }
        if pair.key == self.keys.head() {
            let half = self.following.half.take().filter(|(half, ..)| *half == revision);
            let is_next = pair.version == self.following.count + 1;
            let (Some((_, id, value)), true) = (half, is_next) else { return self.missed(revision, pair.version) };
            self.following.count = pair.version;
            self.following.position = revision;
            return self.yield_entry(revision, id, &value);
        }
        self.following.position = revision;
        self.take_mark(&pair);
    }

    /// Something was lost on the way: what is there is read again. `version` is that of the entry which showed it.
    fn missed(&mut self, revision: u64, version: u64) {
        self.following.expected = None;
        if let Stage::Watching(watch) = self.following.stage {
            self.commands.push(Command::Unwatch(watch));
        }
        let missing = version.saturating_sub(self.following.count + 1);
        self.tell(LogEvent::Alarm(Alarm::EventsMissed { missing, at: index(revision) }));
        self.following.stage = Stage::Idle;
    }

    /// A mark that is not an entry. Those of other versions are none of ours.
    pub(super) fn take_mark(&mut self, pair: &Pair) {
        if pair.key == self.keys.pointer() {
            match Manifest::of(&pair.value) {
                Ok(manifest) => {
                    self.following.pointer = Some(manifest);
                    self.following.pointer_revision = pair.modified;
                }
                Err(error) => self.broken("the pointer to the snapshot", &error),
            }
        } else if pair.key == self.keys.trim() {
            match records::trim_of(&pair.value) {
                Ok(below) => {
                    self.trimming.somebody_trimmed(self.following.trimmed_below);
                    self.following.trimmed_below = below;
                    self.following.trim_revision = pair.modified;
                }
                Err(error) => self.broken("the mark of the last trim", &error),
            }
        } else if pair.key == self.keys.cell() {
            match CellRecord::of(&pair.value) {
                Ok(cell) if cell == self.config.note.cell => {}
                Ok(_) => self.fail(LogFailure::Engine(RESTORED.into())),
                Err(error) => self.broken("who this cell is", &error),
            }
        }
    }

    pub(super) fn yield_entry(&mut self, revision: u64, id: EntryId, value: &Bytes) {
        let bytes = match records::entry_of(value) {
            Ok(bytes) => bytes,
            Err(error) => return self.broken(&format!("entry {revision}"), &error),
        };
        self.following.last = Some((revision, id));
        self.trimming.keep(revision, id);
        let own = id.proposer == self.config.proposer;
        let token = if own { self.appends.committed(id.sequence) } else { None };
        self.tell(LogEvent::Committed { index: index(revision), bytes, token });
    }
}

/// What is said when etcd has forgotten what it had acknowledged.
pub(super) const RESTORED: &str = "etcd holds another state than before, as after a restore from a backup: start this \
                                   server again, and it goes on from what is there";
