//! Reads that see everything acknowledged before them. The leader asks a majority whether it still leads (never its own
//! clock: a paused leader would answer with the past), and says how far a copy must be.

use crate::raft_log::RaftLog;
use ohm_log::{Disk, LogEvent, Refusal, SubmitError};
use ohm_model::Index;
use ohm_stdx::Prng;
use ohm_stdx::canary::{self, Canary};
use raft::{ReadState, StateRole};

/// Reads that may wait.
const READS_MAX: usize = 65_536;
/// Ticks after which an unanswered question is asked again: raft drops it without a word when there is no leader, or
/// one that has committed nothing in its term yet.
const RETRY_TICKS: u64 = 4;

/// Reads of this member. All that wait travel in one question.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: Vec<Read>,
    asked: Option<Asked>,
    /// Answered, until this many entries are yielded.
    answered: Vec<(u64, Vec<Read>)>,
}

struct Read {
    token: u64,
    since_ms: u64,
}

struct Asked {
    context: Vec<u8>,
    reads: Vec<Read>,
    at_ms: u64,
}

impl Reads {
    pub(crate) fn submit(&mut self, token: u64, now_ms: u64) -> Result<(), SubmitError> {
        if self.waiting.len() >= READS_MAX {
            return Err(SubmitError::Busy { queued: self.waiting.len() });
        }
        self.waiting.push(Read { token, since_ms: now_ms });
        Ok(())
    }

    /// When something is to be done although nothing comes in.
    pub(crate) fn wake_ms(&self, now_ms: u64, retry_ms: u64) -> Option<u64> {
        match &self.asked {
            Some(asked) => Some(asked.at_ms + retry_ms),
            None if self.waiting.is_empty() => None,
            None => Some(now_ms),
        }
    }

    fn answer(&mut self, state: ReadState) {
        if let Some(asked) = self.asked.take_if(|asked| asked.context == state.request_ctx) {
            self.answered.push((state.index, asked.reads));
        }
    }

    /// Those whose entries were all yielded.
    fn settle(&mut self, yielded: u64, visible: u64, out: &mut Vec<LogEvent>) {
        self.answered.retain(|(index, reads)| {
            if *index <= yielded {
                let event = |read: &Read| LogEvent::Readable { token: read.token, index: Index(visible) };
                out.extend(reads.iter().map(event));
            }
            *index > yielded
        });
    }

    /// Gives up those that wait for longer than `patience_ms`, and takes an unanswered question back to ask it again.
    fn expire(&mut self, now_ms: u64, retry_ms: u64, patience_ms: u64, out: &mut Vec<LogEvent>) {
        if let Some(asked) = self.asked.take_if(|asked| asked.at_ms + retry_ms <= now_ms) {
            self.waiting.splice(0..0, asked.reads);
        }
        self.waiting.retain(|read| {
            let late = read.since_ms + patience_ms <= now_ms;
            if late {
                out.push(LogEvent::Refused { token: read.token, reason: Refusal::NoMajority });
            }
            !late
        });
    }

    /// Answers all that wait, asked or not, once `index` is yielded.
    fn answer_all(&mut self, index: u64) {
        let asked = self.asked.take().map(|asked| asked.reads).unwrap_or_default();
        let reads: Vec<Read> = asked.into_iter().chain(std::mem::take(&mut self.waiting)).collect();
        if !reads.is_empty() {
            self.answered.push((index, reads));
        }
    }

    fn ask(&mut self, now_ms: u64, member: u64, dice: &mut Prng) -> Option<Vec<u8>> {
        if self.asked.is_some() || self.waiting.is_empty() {
            return None;
        }
        // The leader tells questions of all members apart by this.
        let context = [member.to_le_bytes(), dice.u64().to_le_bytes()].concat();
        let reads = std::mem::take(&mut self.waiting);
        self.asked = Some(Asked { context: context.clone(), reads, at_ms: now_ms });
        Some(context)
    }
}

impl<D: Disk> RaftLog<D> {
    pub(crate) fn read_retry_ms(&self) -> u64 {
        RETRY_TICKS * self.config.tick_ms
    }

    /// Asks for those that wait.
    pub(crate) fn ask_reads(&mut self, out: &mut Vec<LogEvent>) {
        self.expire_reads(out);
        if canary::sings(Canary::TrustOwnLead) && self.node.raft.state == StateRole::Leader {
            return self.reads.answer_all(self.node.raft.raft_log.committed);
        }
        if let Some(context) = self.reads.ask(self.now_ms, self.config.member, &mut self.dice) {
            self.node.read_index(context);
        }
    }

    /// Raft stands still as long as the disk is full. A lone voter needs nobody's word: what is committed is durable
    /// here. Among several, others may lead by now: nobody is told more than that.
    pub(crate) fn read_without_room(&mut self, out: &mut Vec<LogEvent>) {
        match self.membership.voters == [self.config.member] {
            true => self.reads.answer_all(self.node.raft.raft_log.committed),
            false => self.expire_reads(out),
        }
    }

    fn expire_reads(&mut self, out: &mut Vec<LogEvent>) {
        // Long enough to see one leader go and another one come.
        let patience_ms = 4 * self.config.election_ticks as u64 * self.config.tick_ms;
        self.reads.expire(self.now_ms, self.read_retry_ms(), patience_ms, out);
    }

    pub(crate) fn take_reads(&mut self, states: Vec<ReadState>) {
        states.into_iter().for_each(|state| self.reads.answer(state));
    }

    pub(crate) fn settle_reads(&mut self, out: &mut Vec<LogEvent>) {
        self.reads.settle(self.yielded, self.visible, out);
    }
}
