//! What servers of one cell say to each other besides the words of their log.
//!
//! ```text
//! [ kind: u8 ][ body ]      kind 1: for the log, opaque    kind 2: one of ServerMessage    kind 3: commands, see below
//! commands: [ ticket: u64 ] ( [ length: u32 ][ command ] )*
//! ```
//! Losing a message costs a repetition by whoever waits for it.

use crate::hub::Beat;
use ohm_agent::BeatAnswer;
use ohm_log::{Bytes, MemberChange};
use ohm_model::{Epoch, Incarnation, Index, NodeId, Outcome, SessionId};
use ohm_stdx::codec;
use serde::{Deserialize, Serialize};

const KIND_LOG: u8 = 1;
const KIND_SERVER: u8 = 2;
const KIND_COMMANDS: u8 = 3;

/// What one server says to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parcel {
    /// For the log.
    Log(Bytes),
    /// Commands for the leader, with the sender's name for them.
    Commands(u64, Vec<Bytes>),
    /// Anything else.
    Message(ServerMessage),
}

/// Everything that is neither the log's nor commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ServerMessage {
    /// What became of commands.
    Done { ticket: u64, result: Forwarded },
    /// A change of members for the leader.
    Change { ticket: u64, change: Change },
    /// What became of it.
    Changed { ticket: u64, result: Result<u64, (bool, String)> },
    /// These sessions, which compete for the health duty, are connected to the sender.
    DutyHere { sessions: Vec<SessionId> },
    /// Signs of life, for the holder of the health duty at the receiver.
    Beats { beats: Vec<(NodeId, Incarnation, u64)> },
    /// Its answers, for agents at the receiver.
    Answers { answers: Vec<Answered> },
    /// The running hash of the sender's copy after an entry.
    Digest { index: Index, chain: u64 },
    /// What the sender's wall clock shows.
    Clock { wall_ms: u64 },
    /// The operator believes the wall clock of this server; for whoever stamps entries.
    BelieveClock { server: u64 },
}

/// What became of commands that another server sent on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Forwarded {
    Committed { index: Index, outcomes: Vec<Outcome> },
    Busy(String),
    Unknown(String),
}

/// An answer to a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    node: NodeId,
    incarnation: Incarnation,
    duty_epoch: Epoch,
    sequence: u64,
    lease_ms: u64,
    interval_ms: u64,
}

/// A change of members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    Add {
        member: u64,
        address: String,
        key: u64,
    },
    Promote {
        member: u64,
    },
    Remove {
        member: u64,
    },
    /// No change: somebody else is to lead.
    Transfer {
        to: Option<u64>,
    },
}

impl From<MemberChange> for Change {
    fn from(change: MemberChange) -> Self {
        match change {
            MemberChange::Add { member, address, key } => Change::Add { member, address, key },
            MemberChange::Promote { member } => Change::Promote { member },
            MemberChange::Remove { member } => Change::Remove { member },
        }
    }
}

impl From<Beat> for (NodeId, Incarnation, u64) {
    fn from(beat: Beat) -> Self {
        (beat.node, beat.incarnation, beat.sequence)
    }
}

impl From<(NodeId, Incarnation, u64)> for Beat {
    fn from((node, incarnation, sequence): (NodeId, Incarnation, u64)) -> Self {
        Beat { node, incarnation, sequence }
    }
}

impl From<(NodeId, BeatAnswer)> for Answered {
    fn from((node, answer): (NodeId, BeatAnswer)) -> Self {
        let BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms } = answer;
        Answered { node, incarnation, duty_epoch, sequence, lease_ms, interval_ms }
    }
}

impl From<Answered> for (NodeId, BeatAnswer) {
    fn from(answered: Answered) -> Self {
        let Answered { node, incarnation, duty_epoch, sequence, lease_ms, interval_ms } = answered;
        (node, BeatAnswer { incarnation, duty_epoch, sequence, lease_ms, interval_ms })
    }
}

impl Parcel {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        match self {
            Parcel::Log(word) => {
                bytes.reserve(1 + word.len());
                bytes.push(KIND_LOG);
                bytes.extend_from_slice(word);
            }
            Parcel::Commands(ticket, commands) => {
                bytes.push(KIND_COMMANDS);
                bytes.extend_from_slice(&ticket.to_le_bytes());
                for command in commands {
                    bytes.extend_from_slice(&(command.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(command);
                }
            }
            Parcel::Message(message) => {
                bytes.push(KIND_SERVER);
                bytes.extend_from_slice(&codec::encode(message));
            }
        }
        bytes.into()
    }

    /// Nothing when the bytes are of another version or no parcel at all.
    pub(crate) fn decode(mut bytes: Bytes) -> Option<Self> {
        match take(&mut bytes, 1)?[0] {
            KIND_LOG => Some(Parcel::Log(bytes)),
            KIND_SERVER => codec::decode(&bytes).ok().map(Parcel::Message),
            KIND_COMMANDS => {
                let ticket = u64::from_le_bytes(take(&mut bytes, 8)?[..].try_into().ok()?);
                let mut commands = Vec::new();
                while !bytes.is_empty() {
                    let length = u32::from_le_bytes(take(&mut bytes, 4)?[..].try_into().ok()?);
                    commands.push(take(&mut bytes, length as usize)?);
                }
                Some(Parcel::Commands(ticket, commands))
            }
            _ => None,
        }
    }
}

fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (bytes.len() >= length).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_come_back_and_rubbish_does_not() {
        let commands = vec![Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")];
        let outcomes = vec![Outcome::Done, Outcome::Session(SessionId(4))];
        for parcel in [
            Parcel::Log(Bytes::from_static(b"raft")),
            Parcel::Commands(7, commands),
            Parcel::Message(ServerMessage::Done {
                ticket: 7,
                result: Forwarded::Committed { index: Index(3), outcomes },
            }),
            Parcel::Message(ServerMessage::Digest { index: Index(9), chain: 10 }),
            Parcel::Message(ServerMessage::Clock { wall_ms: 11 }),
            Parcel::Message(ServerMessage::BelieveClock { server: 3 }),
        ] {
            let bytes = parcel.encode();
            assert_eq!(Parcel::decode(bytes.clone()), Some(parcel.clone()));
            if !matches!(parcel, Parcel::Log(_)) {
                // What is cut off is refused or, between two commands, shorter; never something else.
                (0..bytes.len()).for_each(|end| assert_ne!(Parcel::decode(bytes.slice(..end)), Some(parcel.clone())));
            }
        }
        assert_eq!(Parcel::decode(Bytes::new()), None);
        assert_eq!(Parcel::decode(Bytes::from_static(&[9, 9])), None);
    }
}
