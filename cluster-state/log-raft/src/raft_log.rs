//! One member of a raft group as a core: requests, messages and time in; events out; a disk that it is given.
//!
//! A poll goes one way round, and nothing steps raft between `ready` and `advance`:
//! ```text
//! messages, ticks, appends ─▶ raft ─▶ ready ─▶ leader's messages out ─▶ one sync ─▶ other messages out
//!                               ▲                                                        │
//!                               └───────────── advance ◀── committed entries out ◀───────┘
//! ```

use crate::appends::Appends;
use crate::changes::Changes;
use crate::config::RaftConfig;
use crate::error::OpenError;
use crate::group::Group;
use crate::identity;
use crate::inbox::Inbox;
use crate::mark::{Mark, Marker};
use crate::members::Membership;
use crate::reads::Reads;
use crate::record::Position;
use crate::recovery::{Recovered, recover};
use crate::remark::Remarks;
use crate::snapshots::{Progress, Shelf, Snapshot};
use crate::storage::Durable;
use crate::transfers::Transfers;
use crate::wal::Wal;
use ohm_log::{
    DeliverError, Delivery, Disk, Log, LogEvent, LogFailure, LogRequest, Members, Refusal, SubmitError, check_lengths,
};
use ohm_model::Index;
use ohm_stdx::Prng;
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{RawNode, Ready, StateRole};
use std::collections::VecDeque;

/// Answers that may wait to be polled.
const EVENTS_MAX: usize = 1024;
/// How long to wait for room on a full disk before the next attempt.
const FULL_RETRY_MS: u64 = 100;
/// While appends are under way, one poll in so many goes on with a snapshot.
const POLLS_PER_SNAPSHOT_STEP: u64 = 8;

/// A member of a raft group: the log of a copy of the cell.
pub struct RaftLog<D> {
    pub(crate) config: RaftConfig,
    pub(crate) disk: D,
    pub(crate) wal: Wal,
    pub(crate) shelf: Shelf,
    pub(crate) node: RawNode<Durable>,
    pub(crate) appends: Appends,
    pub(crate) inbox: Inbox,
    /// What raft wants durable before it goes on.
    pub(crate) staged: Option<Ready>,
    /// When to look for room on the disk again, if there was none.
    pub(crate) full_until_ms: Option<u64>,
    /// Events from between two polls.
    pub(crate) events: VecDeque<LogEvent>,
    /// The last index that the copy has been given.
    pub(crate) yielded: u64,
    /// The last one of them that was no matter of raft's own.
    pub(crate) visible: u64,
    pub(crate) membership: Membership,
    /// Who belonged to the group from which index on, as far back as a snapshot may be asked for.
    pub(crate) memberships: VecDeque<(u64, Membership)>,
    pub(crate) changes: Changes,
    pub(crate) transfers: Transfers,
    pub(crate) reads: Reads,
    pub(crate) dice: Prng,
    /// The election time-out that was drawn last, in ticks.
    election_ticks: usize,
    /// Somebody else is to lead.
    hand_over: Option<Option<u64>>,
    /// When this member asked last whether it was removed.
    pub(crate) hello_ms: u64,
    /// What was said last about who leads.
    leader: (Option<u64>, bool),
    pub(crate) now_ms: u64,
    next_tick_ms: Option<u64>,
    trim_below: u64,
    polls: u64,
    /// What stands beside the log about it, if anything does.
    pub(crate) marker: Option<Marker<D>>,
    ended: bool,
}

/// Figures for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// The member that leads, if one is known.
    pub leader: Option<u64>,
    /// Whether that is this one.
    pub leads: bool,
    /// The raft term.
    pub term: u64,
    /// The last committed entry known here.
    pub committed: Index,
    /// The last entry that is durable here.
    pub last: Index,
    /// The newest snapshot.
    pub snapshot: Index,
    /// Bytes of entries kept in memory: what a trim can free.
    pub entry_bytes: u64,
}

impl<D: Disk> RaftLog<D> {
    /// Makes a log in an empty folder and opens it. Every founder does this once, and so does
    /// a member that joins, under a number that was never used and with the founders of the group it joins.
    pub fn create(mut disk: D, config: RaftConfig, remarks: Remarks) -> Result<Self, OpenError> {
        config.check()?;
        identity::create(&mut disk, config.cell, config.member, &config.founders, Position::default())?;
        Self::open(disk, config, remarks)
    }

    /// Makes a log in an empty folder that goes on from a state: for a cell that is restored from a backup, under a new
    /// number. The folder is of no use before this has returned.
    pub fn create_from(
        mut disk: D,
        config: &RaftConfig,
        applied: Index,
        pieces: Vec<ohm_log::Bytes>,
    ) -> Result<D, OpenError> {
        config.check()?;
        let position = Position { index: applied.0, term: 1 };
        identity::create(&mut disk, config.cell, config.member, &config.founders, position)?;
        let members = Membership::founded(&config.founders);
        let mut shelf = Shelf::open(&mut disk)?;
        shelf.begin(Snapshot::new(config.cell, position, applied, members, pieces));
        while !matches!(shelf.step(&mut disk)?, Progress::Saved { .. }) {}
        Ok(disk)
    }

    /// Opens the log that is there. What a crash cut short is repaired; anything else that is wrong is an error and
    /// leaves the files alone.
    pub fn open(disk: D, config: RaftConfig, remarks: Remarks) -> Result<Self, OpenError> {
        Self::open_checked(disk, config, remarks, None)
    }

    /// The same, if the log holds what `mark` says.
    pub(crate) fn open_checked(
        mut disk: D,
        config: RaftConfig,
        remarks: Remarks,
        mark: Option<&Mark>,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let Recovered { durable, wal, shelf, snapshot, membership, alarms } = recover(&mut disk, &config, mark)?;
        let applied = snapshot.as_ref().map_or(0, |snapshot| snapshot.header.position().index);
        let visible = snapshot.as_ref().map_or(Index(0), |snapshot| snapshot.header.applied());
        let node = RawNode::new(&config.raft(applied), durable, &remarks.0)
            .map_err(|error| OpenError::Configuration(error.to_string()))?;
        let mut events: VecDeque<LogEvent> = alarms.into_iter().map(LogEvent::Alarm).collect();
        events.extend(snapshot.map(|snapshot| LogEvent::InstallSnapshot { index: visible, pieces: snapshot.pieces }));
        events.push_back(LogEvent::Members(membership.members()));
        let mut log = RaftLog {
            dice: Prng::new(config.seed),
            election_ticks: config.election_ticks,
            appends: Appends::new(config.queue_entries, config.queue_bytes),
            inbox: Inbox::new(&config),
            reads: Reads::new(&config),
            config,
            disk,
            wal,
            shelf,
            node,
            staged: None,
            full_until_ms: None,
            events,
            yielded: applied,
            visible: visible.0,
            memberships: VecDeque::from([(applied, membership.clone())]),
            membership,
            changes: Changes::default(),
            transfers: Transfers::default(),
            hand_over: None,
            hello_ms: 0,
            leader: (None, false),
            now_ms: 0,
            next_tick_ms: None,
            trim_below: 0,
            polls: 0,
            marker: None,
            ended: false,
        };
        log.lead_if_alone().map_err(|failure| OpenError::Configuration(failure.to_string()))?;
        Ok(log)
    }

    /// The disk, for what only its owner understands.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The disk, for the next start.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Figures for operators.
    pub fn status(&self) -> RaftStatus {
        let (raft, durable) = (&self.node.raft, self.node.store());
        RaftStatus {
            leader: self.leader_id(),
            leads: raft.state == StateRole::Leader,
            term: raft.term,
            committed: Index(raft.raft_log.committed),
            last: Index(durable.last().index),
            snapshot: Index(durable.snapshot_position().index),
            entry_bytes: durable.entry_bytes(),
        }
    }

    /// Who belongs to the group, as far as this copy has come.
    pub fn members(&self) -> Members {
        self.membership.members()
    }

    fn leader_id(&self) -> Option<u64> {
        Some(self.node.raft.leader_id).filter(|leader| *leader != raft::INVALID_ID)
    }

    /// Whether nobody else is in the group.
    fn is_alone(&self) -> bool {
        self.membership.is_only(self.config.member)
    }

    /// A lone voter need not wait for an election.
    fn lead_if_alone(&mut self) -> Result<(), LogFailure> {
        if self.is_alone() && self.node.raft.state == StateRole::Follower {
            self.node.campaign().map_err(|error| LogFailure::Engine(error.to_string()))?;
        }
        Ok(())
    }

    fn work(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        self.now_ms = self.now_ms.max(now_ms);
        self.polls += 1;
        out.extend(self.events.drain(..));
        self.trim()?;
        if self.full_until_ms.is_some() {
            self.appends.refuse_waiting(Refusal::DiskFull, out);
        }
        if self.staged.is_none() {
            self.think(out)?;
            if self.node.has_ready() {
                let mut ready = self.node.ready();
                // The messages of a leader may leave before its own sync: followers sync at the same time.
                let messages = ready.take_messages();
                self.staged = Some(ready);
                if self.send_all(messages, out)? {
                    return Ok(());
                }
            }
        }
        if self.full_until_ms.is_none_or(|until| until <= self.now_ms)
            && let Some(ready) = self.staged.take()
        {
            self.settle(ready, out)?;
        }
        if self.staged.is_some() && self.full_until_ms.is_some() {
            let is_lone_voter = self.membership.voters == [self.config.member];
            let committed = self.node.raft.raft_log.committed;
            self.reads.go_on_without_room(self.now_ms, is_lone_voter, committed, out);
        }
        self.reads.settle(self.yielded, self.visible, out);
        if self.node.mut_store().ask_wanted() {
            out.push(LogEvent::SnapshotWanted);
        }
        if self.node.raft.state != StateRole::Leader {
            self.transfers.stop_sending();
        }
        self.transfers.send(&mut self.disk, &self.config, self.now_ms, &mut self.inbox, out)?;
        self.keep_mark(false)?;
        self.write_snapshot(out)
    }

    /// Everything that steps raft.
    fn think(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        self.hear(out)?;
        self.lead_if_alone()?;
        self.tick();
        self.propose(out)?;
        let mut group = Group::new(&mut self.node, &self.membership, &self.inbox, self.config.member, self.now_ms);
        self.changes.make(&mut group, out)?;
        self.say_hello(out)?;
        self.reads.ask(self.now_ms, &mut self.node, &mut self.dice, out);
        if let Some(to) = self.hand_over.take() {
            Group::new(&mut self.node, &self.membership, &self.inbox, self.config.member, self.now_ms).transfer(to);
        }
        Ok(())
    }

    /// Lets as many ticks pass as are due. A process that was paused does not make up for more than one election.
    fn tick(&mut self) {
        let due_ms = *self.next_tick_ms.get_or_insert(self.now_ms + self.config.tick_ms);
        let Some(late_ms) = self.now_ms.checked_sub(due_ms) else { return };
        let ticks = (1 + late_ms / self.config.tick_ms).min(self.config.election_ticks as u64);
        for _ in 0..ticks {
            // Raft draws a time-out from the dice of its thread whenever it starts to wait; ours takes its place before
            // it counts.
            if self.node.raft.election_elapsed == 0 {
                let spread = self.dice.below(self.config.election_ticks as u64) as usize;
                self.election_ticks = self.config.election_ticks + spread;
            }
            self.node.raft.set_randomized_election_timeout(self.election_ticks);
            self.node.tick();
        }
        self.next_tick_ms = Some(self.now_ms + self.config.tick_ms - late_ms % self.config.tick_ms);
    }

    /// Hands all that waits to raft at once, so that one sync makes it durable.
    fn propose(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        if self.node.raft.state != StateRole::Leader {
            let leader = self.leader_id();
            self.appends.refuse_waiting(Refusal::NotLeader { leader }, out);
            return Ok(());
        }
        let batch = self.appends.take_batch();
        if batch.is_empty() {
            return Ok(());
        }
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.config.member;
        message.set_entries(batch.iter().map(|(_, bytes)| entry_of(bytes.clone())).collect::<Vec<_>>().into());
        let (first, term) = (self.node.raft.raft_log.last_index() + 1, self.node.raft.term);
        match self.node.step(message) {
            Ok(()) => {
                for (index, (token, bytes)) in (first..).zip(batch) {
                    self.appends.proposed(index, term, token, bytes.len());
                }
                Ok(())
            }
            Err(raft::Error::ProposalDropped) => {
                let refused = |(token, _)| LogEvent::Refused { token, reason: Refusal::Overloaded };
                out.extend(batch.into_iter().map(refused));
                Ok(())
            }
            Err(error) => Err(LogFailure::Engine(error.to_string())),
        }
    }

    /// Says who leads if that has changed, and gives up what a former leader cannot know any more.
    pub(crate) fn tell_leader(&mut self, out: &mut Vec<LogEvent>) {
        let RaftStatus { leader, leads, .. } = self.status();
        if !leads {
            self.appends.forget_proposed(out);
            self.changes.forget_proposed(out);
        }
        if self.leader != (leader, leads) {
            self.leader = (leader, leads);
            out.push(LogEvent::Leader { member: leader, here: leads });
        }
    }

    fn trim(&mut self) -> Result<(), LogFailure> {
        if self.trim_below > 0 {
            // What a snapshot on its way to another member will need after it stays until it has arrived.
            let sending = self.transfers.oldest();
            let bound = (std::mem::take(&mut self.trim_below) - 1).min(sending.unwrap_or(u64::MAX));
            // Nor does what was yielded on a full disk and raft has not seen go by yet.
            let bound = bound.min(self.node.raft.raft_log.applied);
            self.shelf.hold(sending);
            self.shelf.tidy(&mut self.disk)?;
            self.node.mut_store().trim(bound);
            let oldest = self.shelf.kept().first().copied().unwrap_or(0);
            self.wal.trim(&mut self.disk, bound.min(oldest))?;
        }
        Ok(())
    }

    fn write_snapshot(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let quiet = !self.appends.ready() && self.staged.is_none();
        match quiet || self.polls.is_multiple_of(POLLS_PER_SNAPSHOT_STEP) {
            true => self.step_snapshot(out),
            false => Ok(()),
        }
    }

    fn begin_snapshot(&mut self, index: Index, pieces: Vec<ohm_log::Bytes>) -> Result<(), SubmitError> {
        if self.shelf.writing().is_some() || self.events.len() >= EVENTS_MAX {
            return Err(SubmitError::Busy { queued: self.events.len().max(1) });
        }
        let newest = self.node.store().snapshot_position().index;
        // Entries of raft's own change nothing that the copy knows of: a snapshot covers those that follow it, too.
        let covered = if index.0 == self.visible { self.yielded } else { index.0 };
        let is_newer = index.0 > newest || (self.node.store().is_wanted() && covered > newest);
        match self.node.store().position(covered) {
            Some(position) if is_newer && index.0 <= self.yielded => {
                let known = self.memberships.iter().rev().find(|(from, _)| *from <= covered);
                let members = known.map_or_else(Membership::default, |(_, members)| members.clone());
                self.shelf.begin(Snapshot::new(self.config.cell, position, index, members, pieces));
            }
            _ => {
                let yielded = self.yielded;
                let reason =
                    format!("index {index} must be above the newest snapshot, {newest}, and at most {yielded}");
                self.events.push_back(LogEvent::SnapshotFailed { index, reason });
            }
        }
        Ok(())
    }
}

impl<D: Disk> Log for RaftLog<D> {
    fn submit(&mut self, now_ms: u64, request: LogRequest) -> Result<(), SubmitError> {
        if self.ended {
            return Err(SubmitError::Ended);
        }
        check_lengths(&request)?;
        match request {
            LogRequest::Append { token, bytes } => self.appends.submit(token, bytes),
            LogRequest::SaveSnapshot { index, pieces } => self.begin_snapshot(index, pieces),
            LogRequest::Trim { below } => {
                self.trim_below = self.trim_below.max(below.0);
                Ok(())
            }
            LogRequest::Read { token } => self.reads.submit(token, self.now_ms.max(now_ms)),
            LogRequest::ChangeMembers { token, change } => self.changes.wish(token, change),
            LogRequest::Transfer { to } => {
                self.hand_over = Some(to);
                Ok(())
            }
        }
    }

    fn deliver(&mut self, now_ms: u64, delivery: Delivery) -> Result<(), DeliverError> {
        match self.ended {
            true => Err(DeliverError::Ended),
            false => self.inbox.take(&self.config, self.now_ms.max(now_ms), delivery),
        }
    }

    fn poll(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        if self.ended {
            return Err(LogFailure::Engine("it has failed before".into()));
        }
        let worked = self.work(now_ms, out);
        self.ended = worked.is_err();
        worked
    }

    fn close(&mut self) -> Result<(), LogFailure> {
        if self.ended { Ok(()) } else { self.keep_mark(true) }
    }

    fn wake_ms(&self) -> Option<u64> {
        if self.ended {
            return None;
        }
        let at_once = !self.events.is_empty()
            || self.trim_below > 0
            || self.shelf.writing().is_some()
            || !self.changes.is_idle()
            || self.hand_over.is_some();
        if at_once {
            return Some(self.now_ms);
        }
        if let Some(until_ms) = self.full_until_ms {
            return Some(until_ms);
        }
        let may_lead = self.is_alone() && self.node.raft.state != StateRole::Leader;
        if self.staged.is_some() || !self.inbox.is_empty() || self.appends.ready() || self.node.has_ready() || may_lead
        {
            return Some(self.now_ms);
        }
        let tick_ms = (!self.is_alone()).then(|| self.next_tick_ms.unwrap_or(self.now_ms));
        let pieces_ms = self.transfers.wake_ms(self.now_ms, self.config.batch_bytes);
        let reads_ms = self.reads.wake_ms(self.now_ms);
        [tick_ms, pieces_ms, reads_ms].into_iter().flatten().min()
    }
}

/// How long to wait once the disk is full.
pub(crate) fn full_retry_ms(now_ms: u64) -> u64 {
    now_ms + FULL_RETRY_MS
}

fn entry_of(bytes: ohm_log::Bytes) -> Entry {
    Entry { data: bytes, ..Entry::default() }
}
