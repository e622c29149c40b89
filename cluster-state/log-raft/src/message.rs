//! Messages between members: the words of raft, and pieces of snapshots, in an envelope that keeps strangers out.
//!
//! ```text
//! [ format: u8 ][ kind: u8 ][ cell: u64 ][ hash of cell, kind and body: u64 ][ body ]
//! body:  raft message (protobuf)  |  [ length: u32 ][ piece ][ bytes of the snapshot ]  |  answer to a piece
//!        |  who speaks to whom
//! ```
//! The raft crate panics on odd messages, so nothing reaches it that was not checked here. The sender need not be a
//! member that this copy knows: one that was added later may lead before this copy hears of it.

use crate::config::RaftConfig;
use crate::record::COUNT_MAX;
use bytes::Bytes;
use ohm_log::DeliverError;
use ohm_stdx::{codec, hash};
use protobuf::Message as _;
use raft::eraftpb::{Message, MessageType};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ops::Range;

/// The format of messages; another one is refused.
const MESSAGE_FORMAT: u8 = 0xb1;
const CELL: Range<usize> = 2..10;
const HASH: Range<usize> = 10..18;

const KIND_RAFT: u8 = 1;
const KIND_PIECE: u8 = 2;
const KIND_PIECE_ANSWER: u8 = 3;
const KIND_REMOVED: u8 = 4;
const KIND_HELLO: u8 = 5;

/// Where a piece of a snapshot belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) index: u64,
    pub(crate) term: u64,
    /// Where it begins in the file, and how long the file is.
    pub(crate) offset: u64,
    pub(crate) total: u64,
    /// The message of raft that the whole snapshot stands for.
    pub(crate) announcement: Vec<u8>,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Taken {
    /// Everything up to the offset is there; go on.
    More,
    /// Something is missing: go on from the offset.
    Rewind,
    /// All of it is there and is whole.
    Whole,
    /// It is damaged or of no use.
    Refused,
}

/// The answer to a piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceAnswer {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) offset: u64,
    pub(crate) taken: Taken,
}

/// Nothing but who speaks to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ends {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What members send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    Raft(Box<Message>),
    Piece(Piece, Bytes),
    PieceAnswer(PieceAnswer),
    /// The receiver was removed from the group.
    Removed(Ends),
    /// The sender has heard of nobody for a while: was it removed?
    Hello(Ends),
}

impl Word {
    /// Sender and receiver.
    pub(crate) fn ends(&self) -> (u64, u64) {
        match self {
            Word::Raft(message) => (message.from, message.to),
            Word::Piece(piece, _) => (piece.from, piece.to),
            Word::PieceAnswer(answer) => (answer.from, answer.to),
            Word::Removed(ends) | Word::Hello(ends) => (ends.from, ends.to),
        }
    }
}

/// Puts a word in its envelope.
pub(crate) fn seal(cell: u64, word: &Word) -> Result<Bytes, String> {
    let mut bytes = vec![0; HASH.end];
    bytes[0] = MESSAGE_FORMAT;
    bytes[CELL].copy_from_slice(&cell.to_le_bytes());
    bytes[1] = match word {
        Word::Raft(message) => {
            message.write_to_vec(&mut bytes).map_err(|error| error.to_string())?;
            KIND_RAFT
        }
        Word::Piece(piece, data) => {
            let head = codec::encode(piece);
            bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(data);
            KIND_PIECE
        }
        Word::PieceAnswer(answer) => {
            bytes.extend_from_slice(&codec::encode(answer));
            KIND_PIECE_ANSWER
        }
        Word::Removed(ends) => {
            bytes.extend_from_slice(&codec::encode(ends));
            KIND_REMOVED
        }
        Word::Hello(ends) => {
            bytes.extend_from_slice(&codec::encode(ends));
            KIND_HELLO
        }
    };
    let sum = sum_of(cell, bytes[1], &bytes[HASH.end..]);
    bytes[HASH].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes.into())
}

fn sum_of(cell: u64, kind: u8, body: &[u8]) -> u64 {
    hash::mix(hash::bytes(body) ^ cell ^ (u64::from(kind) << 56))
}

/// Takes a word out of its envelope, if this member should listen to it.
pub(crate) fn open(config: &RaftConfig, bytes: &Bytes) -> Result<Word, DeliverError> {
    let malformed = |reason: String| Err(DeliverError::Malformed(reason));
    if bytes.len() < HASH.end {
        return malformed(format!("{} bytes, {} needed at least", bytes.len(), HASH.end));
    }
    if bytes[0] != MESSAGE_FORMAT {
        return malformed(format!("format {:#x}, this version reads {MESSAGE_FORMAT:#x}", bytes[0]));
    }
    let number = |range| u64::from_le_bytes(<[u8; 8]>::try_from(&bytes[range]).unwrap_or_default());
    let cell = number(CELL);
    if number(HASH) != sum_of(cell, bytes[1], &bytes[HASH.end..]) {
        return malformed("it was changed on its way".into());
    }
    if cell != config.cell {
        return Err(DeliverError::Cell { found: cell, expected: config.cell });
    }
    let word = read(bytes[1], &bytes.slice(HASH.end..))?;
    let (from, to) = word.ends();
    if to != config.member || from == config.member || from == 0 {
        return Err(DeliverError::Member { from, to, here: config.member });
    }
    if let Word::Raft(message) = &word {
        check(message)?;
    }
    Ok(word)
}

fn read(kind: u8, body: &Bytes) -> Result<Word, DeliverError> {
    let malformed = |reason: String| DeliverError::Malformed(reason);
    Ok(match kind {
        KIND_RAFT => Word::Raft(Box::new(raft_message(body)?)),
        KIND_PIECE => {
            let length = body.get(..4).and_then(|length| length.try_into().ok()).map(u32::from_le_bytes);
            let end = length.map(|length| 4 + length as usize).filter(|end| *end <= body.len());
            let end = end.ok_or_else(|| malformed("a piece without its place".into()))?;
            Word::Piece(decode(&body[4..end])?, body.slice(end..))
        }
        KIND_PIECE_ANSWER => Word::PieceAnswer(decode(body)?),
        KIND_REMOVED => Word::Removed(decode(body)?),
        KIND_HELLO => Word::Hello(decode(body)?),
        kind => return Err(malformed(format!("a message of kind {kind}, which this version does not have"))),
    })
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DeliverError> {
    codec::decode(bytes).map_err(|error| DeliverError::Malformed(error.to_string()))
}

/// A message of raft as it stands in an envelope or in a [`Piece`].
pub(crate) fn raft_message(bytes: &Bytes) -> Result<Message, DeliverError> {
    Message::parse_from_carllerche_bytes(bytes).map_err(|error| DeliverError::Malformed(error.to_string()))
}

fn check(message: &Message) -> Result<(), DeliverError> {
    let malformed = |reason: String| Err(DeliverError::Malformed(reason));
    let of_entries = message.entries.iter().flat_map(|entry| [entry.index, entry.term]);
    let counts = [message.term, message.log_term, message.index, message.commit, message.reject_hint];
    if let Some(count) = counts.into_iter().chain(of_entries).find(|count| *count > COUNT_MAX) {
        return malformed(format!("it counts to {count}, which no log does"));
    }
    match message.get_msg_type() {
        MessageType::MsgAppend => {
            let expected = |place: usize| message.index.checked_add(place as u64 + 1);
            if message.entries.iter().enumerate().any(|(place, entry)| Some(entry.index) != expected(place)) {
                return malformed("its entries do not follow each other".into());
            }
        }
        MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
            if message.entries.len() != 1 {
                return malformed("a read carries one context".into());
            }
        }
        MessageType::MsgAppendResponse
        | MessageType::MsgRequestVote
        | MessageType::MsgRequestVoteResponse
        | MessageType::MsgHeartbeat
        | MessageType::MsgHeartbeatResponse
        | MessageType::MsgRequestPreVote
        | MessageType::MsgRequestPreVoteResponse
        | MessageType::MsgTimeoutNow => {}
        // Appends are never forwarded, snapshots come in pieces, and the rest is no business of the network.
        other => return malformed(format!("{other:?} is not for the network")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageType, from: u64, to: u64) -> Word {
        Word::Raft(Box::new(Message { msg_type: kind, from, to, term: 5, ..Message::default() }))
    }

    #[test]
    fn strangers_and_damage_are_kept_out() {
        let config = RaftConfig::group(7, 1, vec![1, 2, 3]);
        let piece = Piece { from: 2, to: 1, index: 9, term: 5, offset: 3, total: 6, announcement: vec![1, 2] };
        let answer = PieceAnswer { from: 2, to: 1, index: 9, term: 5, offset: 6, taken: Taken::Whole };
        for good in [
            message(MessageType::MsgHeartbeat, 2, 1),
            Word::Piece(piece, Bytes::from_static(b"abc")),
            Word::PieceAnswer(answer),
            Word::Removed(Ends { from: 2, to: 1 }),
            Word::Hello(Ends { from: 2, to: 1 }),
        ] {
            let bytes = seal(7, &good).unwrap();
            assert_eq!(open(&config, &bytes).unwrap(), good);
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&config, &damaged.into()).is_err(), "bit {bit}");
            }
            for end in 0..bytes.len() {
                assert!(open(&config, &bytes.slice(..end)).is_err(), "cut at {end}");
            }
            let cell = open(&config, &seal(8, &good).unwrap());
            assert_eq!(cell, Err(DeliverError::Cell { found: 8, expected: 7 }));
        }
        for (from, to) in [(1, 1), (2, 3), (0, 1)] {
            let refused = open(&config, &seal(7, &message(MessageType::MsgHeartbeat, from, to)).unwrap());
            assert_eq!(refused, Err(DeliverError::Member { from, to, here: 1 }));
        }
        let far = Message { msg_type: MessageType::MsgHeartbeat, from: 2, to: 1, term: u64::MAX, ..Message::default() };
        let refused = open(&config, &seal(7, &Word::Raft(Box::new(far))).unwrap());
        assert!(matches!(refused, Err(DeliverError::Malformed(_))), "raft would count beyond the last number");
        for kind in [MessageType::MsgPropose, MessageType::MsgHup, MessageType::MsgSnapshot, MessageType::MsgReadIndex]
        {
            let refused = open(&config, &seal(7, &message(kind, 2, 1)).unwrap());
            assert!(matches!(refused, Err(DeliverError::Malformed(_))), "{kind:?}");
        }
    }
}
