//! The core: what is asked of etcd, and what its answers mean. No clock, no socket, no dice of its own.
//!
//! ```text
//!   submit ─▶ appends, reads, saving, trimming ─┐            ┌─▶ Command: calls and watches, for the shell
//!   hear ───▶ session, following, peers ────────┼─ EtcdCore ─┤
//!   tick ───▶ what is due ──────────────────────┘            └─▶ LogEvent: what a copy is told
//! ```
//! Order. An entry is a key of its own, written once: its index is the revision of etcd at which that happened. All
//! keys of the log come through one watch, so every copy sees them in the same order. Each entry rewrites the key
//! `head`, whose version therefore counts entries: a copy that misses a number has missed an entry and reads again.
//!
//! Unknown outcomes. An append is guarded by the absence of its key, so it can be sent again until it is known to be
//! there. Once entries were trimmed, absence proves nothing: so it is guarded by the trim that the sender has seen,
//! too. After a newer one it first reads on to there; an append that was not on the way never was.
//!
//! Sessions. A server keeps a key that goes with a lease; appends and snapshots are guarded by it. Whose lease has run
//! out is gone for the others, appends nothing, and begins again with a new lease.

mod appends;
pub mod call;
mod calls;
mod following;
pub mod identity;
mod keys;
mod peers;
mod reading;
mod reads;
mod records;
mod saving;
mod session;
mod trimming;
mod versions;

use appends::Appends;
use call::{CallId, Command, Heard, Range, Request, Response};
use calls::{Health, Purpose};
use following::Following;
use keys::Keys;
use ohm_log::{Alarm, LogEvent, LogFailure, LogRequest, Refusal, SubmitError, check_lengths};
use ohm_model::Index;
use ohm_stdx::Prng;
use peers::Peers;
use reads::Reads;
use saving::Saving;
use session::Session;
use std::collections::{BTreeMap, VecDeque};
use trimming::Trimming;

pub use records::{CHUNK_BYTES, CellRecord, Note};

/// Entries that one poll yields at most, and their bytes.
const POLL_ENTRIES_MAX: usize = 256;
const POLL_BYTES_MAX: usize = 4 << 20;

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// All keys of the cell begin with this.
    pub prefix: String,
    /// Who this server is, and what it saw last.
    pub note: Note,
    /// Where others reach it.
    pub address: String,
    /// The name of this process; never used by another one.
    pub proposer: u64,
    /// How long its lease lasts, in milliseconds, at least 2,000.
    pub session_ms: u64,
    /// An append or read without an answer for so long is given up, in milliseconds.
    pub give_up_ms: u64,
    /// Requests that may wait for their answers.
    pub queue: usize,
    /// Appends that may be on their way at once.
    pub appends_in_flight: usize,
    /// Compact the history of etcd after a trim. Not for an etcd whose other users want its history.
    pub compact: bool,
    /// What the pauses between attempts are drawn from.
    pub seed: u64,
}

impl EtcdConfig {
    /// The usual values.
    pub fn new(prefix: &str, note: Note, address: &str, proposer: u64) -> Self {
        EtcdConfig {
            prefix: prefix.into(),
            note,
            address: address.into(),
            proposer,
            session_ms: 10_000,
            give_up_ms: 10_000,
            queue: 1024,
            appends_in_flight: 16,
            compact: true,
            seed: proposer,
        }
    }
}

/// One server's part of the log.
pub struct EtcdCore {
    config: EtcdConfig,
    keys: Keys,
    calls: BTreeMap<CallId, Purpose>,
    next_call: CallId,
    next_watch: u64,
    commands: Vec<Command>,
    health: Health,
    session: Session,
    following: Following,
    peers: Peers,
    appends: Appends,
    reads: Reads,
    saving: Saving,
    trimming: Trimming,
    /// What the copy is to be told, oldest first.
    ready: VecDeque<LogEvent>,
    ready_bytes: usize,
    /// The last index that the copy was told.
    yielded: u64,
    serves: Option<bool>,
    failure: Option<LogFailure>,
    dice: Prng,
}

impl EtcdCore {
    /// A core that has done nothing yet.
    pub fn new(config: EtcdConfig) -> Self {
        EtcdCore {
            keys: Keys::new(&config.prefix),
            dice: Prng::new(config.seed),
            calls: BTreeMap::new(),
            next_call: 1,
            next_watch: 1,
            commands: Vec::new(),
            health: Health::default(),
            session: Session::default(),
            following: Following::new(config.note.last()),
            peers: Peers::default(),
            appends: Appends::default(),
            reads: Reads::default(),
            saving: Saving::default(),
            trimming: Trimming::default(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            yielded: 0,
            serves: None,
            failure: None,
            config,
        }
    }

    /// Only reads what there is: for those who are no server.
    pub fn only_read(&mut self) {
        self.session = Session::Never;
    }

    /// The question which cell is there.
    pub fn ask_cell(prefix: &str) -> Request {
        Request::Range(Range::one(Keys::new(prefix).cell()))
    }

    /// The answer to it.
    ///
    /// # Errors
    /// In words, when there is none or it can't be read.
    pub fn cell_of(answer: &Response) -> Result<CellRecord, String> {
        match answer {
            Response::Range { pairs, .. } => match pairs.first().map(|pair| CellRecord::of(&pair.value)) {
                Some(record) => record.map_err(|error| error.to_string()),
                None => Err("no cell is there under this prefix".into()),
            },
            _ => Err("no answer to a range".into()),
        }
    }

    /// Takes a request of the copy.
    pub fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        check_lengths(&request)?;
        if self.failure.is_some() {
            return Err(SubmitError::Ended);
        }
        let queued = self.appends.len() + self.reads.len();
        let waits = matches!(request, LogRequest::Append { .. } | LogRequest::Read { .. });
        if waits && queued >= self.config.queue {
            return Err(SubmitError::Busy { queued });
        }
        match request {
            LogRequest::Append { token, bytes } => self.appends.add(now_ms, token, &bytes),
            LogRequest::Read { token } => self.reads.add(now_ms, token),
            LogRequest::SaveSnapshot { index, pieces } => self.save(index, pieces),
            LogRequest::Trim { below } => self.trim(below.0),
            LogRequest::ChangeMembers { token, .. } => {
                let reason = Refusal::Change(ohm_log::ChangeRefusal::NotHere);
                self.tell(LogEvent::Refused { token, reason });
            }
            LogRequest::Transfer { .. } => {}
        }
        Ok(())
    }

    /// Takes what the shell has heard.
    pub fn hear(&mut self, now_ms: u64, heard: Heard) {
        match heard {
            Heard::Answer(call, answer) => self.answered(now_ms, call, answer),
            Heard::Watched(watch, events) => self.watched(now_ms, watch, events),
            Heard::WatchEnded { watch, compacted, reason } => self.watch_ended(now_ms, watch, compacted, &reason),
            Heard::Version(version) => {
                if let Some(wanted) = versions::wanted(&version) {
                    self.tell(LogEvent::Alarm(Alarm::OldEngine { version, wanted: wanted.into() }));
                }
            }
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: u64) {
        if self.failure.is_some() {
            return;
        }
        self.tick_session(now_ms);
        self.tick_following(now_ms);
        self.tick_peers(now_ms);
        self.tick_appends(now_ms);
        self.tick_reads(now_ms);
        self.tick_saving(now_ms);
        self.tick_trimming(now_ms);
        let serves = self.session.is_held() && self.following.position > 0;
        if self.serves != Some(serves) {
            self.serves = Some(serves);
            self.tell(LogEvent::Leader { member: None, here: serves });
        }
    }

    /// What the shell is to do, in order.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Moves what the copy is to be told to `out`: a bounded amount of bytes, snapshots apart.
    ///
    /// # Errors
    /// Once the log is over, and everything before that was told.
    pub fn poll(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let (mut entries, mut bytes) = (0, 0);
        while entries < POLL_ENTRIES_MAX && bytes < POLL_BYTES_MAX {
            let Some(event) = self.ready.pop_front() else {
                return self.failure.clone().map_or(Ok(()), Err);
            };
            entries += 1;
            let size = size_of(&event);
            bytes += size;
            self.ready_bytes -= size;
            if let LogEvent::Committed { index, .. } | LogEvent::InstallSnapshot { index, .. } = &event {
                self.yielded = index.0;
            }
            out.push(event);
        }
        Ok(())
    }

    /// Bytes that wait for the copy. The shell stops hearing watches while they are too many.
    pub fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// When to tick next.
    pub fn wake_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.ready.is_empty() || self.failure.is_some() {
            return Some(now_ms);
        }
        let due = [
            self.session.due_ms(),
            self.following.due_ms(),
            self.appends.due_ms(&self.config),
            self.reads.due_ms(&self.config),
        ];
        let due = due.into_iter().flatten().min();
        // After a failed attempt everything waits for the end of the pause, and is due then.
        match self.health.paused_until_ms().filter(|until_ms| *until_ms > now_ms) {
            Some(until_ms) => Some(due.map_or(until_ms, |due_ms| due_ms.max(until_ms))),
            None => due,
        }
    }

    /// What to note in the data folder, for the next start.
    pub fn note(&self) -> Note {
        let last = self.following.last().map(|(index, id)| (index, id.proposer, id.sequence));
        Note { last: last.or(self.config.note.last), ..self.config.note.clone() }
    }

    fn tell(&mut self, event: LogEvent) {
        self.ready_bytes += size_of(&event);
        self.ready.push_back(event);
    }

    fn fail(&mut self, failure: LogFailure) {
        self.failure.get_or_insert(failure);
    }

    fn broken(&mut self, what: &str, reason: &dyn std::fmt::Display) {
        self.fail(LogFailure::Engine(format!("{what} in etcd can't be read: {reason}")));
    }
}

fn size_of(event: &LogEvent) -> usize {
    match event {
        LogEvent::Committed { bytes, .. } => bytes.len(),
        LogEvent::InstallSnapshot { pieces, .. } => pieces.iter().map(bytes::Bytes::len).sum(),
        _ => 0,
    }
}

/// An index from a revision.
fn index(revision: u64) -> Index {
    Index(revision)
}
