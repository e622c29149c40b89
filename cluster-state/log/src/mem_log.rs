//! A log in memory that is as unkind as an engine may be: indices skip, appends wait and overtake each other, outcomes
//! stay unknown. Everything is drawn from a seed.

use crate::{
    Bytes, ChangeRefusal, DeliverError, Delivery, Log, LogEvent, LogFailure, LogRequest, Refusal, SubmitError,
    check_lengths,
};
use ohm_model::Index;
use ohm_stdx::Prng;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Requests without an answer that one handle may have.
const QUEUE_LIMIT: usize = 1024;
/// Entries that one poll yields at most.
const POLL_ENTRIES_MAX: usize = 256;
/// Snapshots that are kept.
const SNAPSHOTS_KEPT: usize = 2;

/// How unkind the log is. Rates are in permille of the appends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemFaults {
    /// How long an append may take. Above 0, appends overtake each other.
    pub delay_ms_max: u64,
    /// How many indices may be skipped before an entry.
    pub gap_max: u64,
    /// How often the outcome stays unknown; half of those entries are in the log.
    pub unknown_permille: u64,
    /// How often an append is refused.
    pub refused_permille: u64,
    /// How often a snapshot is not saved.
    pub snapshot_failed_permille: u64,
}

impl MemFaults {
    /// Draws how unkind to be: some runs are calm in one respect, some in another.
    pub fn drawn(dice: &mut Prng) -> Self {
        let mut sometimes = |most: u64| if dice.chance(500) { dice.below(most + 1) } else { 0 };
        MemFaults {
            delay_ms_max: sometimes(50),
            gap_max: sometimes(5),
            unknown_permille: sometimes(300),
            refused_permille: sometimes(300),
            snapshot_failed_permille: sometimes(300),
        }
    }
}

/// What outlives a crash of those who use it. Several copies may have it open at once.
#[derive(Clone)]
pub struct MemStore(Rc<RefCell<Store>>);

/// One copy's handle of a [`MemStore`].
pub struct MemLog {
    store: Rc<RefCell<Store>>,
    reader: u64,
}

struct Store {
    dice: Prng,
    faults: MemFaults,
    now_ms: u64,
    last: u64,
    entries: BTreeMap<u64, Stored>,
    snapshots: VecDeque<(u64, Vec<Bytes>)>,
    trimmed_below: u64,
    /// By the time they are due, then by the order of submission.
    due: BTreeMap<(u64, u64), Due>,
    next_due: u64,
    readers: BTreeMap<u64, Reader>,
    next_reader: u64,
}

struct Stored {
    bytes: Bytes,
    /// Who waits for it: reader and token.
    author: Option<(u64, u64)>,
}

enum Due {
    Land { bytes: Bytes, author: Option<(u64, u64)> },
    Answer { reader: u64, event: LogEvent },
}

struct Reader {
    /// The last index yielded.
    position: u64,
    answers: VecDeque<LogEvent>,
    /// Requests without an answer.
    unanswered: usize,
}

impl MemStore {
    /// An empty log with these faults, drawn from `seed`.
    pub fn new(seed: u64, faults: MemFaults) -> Self {
        MemStore(Rc::new(RefCell::new(Store {
            dice: Prng::new(seed),
            faults,
            now_ms: 0,
            last: 0,
            entries: BTreeMap::new(),
            snapshots: VecDeque::new(),
            trimmed_below: 0,
            due: BTreeMap::new(),
            next_due: 0,
            readers: BTreeMap::new(),
            next_reader: 0,
        })))
    }

    /// A handle that begins with the newest snapshot. Dropping it is the crash of its process: what it had submitted
    /// may still land.
    pub fn open(&self) -> MemLog {
        let mut store = self.0.borrow_mut();
        let reader = store.next_reader;
        store.next_reader += 1;
        let answers = VecDeque::from([LogEvent::Leader { member: None, here: true }]);
        store.readers.insert(reader, Reader { position: 0, answers, unanswered: 0 });
        MemLog { store: Rc::clone(&self.0), reader }
    }
}

impl Log for MemLog {
    fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        check_lengths(&request)?;
        self.store.borrow_mut().submit(self.reader, now_ms, request)
    }

    fn deliver(&mut self, _now_ms: u64, _delivery: Delivery) -> Result<(), DeliverError> {
        Err(DeliverError::Ended)
    }

    fn poll(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let mut store = self.store.borrow_mut();
        store.settle(now_ms);
        store.yield_to(self.reader, out);
        Ok(())
    }

    fn wake_ms(&self) -> Option<u64> {
        let store = self.store.borrow();
        let reader = store.readers.get(&self.reader)?;
        if !reader.answers.is_empty() || reader.position < store.newest() {
            return Some(store.now_ms);
        }
        store.due.keys().next().map(|(due_ms, _)| *due_ms)
    }
}

impl Drop for MemLog {
    fn drop(&mut self) {
        self.store.borrow_mut().readers.remove(&self.reader);
    }
}

impl Store {
    fn submit(&mut self, reader: u64, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        self.now_ms = self.now_ms.max(now_ms);
        let queued = self.readers.get(&reader).map_or(0, |reader| reader.unanswered);
        if queued >= QUEUE_LIMIT {
            return Err(SubmitError::Busy { queued });
        }
        match request {
            LogRequest::Append { token, bytes } => self.draw_fate(reader, token, bytes),
            LogRequest::SaveSnapshot { index, pieces } => {
                let event = self.save_snapshot(reader, index, pieces);
                self.schedule(Due::Answer { reader, event });
            }
            LogRequest::Read { token } => {
                // What has not landed yet was not acknowledged either.
                let event = LogEvent::Readable { token, index: Index(self.newest()) };
                self.schedule(Due::Answer { reader, event });
            }
            LogRequest::ChangeMembers { token, .. } => {
                let event = LogEvent::Refused { token, reason: ChangeRefusal::NotHere.into() };
                self.schedule(Due::Answer { reader, event });
            }
            LogRequest::Trim { below } => {
                self.trim(below);
                return Ok(());
            }
            LogRequest::Transfer { .. } => return Ok(()),
        }
        if let Some(reader) = self.readers.get_mut(&reader) {
            reader.unanswered += 1;
        }
        Ok(())
    }

    fn draw_fate(&mut self, reader: u64, token: u64, bytes: Bytes) {
        if self.dice.chance(self.faults.refused_permille) {
            let reason = if self.dice.chance(500) { Refusal::Superseded } else { Refusal::Overloaded };
            self.schedule(Due::Answer { reader, event: LogEvent::Refused { token, reason } });
        } else if self.dice.chance(self.faults.unknown_permille) {
            self.schedule(Due::Answer { reader, event: LogEvent::Unknown { token } });
            if self.dice.chance(500) {
                self.schedule(Due::Land { bytes, author: None });
            }
        } else {
            self.schedule(Due::Land { bytes, author: Some((reader, token)) });
        }
    }

    fn schedule(&mut self, due: Due) {
        let due_ms = self.now_ms + self.dice.below(self.faults.delay_ms_max + 1);
        self.due.insert((due_ms, self.next_due), due);
        self.next_due += 1;
    }

    /// Does what is due.
    fn settle(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some(first) = self.due.first_entry()
            && first.key().0 <= self.now_ms
        {
            match first.remove() {
                Due::Land { bytes, author } => {
                    self.last += 1 + self.dice.below(self.faults.gap_max + 1);
                    self.entries.insert(self.last, Stored { bytes, author });
                }
                Due::Answer { reader, event } => self.answer(reader, event),
            }
        }
    }

    fn answer(&mut self, reader: u64, event: LogEvent) {
        if let Some(reader) = self.readers.get_mut(&reader) {
            reader.answers.push_back(event);
        }
    }

    fn save_snapshot(&mut self, reader: u64, index: Index, pieces: Vec<Bytes>) -> LogEvent {
        let failed = |reason: &str| LogEvent::SnapshotFailed { index, reason: reason.into() };
        let yielded = self.readers.get(&reader).map_or(0, |reader| reader.position);
        let newest = self.snapshots.back().map_or(0, |(newest, _)| *newest);
        if index.0 > yielded || index.0 <= newest {
            return failed(&format!(
                "index {index} is not above the newest snapshot, {newest}, and yielded, {yielded}"
            ));
        }
        if self.dice.chance(self.faults.snapshot_failed_permille) {
            return failed("injected fault");
        }
        self.snapshots.push_back((index.0, pieces));
        if self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.pop_front();
        }
        LogEvent::SnapshotSaved { index }
    }

    fn trim(&mut self, below: Index) {
        let covered = self.snapshots.front().map_or(0, |(oldest, _)| oldest + 1);
        let kept = self.entries.split_off(&below.0.min(covered));
        let dropped = std::mem::replace(&mut self.entries, kept);
        self.trimmed_below = self.trimmed_below.max(below.0.min(covered));
        for (index, stored) in dropped {
            if let Some((reader, token)) = stored.author
                && self.readers.get(&reader).is_some_and(|reader| reader.position < index)
            {
                self.answer(reader, LogEvent::Unknown { token });
            }
        }
    }

    /// The index that a reader has reached once it has seen everything.
    fn newest(&self) -> u64 {
        let entry = self.entries.keys().next_back().copied().unwrap_or(0);
        entry.max(self.snapshots.back().map_or(0, |(index, _)| *index))
    }

    fn yield_to(&mut self, reader: u64, out: &mut Vec<LogEvent>) {
        let Some(reader_state) = self.readers.get_mut(&reader) else { return };
        let started = reader_state.position != 0;
        if (!started || reader_state.position + 1 < self.trimmed_below)
            && let Some((index, pieces)) = self.snapshots.back()
            && *index > reader_state.position
        {
            for stored in self.entries.range_mut(reader_state.position + 1..=*index).map(|(_, stored)| stored) {
                if let Some((_, token)) = stored.author.take_if(|(author, _)| *author == reader) {
                    reader_state.answers.push_back(LogEvent::Unknown { token });
                }
            }
            reader_state.position = *index;
            out.push(LogEvent::InstallSnapshot { index: Index(*index), pieces: pieces.clone() });
        }
        for (index, stored) in self.entries.range_mut(reader_state.position + 1..).take(POLL_ENTRIES_MAX) {
            reader_state.position = *index;
            let token = stored.author.filter(|(author, _)| *author == reader).map(|(_, token)| token);
            reader_state.unanswered -= usize::from(token.is_some());
            out.push(LogEvent::Committed { index: Index(*index), bytes: stored.bytes.clone(), token });
        }
        for answer in reader_state.answers.drain(..) {
            reader_state.unanswered -= usize::from(!matches!(answer, LogEvent::Leader { .. }));
            out.push(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{self, Engine};

    struct InMemory(MemStore);

    impl Engine for InMemory {
        type Log = MemLog;

        fn start(&mut self) -> MemLog {
            self.0.open()
        }

        fn stop(&mut self, log: MemLog) {
            drop(log);
        }

        fn start_another(&mut self) -> Option<MemLog> {
            Some(self.0.open())
        }
    }

    #[test]
    fn a_calm_one_keeps_the_contract() {
        contract::check(0..3, |seed| InMemory(MemStore::new(seed, MemFaults::default())));
    }

    #[test]
    fn a_hostile_one_keeps_the_contract() {
        contract::check(0..60, |seed| InMemory(MemStore::new(seed, MemFaults::drawn(&mut Prng::new(seed)))));
    }
}
