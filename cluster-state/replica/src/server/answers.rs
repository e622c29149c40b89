//! What became of what a ticket stands for, told to whoever asked.

use super::{AppendResult, ChangeFailure, Origin, ServerCore, ServerEffect, emit_orders};
use crate::between::{Forwarded, ServerMessage};
use crate::clock::Clock;
use crate::proposal::{ProposeError, Ticket};
use crate::replica::ReplicaFailure;
use ohm_client::SessionInput;
use ohm_log::{Log, Refusal as LogRefusal};
use ohm_model::{Index, Outcome};

impl<L: Log> ServerCore<L> {
    pub(super) fn answered(
        &mut self,
        clock: Clock,
        ticket: Ticket,
        index: Index,
        outcomes: Vec<Outcome>,
        out: &mut Vec<ServerEffect>,
    ) -> Result<(), ReplicaFailure> {
        match self.origins.remove(&ticket) {
            Some(Origin::Peer(peer, ticket)) => {
                out.push(ServerEffect::Appended { peer, ticket, result: AppendResult::Committed { index, outcomes } });
            }
            Some(Origin::Own(commands)) => {
                for ((session, sequence, nonce), outcome) in commands.into_iter().zip(outcomes) {
                    let input = match nonce {
                        Some(nonce) => SessionInput::OpenAnswer { nonce, outcome },
                        None => SessionInput::Answer { session, sequence, outcome },
                    };
                    self.feed_session(clock, input, out)?;
                }
            }
            Some(Origin::Server(from, ticket)) => {
                let result = Forwarded::Committed { index, outcomes };
                self.reply(from, ServerMessage::Done { ticket, result }, out);
            }
            _ => {}
        }
        Ok(())
    }

    /// This copy shows what was asked for.
    pub(super) fn readable(&mut self, ticket: Ticket, out: &mut Vec<ServerEffect>) {
        match self.origins.remove(&ticket) {
            Some(Origin::Read(request)) => out.push(ServerEffect::Readable { request, result: Ok(()) }),
            Some(Origin::Doubt(doubtful)) => {
                self.doubting = false;
                let mut orders = Vec::new();
                self.hub.beats_again(doubtful, self.replica.cell(), &mut orders);
                emit_orders(orders, out);
            }
            _ => {}
        }
    }

    pub(super) fn members_changed(
        &mut self,
        ticket: Ticket,
        result: Result<u64, ChangeFailure>,
        out: &mut Vec<ServerEffect>,
    ) {
        match self.origins.remove(&ticket) {
            Some(Origin::Change(request)) => out.push(ServerEffect::MembersChanged { request, result }),
            Some(Origin::ServerChange(from, ticket)) => {
                let result = result.map_err(|failure| (failure.again, failure.reason));
                self.reply(from, ServerMessage::Changed { ticket, result }, out);
            }
            _ => {}
        }
    }

    pub(super) fn turned(&mut self, ticket: Ticket, error: &ProposeError, out: &mut Vec<ServerEffect>) {
        self.unanswered(ticket, AppendResult::Busy(error.to_string()), out);
    }

    pub(super) fn refused(&mut self, ticket: Ticket, reason: LogRefusal, out: &mut Vec<ServerEffect>) {
        if matches!(self.origins.get(&ticket), Some(Origin::Change(_) | Origin::ServerChange(..))) {
            return self.members_changed(ticket, Err(reason.into()), out);
        }
        self.unanswered(ticket, AppendResult::Busy(reason.to_string()), out);
    }

    /// The server's own session asks again by itself; everybody else is told.
    pub(super) fn unanswered(&mut self, ticket: Ticket, result: AppendResult, out: &mut Vec<ServerEffect>) {
        let in_words = |result: AppendResult| match result {
            AppendResult::Busy(reason) | AppendResult::NotServing(reason) | AppendResult::Unknown(reason) => reason,
            AppendResult::Committed { .. } => "the outcome is not known".to_string(),
        };
        match self.origins.remove(&ticket) {
            Some(Origin::Peer(peer, ticket)) => out.push(ServerEffect::Appended { peer, ticket, result }),
            Some(Origin::Server(from, ticket)) => {
                let result = match result {
                    AppendResult::Committed { index, outcomes } => Forwarded::Committed { index, outcomes },
                    AppendResult::Busy(reason) | AppendResult::NotServing(reason) => Forwarded::Busy(reason),
                    AppendResult::Unknown(reason) => Forwarded::Unknown(reason),
                };
                self.reply(from, ServerMessage::Done { ticket, result }, out);
            }
            Some(Origin::Read(request)) => {
                out.push(ServerEffect::Readable { request, result: Err(in_words(result)) });
            }
            Some(origin @ (Origin::Change(_) | Origin::ServerChange(..))) => {
                self.origins.insert(ticket, origin);
                let failure = ChangeFailure { again: true, reason: in_words(result) };
                self.members_changed(ticket, Err(failure), out);
            }
            // The agents beat again.
            Some(Origin::Doubt(_)) => self.doubting = false,
            Some(Origin::Own(_)) | None => {}
        }
    }
}
