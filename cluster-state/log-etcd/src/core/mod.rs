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
mod config;
mod following;
pub mod identity;
mod keys;
mod marks;
mod peers;
mod reading;
mod reads;
mod records;
mod saving;
mod session;
mod shared;
mod told;
mod trimming;
mod versions;

pub use config::EtcdConfig;
pub use records::{CHUNK_BYTES, CellRecord, Note};

use appends::Appends;
use call::{CallError, CallId, Command, Heard, Range, Request, Response, WatchEvent};
use calls::Purpose;
use following::Following;
use keys::Keys;
use marks::Expected;
use ohm_log::{Alarm, LogEvent, LogFailure, LogRequest, Refusal, SubmitError, check_lengths};
use peers::Peers;
use reads::Reads;
use saving::Saving;
use session::Session;
use shared::Shared;
use trimming::Trimming;

/// One server's part of the log.
pub struct EtcdCore {
    shared: Shared,
    session: Session,
    following: Following,
    peers: Peers,
    appends: Appends,
    reads: Reads,
    saving: Saving,
    trimming: Trimming,
    serves: Option<bool>,
}

impl EtcdCore {
    /// A core that has done nothing yet.
    pub fn new(config: EtcdConfig) -> Self {
        EtcdCore {
            session: Session::default(),
            following: Following::new(config.note.last()),
            peers: Peers::default(),
            appends: Appends::default(),
            reads: Reads::default(),
            saving: Saving::default(),
            trimming: Trimming::default(),
            serves: None,
            shared: Shared::new(config),
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
        if self.shared.told.has_failed() {
            return Err(SubmitError::Ended);
        }
        let queued = self.appends.len() + self.reads.len();
        let waits = matches!(request, LogRequest::Append { .. } | LogRequest::Read { .. });
        if waits && queued >= self.shared.config.queue {
            return Err(SubmitError::Busy { queued });
        }
        match request {
            LogRequest::Append { token, bytes } => self.appends.add(now_ms, token, &bytes),
            LogRequest::Read { token } => self.reads.add(now_ms, token),
            LogRequest::SaveSnapshot { index, pieces } => {
                self.saving.save(index, pieces, &self.following.marks, &mut self.shared);
            }
            LogRequest::Trim { below } => self.trimming.trim(below.0, &self.following.marks),
            LogRequest::ChangeMembers { token, .. } => {
                let reason = Refusal::Change(ohm_log::ChangeRefusal::NotHere);
                self.shared.told.tell(LogEvent::Refused { token, reason });
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
                    self.shared.told.tell(LogEvent::Alarm(Alarm::OldEngine { version, wanted: wanted.into() }));
                }
            }
        }
    }

    fn answered(&mut self, now_ms: u64, call: CallId, answer: Result<Response, CallError>) {
        let Self { shared, session, following, peers, appends, reads, saving, trimming, .. } = self;
        let Some(purpose) = shared.calls.settle(call) else { return };
        match &answer {
            Ok(_) => shared.calls.went_well(purpose, &mut shared.told),
            Err(error) => shared.calls.went_wrong(now_ms, error, &mut shared.told),
        }
        let answer = answer.ok();
        let mut expected: Option<Expected> = None;
        match purpose {
            Purpose::Grant => session.granted(answer, shared),
            Purpose::Register => session.registered(answer, shared),
            Purpose::KeepAlive => session.kept_alive(answer, shared),
            Purpose::ReadMarks(attempt) => following.marks_read(attempt, answer, trimming, shared),
            Purpose::ReadChunk(attempt, number) => {
                following.chunk_read(attempt, number, answer, appends, trimming, shared);
            }
            Purpose::ReadEntries(attempt) => following.entries_read(attempt, answer, appends, trimming, shared),
            Purpose::ListServers => peers.listed(answer, shared),
            Purpose::Append(sequence) => {
                let applied = following.applied();
                expected = appends.answered(sequence, answer, applied, session, &following.marks, shared);
            }
            Purpose::Read => expected = reads.answered(answer, shared),
            Purpose::TakeSaving => expected = saving.taken(answer, &following.marks, shared),
            Purpose::WriteChunk(attempt, number) => {
                saving.chunk_written(attempt, number, answer, &following.marks, shared);
            }
            Purpose::FlipPointer(attempt) => saving.flipped(attempt, answer, &mut following.marks, shared),
            Purpose::MarkTrim => trimming.marked(answer),
            Purpose::DeleteEntries => trimming.deleted(answer, shared),
            Purpose::EndSaving | Purpose::Compact => {}
        }
        if let Some(expected) = expected {
            following.expect(now_ms, expected, shared);
        }
    }

    fn watched(&mut self, now_ms: u64, watch: u64, events: Vec<WatchEvent>) {
        match self.peers.watches(watch) {
            true => self.peers.watched(events, &mut self.shared),
            false => {
                let (appends, trimming) = (&mut self.appends, &mut self.trimming);
                self.following.watched(now_ms, watch, events, appends, trimming, &mut self.shared);
            }
        }
    }

    fn watch_ended(&mut self, now_ms: u64, watch: u64, compacted: bool, reason: &str) {
        let was_of_servers = self.peers.watches(watch);
        if was_of_servers {
            self.peers.watch_ended();
        }
        if was_of_servers || self.following.watch_ended(watch, compacted) {
            let Shared { calls, told, .. } = &mut self.shared;
            calls.watch_went_wrong(now_ms, reason, told);
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now_ms: u64) {
        let Self { shared, session, following, peers, appends, reads, saving, trimming, .. } = self;
        if shared.told.has_failed() {
            return;
        }
        session.tick(now_ms, shared);
        following.tick(now_ms, shared);
        peers.tick(now_ms, session.is_held(), shared);
        appends.tick(now_ms, session, following.watched_to(), &following.marks, shared);
        reads.tick(now_ms, shared);
        saving.tick(now_ms, session, &following.marks, shared);
        if session.is_held() && following.watched_to().is_some() {
            trimming.tick(now_ms, &following.marks, shared);
        }
        let serves = session.is_held() && following.has_read();
        if self.serves != Some(serves) {
            self.serves = Some(serves);
            shared.told.tell(LogEvent::Leader { member: None, here: serves });
        }
    }

    /// What the shell is to do, in order.
    pub fn take_commands(&mut self) -> Vec<Command> {
        self.shared.calls.take_commands()
    }

    /// Moves what the copy is to be told to `out`: a bounded amount of bytes, snapshots apart.
    ///
    /// # Errors
    /// Once the log is over, and everything before that was told.
    pub fn poll(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        self.shared.told.poll(out)
    }

    /// Bytes that wait for the copy. The shell stops hearing watches while they are too many.
    pub fn ready_bytes(&self) -> usize {
        self.shared.told.ready_bytes()
    }

    /// When to tick next.
    pub fn wake_ms(&self, now_ms: u64) -> Option<u64> {
        let Shared { config, calls, told, .. } = &self.shared;
        if !told.is_quiet() {
            return Some(now_ms);
        }
        let due =
            [self.session.due_ms(), self.following.due_ms(), self.appends.due_ms(config), self.reads.due_ms(config)];
        let due = due.into_iter().flatten().min();
        // After a failed attempt everything waits for the end of the pause, and is due then.
        match calls.paused_until_ms().filter(|until_ms| *until_ms > now_ms) {
            Some(until_ms) => Some(due.map_or(until_ms, |due_ms| due_ms.max(until_ms))),
            None => due,
        }
    }

    /// What to note in the data folder, for the next start.
    pub fn note(&self) -> Note {
        let last = self.following.last().map(|(index, id)| (index, id.proposer, id.sequence));
        let note = &self.shared.config.note;
        Note { last: last.or(note.last), ..note.clone() }
    }
}
