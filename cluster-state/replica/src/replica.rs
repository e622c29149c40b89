//! The replica core: inputs in, effects out.

mod messages;

pub use messages::{CopyEffect, Effect, Input, Purpose, ReplicaConfig, ReplicaFailure};

use crate::batch::Batches;
use crate::clock::Clock;
use crate::events::EventRing;
use crate::followers::{FollowerId, Followers};
use crate::proposal::{ProposeError, Ticket};
use crate::stamp::Noted;
use crate::time::{CellTime, TimeView};
use ohm_cell::{Applied, Cell, restore};
use ohm_log::{Bytes, Log, LogEvent, LogRequest, Refusal, SNAPSHOT_PIECE_BYTES_MAX, SubmitError};
use ohm_model::{Command, Entry, Envelope, Index, Outcome};
use std::collections::BTreeMap;

/// The replica's own proposals (ticks) carry this ticket; shells use others.
const OWN_TICKET: Ticket = Ticket(0);
/// The tokens of reads and changes of members; those of appends count from 1.
const QUESTION_TOKENS: u64 = 1 << 63;
/// A follower that is ahead of this copy is kept waiting for so long: after a change of servers this copy may be the
/// one that lags. Then it is sent back in time by a snapshot, which it takes only from a cell that was restored.
const AHEAD_MS: u64 = 3_000;
/// After a snapshot could not be saved, the next one is taken so much later.
const SNAPSHOT_RETRY_MS: u64 = 1_000;

/// One copy of the truth.
pub struct Replica<L> {
    log: L,
    cell: Cell,
    config: ReplicaConfig,
    batches: Batches,
    pub(crate) time: CellTime,
    followers: Followers,
    events: EventRing,
    tick_in_flight: bool,
    /// Of the entry that was submitted last.
    stamp_ms: u64,
    leads: bool,
    encoding: bool,
    saving: Option<Index>,
    saved: Index,
    /// Another member needs a snapshot, whatever is due.
    wanted: bool,
    /// No snapshot is begun before this.
    save_from_ms: u64,
    /// Whose reads and changes of members wait for the log.
    questions: BTreeMap<u64, Ticket>,
    next_question: u64,
    /// Reads that wait for this copy.
    reads: Vec<(Index, Ticket)>,
    /// Followers that are ahead of this copy, and until when they wait.
    ahead: Vec<(FollowerId, Index, u64)>,
    bytes_since_snapshot: u64,
    entries_since_snapshot: u64,
    log_events: Vec<LogEvent>,
}

impl<L: Log> Replica<L> {
    /// A replica over a log that was just opened; the log's first events bring the copy up to date.
    pub fn new(log: L, config: ReplicaConfig) -> Self {
        Replica {
            log,
            cell: Cell::new(),
            batches: Batches::new(config.waiting_bytes_max, config.entries_in_flight_max),
            time: CellTime::new(Noted::Nothing),
            followers: Followers::new(config.kept_bytes_max),
            events: EventRing::new(config.events_max),
            config,
            tick_in_flight: false,
            stamp_ms: 0,
            leads: false,
            encoding: false,
            saving: None,
            saved: Index(0),
            wanted: false,
            save_from_ms: 0,
            questions: BTreeMap::new(),
            next_question: QUESTION_TOKENS,
            reads: Vec::new(),
            ahead: Vec::new(),
            bytes_since_snapshot: 0,
            entries_since_snapshot: 0,
            log_events: Vec::new(),
        }
    }

    /// The same for a process that finds what a former one has noted of time.
    pub fn with_time(mut self, noted: Noted) -> Self {
        self.time = CellTime::new(noted);
        self
    }

    /// What time it is, and how the clocks differ from that; nothing before the first entry is known.
    pub fn time(&self, clock: Clock) -> Option<TimeView> {
        self.time.view(clock)
    }

    /// The stamp of the entry that was submitted last; 0 before.
    pub fn submitted_ms(&self) -> u64 {
        self.stamp_ms
    }

    /// The copy.
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The log, for what only its shell understands.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, taken out.
    pub fn into_log(self) -> L {
        self.log
    }

    /// The last events.
    pub fn events(&self) -> &EventRing {
        &self.events
    }

    /// Whether appends here have a chance.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// When to flush next although nothing came in, in the milliseconds of `now_ms`.
    pub fn wake_ms(&self) -> Option<u64> {
        let ahead_ms = self.ahead.iter().map(|(_, _, until_ms)| *until_ms).min();
        [self.log.wake_ms(), ahead_ms].into_iter().flatten().min()
    }

    /// The pieces of a snapshot of `cell`, as `Encoded` wants them; none when nobody could read it back.
    pub fn encode(cell: &Cell) -> Vec<Bytes> {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let is_readable = cell.snapshot(|frame| {
            for part in frame.chunks(SNAPSHOT_PIECE_BYTES_MAX) {
                match pieces.last_mut() {
                    Some(last) if last.len() + part.len() <= SNAPSHOT_PIECE_BYTES_MAX => last.extend_from_slice(part),
                    _ => pieces.push(part.to_vec()),
                }
            }
        });
        if !is_readable {
            return Vec::new();
        }
        pieces.into_iter().map(Bytes::from).collect()
    }

    /// Takes one input.
    pub fn step(&mut self, clock: Clock, input: Input, out: &mut Vec<Effect>) -> Result<(), ReplicaFailure> {
        match input {
            Input::Propose { ticket, commands } => {
                let count = commands.len();
                match self.batches.push(ticket, commands) {
                    Ok(()) => {}
                    // It will never fit: an answer, or its sender would ask again for ever.
                    Err(error @ ProposeError::TooLong { .. }) => out.push(self.refuse_for_good(ticket, count, &error)),
                    Err(error) => out.push(Effect::Turned { ticket, error }),
                }
            }
            Input::Follow { follower, from } if from > self.cell.applied() => {
                self.ahead.push((follower, from, clock.now_ms + AHEAD_MS));
            }
            Input::Follow { follower, from } => self.follow(follower, from, out),
            Input::Read { ticket } => self.ask(clock.now_ms, ticket, |token| LogRequest::Read { token }, out),
            Input::ChangeMembers { ticket, change } => {
                self.ask(clock.now_ms, ticket, |token| LogRequest::ChangeMembers { token, change }, out);
            }
            Input::Transfer { to } => {
                // Where it is not taken, nobody leads here.
                let _ = self.log.submit(clock.now_ms, LogRequest::Transfer { to });
            }
            Input::Acknowledge { follower, bytes } => {
                self.followers.acknowledge(follower, bytes);
                self.pump(out);
            }
            Input::Unfollow { follower } => {
                self.followers.remove(follower);
                self.ahead.retain(|(waiting, ..)| *waiting != follower);
            }
            Input::Deliver(delivery) => {
                // What is not taken leaves the log as it was; its sender sends again.
                let _ = self.log.deliver(clock.now_ms, delivery);
            }
            Input::Encoded { purpose: Purpose::Follower(_), index, pieces } => {
                self.followers.give_snapshot(index, &pieces);
                self.pump(out);
            }
            Input::Encoded { purpose: Purpose::Keep, index, pieces } => self.save(clock.now_ms, index, pieces),
            Input::Close => self.log.close()?,
            Input::Flush => self.flush(clock, out)?,
        }
        Ok(())
    }

    fn flush(&mut self, clock: Clock, out: &mut Vec<Effect>) -> Result<(), ReplicaFailure> {
        let (stamp_ms, word) = self.time.pass(clock, self.cell.now_ms(), self.leads);
        out.extend(word.map(|word| Effect::Copy(CopyEffect::Time(word))));
        self.propose_tick(stamp_ms.unwrap_or(0));
        // Where no time is known nobody leads, and the log refuses what it is given; or others are asked for it first.
        let may_submit = stamp_ms.is_some() || !self.leads;
        let stamp_ms = stamp_ms.unwrap_or(clock.wall_ms);
        while let Some((token, bytes)) = may_submit.then(|| self.batches.next(stamp_ms)).flatten() {
            self.stamp_ms = stamp_ms;
            if let Err(error) = self.log.submit(clock.now_ms, LogRequest::Append { token, bytes }) {
                self.not_submitted(token, error, out);
            }
        }
        let mut events = std::mem::take(&mut self.log_events);
        events.clear();
        let polled = self.log.poll(clock.now_ms, &mut events);
        for event in events.drain(..) {
            self.take_event(clock.now_ms, event, out)?;
        }
        self.log_events = events;
        polled?;
        self.settle_reads(out);
        self.admit(clock.now_ms, out);
        self.pump(out);
        self.snapshot_if_due(clock.now_ms, out);
        Ok(())
    }

    /// Time-outs of the cell become an entry of their own when their time has come.
    fn propose_tick(&mut self, stamp_ms: u64) {
        let due = self.cell.next_due_ms().is_some_and(|due_ms| due_ms <= stamp_ms);
        if self.leads && !self.tick_in_flight && (due || self.time.take_step()) {
            let command = Envelope::without_session(Command::Tick).encode();
            self.tick_in_flight = self.batches.push(OWN_TICKET, vec![command.into()]).is_ok();
        }
    }

    fn follow(&mut self, follower: FollowerId, from: Index, out: &mut Vec<Effect>) {
        self.followers.add(follower, from, self.cell.applied());
        self.pump(out);
    }

    /// Lets those follow that this copy has caught up with, or that have waited long enough.
    fn admit(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let applied = self.cell.applied();
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ahead)
            .into_iter()
            .partition(|(_, from, until_ms)| *from <= applied || *until_ms <= now_ms);
        self.ahead = waiting;
        ready.into_iter().for_each(|(follower, from, _)| self.follow(follower, from, out));
    }

    /// Asks the log something that it answers by token.
    fn ask(&mut self, now_ms: u64, ticket: Ticket, request: impl FnOnce(u64) -> LogRequest, out: &mut Vec<Effect>) {
        let token = self.next_question;
        self.next_question += 1;
        match self.log.submit(now_ms, request(token)) {
            Ok(()) => drop(self.questions.insert(token, ticket)),
            Err(_) => out.push(Effect::Refused { ticket, reason: Refusal::Overloaded }),
        }
    }

    fn settle_reads(&mut self, out: &mut Vec<Effect>) {
        let applied = self.cell.applied();
        self.reads.retain(|(index, ticket)| {
            let is_far_enough = *index <= applied;
            if is_far_enough {
                out.push(Effect::Readable { ticket: *ticket });
            }
            !is_far_enough
        });
    }

    fn not_submitted(&mut self, token: u64, error: SubmitError, out: &mut Vec<Effect>) {
        match error {
            SubmitError::Busy { .. } | SubmitError::Ended => self.refuse(token, Refusal::Overloaded, out),
            SubmitError::Length { .. } | SubmitError::NoPieces => {
                for (ticket, count) in self.batches.settle(token) {
                    out.push(self.refuse_for_good(ticket, count, &error));
                }
            }
        }
    }

    /// The answer to commands that no entry can hold.
    fn refuse_for_good(&self, ticket: Ticket, count: usize, error: &dyn std::error::Error) -> Effect {
        let refusal = ohm_model::Refusal::Invalid { field: "command".into(), problem: error.to_string() };
        let outcomes = vec![Outcome::Refused(refusal); count];
        Effect::Answered { ticket, index: self.cell.applied(), outcomes }
    }

    fn refuse(&mut self, token: u64, reason: Refusal, out: &mut Vec<Effect>) {
        for (ticket, _) in self.batches.settle(token) {
            match ticket {
                OWN_TICKET => self.tick_in_flight = false,
                _ => out.push(Effect::Refused { ticket, reason }),
            }
        }
    }

    fn take_event(&mut self, now_ms: u64, event: LogEvent, out: &mut Vec<Effect>) -> Result<(), ReplicaFailure> {
        match event {
            LogEvent::Committed { index, bytes, token } => self.apply(index, bytes, token, out)?,
            LogEvent::InstallSnapshot { index, pieces } => self.install(index, &pieces, out)?,
            LogEvent::Refused { token, reason } if token >= QUESTION_TOKENS => {
                let ticket = self.questions.remove(&token);
                out.extend(ticket.map(|ticket| Effect::Refused { ticket, reason }));
            }
            LogEvent::Unknown { token } if token >= QUESTION_TOKENS => {
                out.extend(self.questions.remove(&token).map(|ticket| Effect::Unknown { ticket }));
            }
            LogEvent::Readable { token, index } => {
                self.reads.extend(self.questions.remove(&token).map(|ticket| (index, ticket)));
            }
            LogEvent::MembersChanged { token, member } => {
                out.extend(self.questions.remove(&token).map(|ticket| Effect::MembersChanged { ticket, member }));
            }
            LogEvent::Members(members) => {
                self.time.set_members(&members);
                out.push(Effect::Copy(CopyEffect::Members(members)));
            }
            LogEvent::SnapshotWanted => self.wanted = true,
            LogEvent::Refused { token, reason } => self.refuse(token, reason, out),
            LogEvent::Unknown { token } => {
                for (ticket, _) in self.batches.settle(token) {
                    match ticket {
                        OWN_TICKET => self.tick_in_flight = false,
                        _ => out.push(Effect::Unknown { ticket }),
                    }
                }
            }
            LogEvent::SnapshotSaved { index } => self.snapshot_saved(now_ms, index, out),
            LogEvent::SnapshotFailed { .. } => {
                self.saving = None;
                self.save_from_ms = now_ms + SNAPSHOT_RETRY_MS;
            }
            LogEvent::Leader { member, here } => {
                self.leads = here;
                out.push(Effect::Copy(CopyEffect::Leader { member, here }));
            }
            LogEvent::Send { to, bytes } => out.push(Effect::Send { to, bytes }),
            LogEvent::Alarm(alarm) => out.push(Effect::Copy(CopyEffect::Alarm(alarm))),
        }
        Ok(())
    }

    fn apply(
        &mut self,
        index: Index,
        bytes: Bytes,
        token: Option<u64>,
        out: &mut Vec<Effect>,
    ) -> Result<(), ReplicaFailure> {
        let entry =
            Entry::decode(&bytes).map_err(|error| ReplicaFailure::Unreadable { index, reason: error.to_string() })?;
        let mut applied = Box::<Applied>::default();
        self.cell.apply(index, &entry, &mut applied);
        self.events.extend(&applied.events);
        self.bytes_since_snapshot += bytes.len() as u64;
        self.entries_since_snapshot += 1;
        self.followers.keep(index, bytes.clone());
        let mut outcomes = applied.outcomes.iter();
        for (ticket, count) in token.map(|token| self.batches.settle(token)).unwrap_or_default() {
            let outcomes: Vec<Outcome> = outcomes.by_ref().take(count).cloned().collect();
            match ticket {
                OWN_TICKET => self.tick_in_flight = false,
                _ => out.push(Effect::Answered { ticket, index, outcomes }),
            }
        }
        out.push(Effect::Copy(CopyEffect::Applied { index, bytes, applied, chain: self.cell.chain() }));
        Ok(())
    }

    fn install(&mut self, index: Index, pieces: &[Bytes], out: &mut Vec<Effect>) -> Result<(), ReplicaFailure> {
        let bytes = pieces.concat();
        let cell = restore(&bytes).map_err(|error| ReplicaFailure::Unreadable { index, reason: error.to_string() })?;
        self.cell = cell;
        self.saved = self.saved.max(index);
        (self.bytes_since_snapshot, self.entries_since_snapshot) = (0, 0);
        self.followers.reset(index);
        out.push(Effect::Restored { index });
        Ok(())
    }

    fn pump(&mut self, out: &mut Vec<Effect>) {
        self.followers.pump(|follower, frame| out.push(Effect::Copy(CopyEffect::ToFollower { follower, frame })));
        if let Some(follower) = self.followers.begin_encoding(self.cell.applied()) {
            self.ask_encoding(Purpose::Follower(follower), out);
        }
    }

    fn ask_encoding(&mut self, purpose: Purpose, out: &mut Vec<Effect>) {
        out.push(Effect::Copy(CopyEffect::Encode { purpose, cell: Box::new(self.cell.clone()) }));
    }

    fn snapshot_if_due(&mut self, now_ms: u64, out: &mut Vec<Effect>) {
        let due = self.bytes_since_snapshot >= self.config.snapshot_every_bytes
            || self.entries_since_snapshot >= self.config.snapshot_every_entries;
        let due = self.wanted || (due && self.cell.applied() > self.saved);
        if due && !self.encoding && self.saving.is_none() && now_ms >= self.save_from_ms {
            self.encoding = true;
            (self.bytes_since_snapshot, self.entries_since_snapshot) = (0, 0);
            self.ask_encoding(Purpose::Keep, out);
        }
    }

    fn save(&mut self, now_ms: u64, index: Index, pieces: Vec<Bytes>) {
        self.encoding = false;
        if pieces.is_empty() {
            self.save_from_ms = now_ms + SNAPSHOT_RETRY_MS;
            return;
        }
        let is_due = index > self.saved || self.wanted;
        if is_due && self.log.submit(now_ms, LogRequest::SaveSnapshot { index, pieces }).is_ok() {
            self.saving = Some(index);
        }
    }

    /// What the snapshot before this one covers is not needed any more.
    fn snapshot_saved(&mut self, now_ms: u64, index: Index, out: &mut Vec<Effect>) {
        (self.saving, self.wanted) = (None, false);
        let below = Index(self.saved.0 + 1);
        self.saved = self.saved.max(index);
        // A trim that is not taken is asked for again with the next snapshot.
        let _ = self.log.submit(now_ms, LogRequest::Trim { below });
        out.push(Effect::Copy(CopyEffect::SnapshotSaved { index }));
    }

    /// Whether nothing is waiting or on its way.
    pub fn is_idle(&self) -> bool {
        self.batches.is_idle()
    }
}
