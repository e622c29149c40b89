//! What this member says to the others and hears from them.

use crate::inbox::Heard;
use crate::message::{self, Ends, Word};
use crate::raft_log::RaftLog;
use ohm_log::{Disk, LogEvent, LogFailure};
use ohm_model::Index;
use raft::eraftpb::{Message, MessageType};

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
            self.transfers.give_up_arrived(&mut self.disk)?;
        }
        Ok(())
    }

    fn take_word(&mut self, word: Word, out: &mut Vec<LogEvent>) -> Result<(), LogFailure> {
        match word {
            Word::Raft(message) => {
                self.check_not_lost(&message)?;
                if is_of_no_term(&message) || self.follows_nothing(&message) {
                    return Ok(());
                }
                // Raft answers stale and surplus messages with errors that mean no more than that.
                self.node.step(*message).ok();
            }
            Word::Piece(piece, data) => {
                let whole = self.transfers.take_piece(&mut self.disk, &self.config, &piece, &data, out)?;
                whole.into_iter().for_each(|announcement| drop(self.node.step(announcement)));
            }
            Word::PieceAnswer(answer) => {
                if let Some(status) = self.transfers.take_answer(self.now_ms, &answer) {
                    self.node.report_snapshot(answer.from, status);
                }
            }
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
        if self.node.raft.promotable() || !self.inbox.is_silent(self.hello_ms, self.now_ms) {
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
                self.transfers.begin(&mut self.disk, self.now_ms, message, &mut self.inbox)?;
                continue;
            }
            let bytes = message::seal(self.config.cell, &Word::Raft(Box::new(message))).map_err(LogFailure::Engine)?;
            out.push(LogEvent::Send { to, bytes });
        }
        Ok(any)
    }

    /// Whether entries are to follow one that is not here, and of which no term is said. No leader says so; raft takes
    /// what it does not have for an entry of no term, and would panic.
    fn follows_nothing(&self, message: &Message) -> bool {
        let is_append = message.get_msg_type() == MessageType::MsgAppend;
        is_append && message.log_term == 0 && message.index > self.node.raft.raft_log.last_index()
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

/// Whether a word says no term that should say one; only the question for an index to read goes without. No member
/// leaves the term out; raft takes such a word for one of this member's own, believes it whatever the term is, and may
/// panic.
fn is_of_no_term(message: &Message) -> bool {
    message.term == 0 && message.get_msg_type() != MessageType::MsgReadIndex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_a_question_to_read_say_their_term() {
        let mut message = Message::default();
        for (kind, refused) in [
            (MessageType::MsgHeartbeat, true),
            (MessageType::MsgAppend, true),
            (MessageType::MsgSnapshot, true),
            (MessageType::MsgRequestPreVote, true),
            (MessageType::MsgReadIndex, false),
        ] {
            message.set_msg_type(kind);
            message.term = 0;
            assert_eq!(is_of_no_term(&message), refused, "{kind:?}");
            message.term = 1;
            assert!(!is_of_no_term(&message), "{kind:?}");
        }
    }
}
