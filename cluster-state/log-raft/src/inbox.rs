//! What the network brought and raft has not heard yet. Checks come before the queue, so that strangers cannot fill it.

use crate::config::RaftConfig;
use crate::message::{self, Word};
use ohm_log::{DeliverError, Delivery};
use raft::SnapshotStatus;
use std::collections::{BTreeMap, VecDeque};

/// Members whose last word is remembered; there are never near as many.
const HEARD_MAX: usize = 64;

/// A bounded queue of checked messages and of news about sent ones.
pub(crate) struct Inbox {
    messages_max: usize,
    bytes_max: usize,
    /// The longest election time-out: whoever is silent for longer is not counted on.
    patience_ms: u64,
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
    pub(crate) fn new(config: &RaftConfig) -> Self {
        Inbox {
            messages_max: config.queue_messages,
            bytes_max: config.queue_bytes,
            patience_ms: 2 * config.election_ticks as u64 * config.tick_ms,
            bytes: 0,
            waiting: VecDeque::new(),
            heard_ms: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether `member` said something within the longest election time-out.
    pub(crate) fn was_heard(&self, member: u64, now_ms: u64) -> bool {
        self.heard_ms.get(&member).is_some_and(|heard_ms| heard_ms + self.patience_ms >= now_ms)
    }

    /// Whether nobody said anything for the longest election time-out, nor was asked, which was at `asked_ms`.
    pub(crate) fn is_silent(&self, asked_ms: u64, now_ms: u64) -> bool {
        let last_ms = self.heard_ms.values().copied().max().unwrap_or(0).max(asked_ms);
        now_ms >= last_ms + self.patience_ms
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

    pub(crate) fn pop(&mut self) -> Option<Heard> {
        let (heard, bytes) = self.waiting.pop_front()?;
        self.bytes -= bytes;
        Some(heard)
    }
}
