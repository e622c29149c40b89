//! What the network brought and raft has not heard yet. Checks come before the queue, so that strangers cannot fill it.

use crate::config::RaftConfig;
use crate::message::{self, Ends, Word};
use crate::raft_log::RaftLog;
use ohm_log::{DeliverError, Delivery, Disk, LogEvent, LogFailure};
use ohm_model::Index;
use raft::SnapshotStatus;
use raft::eraftpb::{Message, MessageType};
use std::collections::{BTreeMap, VecDeque};

/// Members whose last word is remembered; there are never near as many.
const HEARD_MAX: usize = 64;

/// A bounded queue of checked messages and of news about sent ones.
pub(crate) struct Inbox {
    messages_max: usize,
    bytes_max: usize,
    bytes: usize,
    waiting: VecDeque<(Heard, usize)>,
    /// When each member was heard last.
    heard_ms: BTreeMap<u64, u64>,
}

pub(crate) enum Heard {
    Word(Box<Word>),
    Unreachable(u64),
    Snapshot(u64, SnapshotStatus),
}

impl Inbox {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Inbox { messages_max, bytes_max, bytes: 0, waiting: VecDeque::new(), heard_ms: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When `member` said something last.
    pub(crate) fn heard_ms(&self, member: u64) -> Option<u64> {
        self.heard_ms.get(&member).copied()
    }

    /// Queues news of this member's own.
    pub(crate) fn push(&mut self, heard: Heard) {
        self.waiting.push_back((heard, 0));
    }

    /// Checks a delivery and queues it. One that is longer than the limit still fits into an empty queue.
    pub(crate) fn take(&mut self, config: &RaftConfig, now_ms: u64, delivery: Delivery) -> Result<(), DeliverError> {
        let full =
            |bytes| self.waiting.len() >= self.messages_max || (self.bytes > 0 && self.bytes + bytes > self.bytes_max);
        let (heard, bytes) = match delivery {
            Delivery::Message(bytes) if full(bytes.len()) => {
                return Err(DeliverError::Busy { queued: self.waiting.len() });
            }
            Delivery::Message(bytes) => {
                let word = message::open(config, &bytes)?;
                if self.heard_ms.len() < HEARD_MAX {
                    self.heard_ms.insert(word.ends().0, now_ms);
                }
                (Heard::Word(Box::new(word)), bytes.len())
            }
            Delivery::Unreachable { member } => (Heard::Unreachable(member), 0),
        };
        // News about sent messages is dropped when it cannot be kept.
        if self.waiting.len() >= 2 * self.messages_max {
            return Err(DeliverError::Busy { queued: self.waiting.len() });
        }
        self.bytes += bytes;
        self.waiting.push_back((heard, bytes));
        Ok(())
    }

    fn pop(&mut self) -> Option<Heard> {
        let (heard, bytes) = self.waiting.pop_front()?;
        self.bytes -= bytes;
        Some(heard)
    }
}

impl<D: Disk> RaftLog<D> {
    /// Lets raft hear what has arrived; no further than to a snapshot that came whole.
    pub(crate) fn hear(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        while !self.transfers.has_arrived()
            && let Some(heard) = self.inbox.pop()
        {
            match heard {
                Heard::Unreachable(member) => self.node.report_unreachable(member),
                Heard::Snapshot(member, status) => self.node.report_snapshot(member, status),
                Heard::Word(word) if self.membership.is_removed(word.ends().0) => {
                    self.bid_farewell(word.ends().0, out)?;
                }
                Heard::Word(word) => self.take_word(*word, out)?,
            }
        }
        // Raft may have no use for it any more.
        if self.node.snap().is_none() {
            self.give_up_arrived()?;
        }
        Ok(())
    }

    fn take_word(&mut self, word: Word, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        match word {
            Word::Raft(message) => {
                self.check_not_lost(&message)?;
                // Raft answers stale and surplus messages with errors that mean no more than that.
                self.node.step(*message).ok();
            }
            Word::Piece(piece, data) => self.take_piece(&piece, &data, out)?,
            Word::PieceAnswer(answer) => self.take_piece_answer(&answer),
            Word::Hello(_) => {}
            Word::Removed(_) => return Err(LogFailure::Removed { member: self.config.member }),
        }
        Ok(())
    }

    /// A member that was removed while it was away does not know it yet.
    fn bid_farewell(&mut self, member: u64, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let ends = Ends { from: self.config.member, to: member };
        let bytes = message::seal(self.config.cell, &Word::Removed(ends)).map_err(LogFailure::Engine)?;
        out.push(LogEvent::Send { to: member, bytes });
        Ok(())
    }

    /// One that does not vote never stands for election, and so would never learn that it was removed: it asks.
    pub(crate) fn say_hello(&mut self, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let patience_ms = 2 * self.config.election_ticks as u64 * self.config.tick_ms;
        let last_ms = self.inbox.heard_ms.values().copied().max().unwrap_or(0).max(self.hello_ms);
        if self.node.raft.promotable() || self.now_ms < last_ms + patience_ms {
            return Ok(());
        }
        self.hello_ms = self.now_ms;
        for to in self.membership.voters.iter().copied().filter(|voter| *voter != self.config.member) {
            let ends = Ends { from: self.config.member, to };
            let bytes = message::seal(self.config.cell, &Word::Hello(ends)).map_err(LogFailure::Engine)?;
            out.push(LogEvent::Send { to, bytes });
        }
        Ok(())
    }

    /// Puts messages into the events; true if there were any.
    pub(crate) fn send_all(&mut self, messages: Vec<Message>, out: &mut Vec<LogEvent>) -> Result<bool, LogFailure> {
        let any = !messages.is_empty();
        for message in messages {
            let to = message.to;
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.begin_transfer(message)?;
                continue;
            }
            let bytes = message::seal(self.config.cell, &Word::Raft(Box::new(message))).map_err(LogFailure::Engine)?;
            out.push(LogEvent::Send { to, bytes });
        }
        Ok(any)
    }

    /// A leader never tells a member to commit more than that member has acknowledged. If it does, the entries were
    /// acknowledged by this member and are gone; raft would panic.
    fn check_not_lost(&self, message: &Message) -> Result<(), LogFailure> {
        let (raft, last) = (&self.node.raft, self.node.raft.raft_log.last_index());
        let heartbeat = message.get_msg_type() == MessageType::MsgHeartbeat;
        if heartbeat && message.term >= raft.term && message.commit > last {
            return Err(LogFailure::Lost { acknowledged: Index(message.commit), last: Index(last) });
        }
        Ok(())
    }
}
