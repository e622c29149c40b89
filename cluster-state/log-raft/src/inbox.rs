//! What the network brought and raft has not heard yet. Checks come before the queue, so that strangers cannot fill it.

use crate::config::RaftConfig;
use crate::message;
use crate::raft_log::RaftLog;
use crate::snapshots;
use ohm_log::{DeliverError, Delivery, Disk, DiskError, LogEvent, LogFailure};
use ohm_model::Index;
use raft::SnapshotStatus;
use raft::eraftpb::{Message, MessageType};
use std::collections::VecDeque;

/// A bounded queue of checked messages and of news about sent ones.
pub(crate) struct Inbox {
    messages_max: usize,
    bytes_max: usize,
    bytes: usize,
    waiting: VecDeque<(Heard, usize)>,
}

pub(crate) enum Heard {
    Message(Box<Message>),
    Unreachable(u64),
    Snapshot(u64, SnapshotStatus),
}

impl Inbox {
    pub(crate) fn new(messages_max: usize, bytes_max: usize) -> Self {
        Inbox { messages_max, bytes_max, bytes: 0, waiting: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Checks a delivery and queues it. One that is longer than the limit still fits into an empty queue.
    pub(crate) fn take(&mut self, config: &RaftConfig, delivery: Delivery) -> Result<(), DeliverError> {
        let full =
            |bytes| self.waiting.len() >= self.messages_max || (self.bytes > 0 && self.bytes + bytes > self.bytes_max);
        let known = |member| match config.voters.contains(&member) {
            true => Ok(member),
            false => Err(DeliverError::Member { from: member, to: config.member, here: config.member }),
        };
        let (heard, bytes) = match delivery {
            Delivery::Message(bytes) if full(bytes.len()) => {
                return Err(DeliverError::Busy { queued: self.waiting.len() });
            }
            Delivery::Message(bytes) => (Heard::Message(Box::new(message::open(config, &bytes)?)), bytes.len()),
            Delivery::Unreachable { member } => (Heard::Unreachable(known(member)?), 0),
            Delivery::SnapshotSent { member, arrived } => {
                let status = if arrived { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
                (Heard::Snapshot(known(member)?, status), 0)
            }
        };
        // News about sent messages is dropped when it cannot be kept, but news about a snapshot is what the peer's
        // progress waits for.
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
    /// Lets raft hear all that has arrived.
    pub(crate) fn hear(&mut self) -> Result<(), LogFailure> {
        while let Some(heard) = self.inbox.pop() {
            match heard {
                Heard::Unreachable(member) => self.node.report_unreachable(member),
                Heard::Snapshot(member, status) => self.node.report_snapshot(member, status),
                Heard::Message(message) => {
                    self.check_not_lost(&message)?;
                    // Raft answers stale and surplus messages with errors that mean no more than that.
                    self.node.step(*message).ok();
                }
            }
        }
        Ok(())
    }

    /// Puts messages into the events; true if there were any.
    pub(crate) fn send_all(&mut self, messages: Vec<Message>, out: &mut Vec<LogEvent>) -> Result<bool, LogFailure> {
        let any = !messages.is_empty();
        for message in messages {
            self.send(message, out)?;
        }
        Ok(any)
    }

    fn send(&mut self, mut message: Message, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        let to = message.to;
        let snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
        if snapshot {
            let index = message.get_snapshot().get_metadata().index;
            match snapshots::read_file(&mut self.disk, index) {
                Ok(bytes) => message.mut_snapshot().data = bytes,
                Err(DiskError::NotFound { .. }) => {
                    self.inbox.waiting.push_back((Heard::Snapshot(to, SnapshotStatus::Failure), 0));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let bytes = message::seal(self.config.cell, &message).map_err(LogFailure::Engine)?;
        out.push(LogEvent::Send { to, bytes, snapshot });
        Ok(())
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
