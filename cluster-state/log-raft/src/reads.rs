//! Reads that see everything acknowledged before them. The leader asks a majority whether it still leads (never its own
//! clock: a paused leader would answer with the past), and says how far a copy must be.

use crate::config::RaftConfig;
use crate::storage::Durable;
use ohm_log::{LogEvent, Refusal, SubmitError};
use ohm_model::Index;
use ohm_stdx::Prng;
use ohm_stdx::bug::{self, Bug};
use raft::{RawNode, ReadState, StateRole};

/// Reads that may wait.
const READS_MAX: usize = 65_536;
/// Ticks after which an unanswered question is asked again: raft drops it without a word when there is no leader, or
/// one that has committed nothing in its term yet.
const RETRY_TICKS: u64 = 4;

/// Reads of this member. All that wait travel in one question.
pub(crate) struct Reads {
    /// Who asks.
    member: u64,
    /// An unanswered question is asked again after this long.
    retry_ms: u64,
    /// Nobody waits for longer: long enough to see one leader go and another one come.
    patience_ms: u64,
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
    pub(crate) fn new(config: &RaftConfig) -> Self {
        Reads {
            member: config.member,
            retry_ms: RETRY_TICKS * config.tick_ms,
            patience_ms: 4 * config.election_ticks as u64 * config.tick_ms,
            waiting: Vec::new(),
            asked: None,
            answered: Vec::new(),
        }
    }

    pub(crate) fn submit(&mut self, token: u64, now_ms: u64) -> Result<(), SubmitError> {
        if self.waiting.len() >= READS_MAX {
            return Err(SubmitError::Busy { queued: self.waiting.len() });
        }
        self.waiting.push(Read { token, since_ms: now_ms });
        Ok(())
    }

    /// When something is to be done although nothing comes in.
    pub(crate) fn wake_ms(&self, now_ms: u64) -> Option<u64> {
        match &self.asked {
            Some(asked) => Some(asked.at_ms + self.retry_ms),
            None if self.waiting.is_empty() => None,
            None => Some(now_ms),
        }
    }

    /// Asks for those that wait. `dice` tell this question from others.
    pub(crate) fn ask(&mut self, now_ms: u64, node: &mut RawNode<Durable>, dice: &mut Prng, out: &mut Vec<LogEvent>) {
        self.expire(now_ms, out);
        if bug::is_planted(Bug::TrustOwnLead) && node.raft.state == StateRole::Leader {
            return self.answer_all(node.raft.raft_log.committed);
        }
        if let Some(context) = self.question(now_ms, dice) {
            node.read_index(context);
        }
    }

    /// Raft stands still as long as the disk is full. A lone voter needs nobody's word: what is committed is durable
    /// here. Among several, others may lead by now: nobody is told more than that.
    pub(crate) fn go_on_without_room(
        &mut self,
        now_ms: u64,
        is_lone_voter: bool,
        committed: u64,
        out: &mut Vec<LogEvent>,
    ) {
        match is_lone_voter {
            true => self.answer_all(committed),
            false => self.expire(now_ms, out),
        }
    }

    /// Raft has answered questions.
    pub(crate) fn answer(&mut self, states: Vec<ReadState>) {
        for state in states {
            if let Some(asked) = self.asked.take_if(|asked| asked.context == state.request_ctx) {
                self.answered.push((state.index, asked.reads));
            }
        }
    }

    /// Answers those whose entries were all yielded.
    pub(crate) fn settle(&mut self, yielded: u64, visible: u64, out: &mut Vec<LogEvent>) {
        self.answered.retain(|(index, reads)| {
            if *index <= yielded {
                let event = |read: &Read| LogEvent::Readable { token: read.token, index: Index(visible) };
                out.extend(reads.iter().map(event));
            }
            *index > yielded
        });
    }

    /// Gives up those that wait for too long, and takes an unanswered question back to ask it again.
    fn expire(&mut self, now_ms: u64, out: &mut Vec<LogEvent>) {
        let retry_ms = self.retry_ms;
        if let Some(asked) = self.asked.take_if(|asked| asked.at_ms + retry_ms <= now_ms) {
            self.waiting.splice(0..0, asked.reads);
        }
        self.waiting.retain(|read| {
            let late = read.since_ms + self.patience_ms <= now_ms;
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

    fn question(&mut self, now_ms: u64, dice: &mut Prng) -> Option<Vec<u8>> {
        if self.asked.is_some() || self.waiting.is_empty() {
            return None;
        }
        // The leader tells questions of all members apart by this.
        let context = [self.member.to_le_bytes(), dice.u64().to_le_bytes()].concat();
        let reads = std::mem::take(&mut self.waiting);
        self.asked = Some(Asked { context: context.clone(), reads, at_ms: now_ms });
        Some(context)
    }
}
