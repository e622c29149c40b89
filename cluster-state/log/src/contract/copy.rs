//! A copy that follows a log and checks each event, and the history that all copies of one case must agree upon.

use crate::{Bytes, Log, LogEvent, LogRequest, Refusal, SubmitError};
use ohm_model::Index;
use ohm_stdx::hash;
use std::collections::{BTreeMap, BTreeSet};

/// Polls after which a log that has not answered is stuck.
const POLLS_MAX: usize = 20_000;
/// A log that yields nothing in so many polls in a row has nothing to yield.
const IDLE_POLLS: usize = 40;

/// How an append was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Committed(Index),
    Refused,
    Unknown,
}

/// What has ever been seen, by whichever copy.
#[derive(Default)]
pub(super) struct History {
    entries: BTreeMap<Index, Bytes>,
    /// The digest of everything up to and including an index.
    digests: BTreeMap<Index, u64>,
    acknowledged: BTreeMap<Index, Bytes>,
    refused: BTreeSet<Bytes>,
    pub(super) saved: BTreeSet<Index>,
}

/// A copy of the state, which here is a digest over all entries, and its log.
pub(super) struct Copy<L> {
    label: String,
    pub(super) log: L,
    now_ms: u64,
    next_token: u64,
    pub(super) applied: Index,
    digest: u64,
    pub(super) installed: Vec<Index>,
    open: BTreeMap<u64, Bytes>,
    pub(super) answers: BTreeMap<u64, Answer>,
    pub(super) snapshots_failed: Vec<Index>,
    pub(super) snapshots_open: usize,
    /// Answers to reads: how far to be, or nothing when it was refused.
    reads: BTreeMap<u64, Option<Index>>,
    answered_reads: BTreeSet<u64>,
}

impl<L: Log> Copy<L> {
    pub(super) fn new(label: &str, log: L) -> Self {
        Copy {
            label: label.into(),
            log,
            now_ms: 0,
            next_token: 0,
            applied: Index(0),
            digest: 0,
            installed: Vec::new(),
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
            snapshots_failed: Vec::new(),
            snapshots_open: 0,
            reads: BTreeMap::new(),
            answered_reads: BTreeSet::new(),
        }
    }

    /// Submits an append and returns its token, or nothing when the log is busy.
    pub(super) fn try_append(&mut self, bytes: &Bytes) -> Option<u64> {
        let token = self.next_token;
        match self.log.submit(self.now_ms, LogRequest::Append { token, bytes: bytes.clone() }) {
            Ok(()) => {
                self.next_token += 1;
                self.open.insert(token, bytes.clone());
                Some(token)
            }
            Err(SubmitError::Busy { .. }) => None,
            Err(error) => panic!("{}: an append was not accepted: {error}", self.label),
        }
    }

    /// Submits an append, polling as long as the log is busy.
    pub(super) fn append(&mut self, bytes: &Bytes, history: &mut History) -> u64 {
        for _ in 0..POLLS_MAX {
            if let Some(token) = self.try_append(bytes) {
                return token;
            }
            self.poll(history);
        }
        panic!("{}: the log stays busy though it is polled", self.label)
    }

    /// Appends and waits for the answer.
    pub(super) fn append_and_wait(&mut self, bytes: &Bytes, history: &mut History) -> Answer {
        let token = self.append(bytes, history);
        for _ in 0..POLLS_MAX {
            if let Some(answer) = self.answers.get(&token) {
                return *answer;
            }
            self.poll(history);
        }
        panic!("{}: append {token} is not answered", self.label)
    }

    /// Asks how far to be, and waits for the answer; nothing when it is refused.
    pub(super) fn read(&mut self, history: &mut History) -> Option<Index> {
        let token = self.next_token;
        self.next_token += 1;
        match self.log.submit(self.now_ms, LogRequest::Read { token }) {
            Ok(()) => drop(self.reads.insert(token, None)),
            Err(SubmitError::Busy { .. }) => return None,
            Err(error) => panic!("{}: a read was not accepted: {error}", self.label),
        }
        for _ in 0..POLLS_MAX {
            self.poll(history);
            if self.answered_reads.remove(&token) {
                return self.reads.remove(&token).flatten();
            }
        }
        panic!("{}: read {token} is not answered", self.label)
    }

    /// Polls until this copy has reached `index`.
    pub(super) fn poll_until_applied(&mut self, index: Index, history: &mut History) {
        for _ in 0..POLLS_MAX {
            if self.applied >= index {
                return;
            }
            self.poll(history);
        }
        panic!("{}: stays at {}, a read said {index}", self.label, self.applied)
    }

    fn end_read(&mut self, token: u64, index: Option<Index>) {
        assert!(self.answered_reads.insert(token), "{}: read {token} is answered twice", self.label);
        self.reads.insert(token, index);
    }

    /// Asks for a snapshot of what has been applied.
    pub(super) fn save_snapshot(&mut self) {
        self.save_snapshot_at(self.applied);
    }

    /// Asks for a snapshot that claims to be of `index`.
    pub(super) fn save_snapshot_at(&mut self, index: Index) {
        let pieces = vec![
            Bytes::copy_from_slice(&index.0.to_le_bytes()),
            Bytes::copy_from_slice(&self.digest.to_le_bytes()),
            Bytes::from(vec![index.0 as u8; 3000]),
        ];
        match self.log.submit(self.now_ms, LogRequest::SaveSnapshot { index, pieces }) {
            Ok(()) => self.snapshots_open += 1,
            Err(SubmitError::Busy { .. }) => {}
            Err(error) => panic!("{}: a snapshot was not accepted: {error}", self.label),
        }
    }

    /// Asks to forget what is below `below`.
    pub(super) fn trim(&mut self, below: Index) {
        match self.log.submit(self.now_ms, LogRequest::Trim { below }) {
            Ok(()) | Err(SubmitError::Busy { .. }) => {}
            Err(error) => panic!("{}: a trim was not accepted: {error}", self.label),
        }
    }

    /// Polls once, a little later than before, and returns how many events came.
    pub(super) fn poll(&mut self, history: &mut History) -> usize {
        self.now_ms = self.log.wake_ms().map_or(self.now_ms + 1, |wake| wake.clamp(self.now_ms, self.now_ms + 20));
        let mut events = Vec::new();
        if let Err(failure) = self.log.poll(self.now_ms, &mut events) {
            panic!("{}: the log failed: {failure}", self.label);
        }
        let count = events.len();
        events.into_iter().for_each(|event| self.take(event, history));
        count
    }

    /// Polls until everything is answered and nothing more comes.
    pub(super) fn settle(&mut self, history: &mut History) {
        let mut idle = 0;
        for _ in 0..POLLS_MAX {
            idle = if self.poll(history) > 0 { 0 } else { idle + 1 };
            if idle >= IDLE_POLLS && self.open.is_empty() && self.snapshots_open == 0 {
                return;
            }
        }
        panic!("{}: not answered: {:?}", self.label, self.open.keys().collect::<Vec<_>>())
    }

    fn take(&mut self, event: LogEvent, history: &mut History) {
        match event {
            LogEvent::Committed { index, bytes, token } => self.apply(index, bytes, token, history),
            LogEvent::InstallSnapshot { index, pieces } => self.install(index, &pieces, history),
            LogEvent::Refused { token, .. } if self.reads.contains_key(&token) => self.end_read(token, None),
            LogEvent::Readable { token, index } => self.end_read(token, Some(index)),
            LogEvent::Refused { token, reason } => {
                assert!(!reason_is_empty(&reason), "{}: a refusal without words", self.label);
                let bytes = self.answer(token, Answer::Refused);
                history.refused.insert(bytes);
            }
            LogEvent::Unknown { token } => drop(self.answer(token, Answer::Unknown)),
            LogEvent::SnapshotSaved { index } => {
                self.snapshots_open -= 1;
                history.saved.insert(index);
            }
            LogEvent::SnapshotFailed { index, .. } => {
                self.snapshots_open -= 1;
                self.snapshots_failed.push(index);
            }
            LogEvent::Leader { .. }
            | LogEvent::Send { .. }
            | LogEvent::Alarm(_)
            | LogEvent::MembersChanged { .. }
            | LogEvent::Members(_)
            | LogEvent::SnapshotWanted => {}
        }
    }

    fn answer(&mut self, token: u64, answer: Answer) -> Bytes {
        let former = self.answers.insert(token, answer);
        assert_eq!(former, None, "{}: append {token} is answered twice, now {answer:?}", self.label);
        self.open.remove(&token).unwrap_or_else(|| panic!("{}: answer to {token}, which nobody asked", self.label))
    }

    fn apply(&mut self, index: Index, bytes: Bytes, token: Option<u64>, history: &mut History) {
        assert!(index > self.applied, "{}: index {index} after {}", self.label, self.applied);
        assert!(!bytes.is_empty(), "{}: entry {index} is empty", self.label);
        if let Some(token) = token {
            let asked = self.answer(token, Answer::Committed(index));
            assert_eq!(asked, bytes, "{}: entry {index} has other bytes than append {token}", self.label);
            history.acknowledged.insert(index, bytes.clone());
        }
        self.digest = hash::chain(hash::chain(self.digest, index.0), hash::bytes(&bytes));
        self.applied = index;
        let known = history.entries.entry(index).or_insert_with(|| bytes.clone());
        assert_eq!(*known, bytes, "{}: entry {index} has changed", self.label);
        self.agree(history);
    }

    fn install(&mut self, index: Index, pieces: &[Bytes], history: &mut History) {
        assert!(index > self.applied, "{}: snapshot {index} after {}", self.label, self.applied);
        let number = |piece: usize| u64::from_le_bytes(pieces[piece][..].try_into().expect("eight bytes"));
        assert_eq!((number(0), pieces.len(), pieces[2].len()), (index.0, 3, 3000), "{}: pieces changed", self.label);
        (self.applied, self.digest) = (index, number(1));
        self.installed.push(index);
        self.agree(history);
    }

    /// Equal indices mean equal digests: nothing was left out, doubled or changed.
    fn agree(&self, history: &mut History) {
        let known = *history.digests.entry(self.applied).or_insert(self.digest);
        assert_eq!(known, self.digest, "{}: something before {} was left out or changed", self.label, self.applied);
    }
}

impl History {
    /// Checks that what was acknowledged is there, what was refused is not, and nothing is there twice.
    pub(super) fn check(&self, label: &str) {
        for (index, bytes) in &self.acknowledged {
            assert_eq!(self.entries.get(index), Some(bytes), "{label}: acknowledged entry {index} is gone");
        }
        let mut found = BTreeSet::new();
        for (index, bytes) in &self.entries {
            assert!(found.insert(bytes), "{label}: one append is in the log twice, again at {index}");
            assert!(!self.refused.contains(bytes), "{label}: a refused append is in the log at {index}");
        }
    }

    /// Every index ever seen, ascending.
    pub(super) fn indices(&self) -> impl DoubleEndedIterator<Item = Index> + '_ {
        self.entries.keys().copied()
    }

    /// The highest index ever acknowledged.
    pub(super) fn acknowledged_up_to(&self) -> Index {
        self.acknowledged.keys().next_back().copied().unwrap_or_default()
    }

    /// Where `bytes` stand.
    pub(super) fn find(&self, bytes: &Bytes) -> Option<Index> {
        self.entries.iter().find(|(_, found)| *found == bytes).map(|(index, _)| *index)
    }
}

fn reason_is_empty(reason: &Refusal) -> bool {
    reason.to_string().is_empty()
}
