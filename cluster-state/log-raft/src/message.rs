//! Messages between members: the words of raft in an envelope that keeps strangers out.
//!
//! ```text
//! [ format: u8 ][ cell: u64 ][ hash of cell and message: u64 ][ message: protobuf ]
//! ```
//! The raft crate panics on odd messages, so nothing reaches it that was not checked here.

use crate::config::RaftConfig;
use crate::record::FORMAT;
use crate::snapshots;
use bytes::Bytes;
use ohm_log::DeliverError;
use ohm_stdx::hash;
use protobuf::Message as _;
use raft::eraftpb::{Message, MessageType};

const CELL: std::ops::Range<usize> = 1..9;
const HASH: std::ops::Range<usize> = 9..17;

/// Puts a message in its envelope.
pub(crate) fn seal(cell: u64, message: &Message) -> Result<Bytes, String> {
    let mut bytes = vec![0; HASH.end];
    bytes[0] = FORMAT;
    bytes[CELL].copy_from_slice(&cell.to_le_bytes());
    message.write_to_vec(&mut bytes).map_err(|error| error.to_string())?;
    let sum = hash::mix(hash::bytes(&bytes[HASH.end..]) ^ cell);
    bytes[HASH].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes.into())
}

/// Takes a message out of its envelope, if this member should listen to it.
pub(crate) fn open(config: &RaftConfig, bytes: &Bytes) -> Result<Message, DeliverError> {
    let malformed = |reason: String| Err(DeliverError::Malformed(reason));
    if bytes.len() < HASH.end {
        return malformed(format!("{} bytes, {} needed at least", bytes.len(), HASH.end));
    }
    if bytes[0] != FORMAT {
        return malformed(format!("format {:#x}, this version reads {FORMAT:#x}", bytes[0]));
    }
    let number = |range| u64::from_le_bytes(<[u8; 8]>::try_from(&bytes[range]).unwrap_or_default());
    let cell = number(CELL);
    if number(HASH) != hash::mix(hash::bytes(&bytes[HASH.end..]) ^ cell) {
        return malformed("it was changed on its way".into());
    }
    if cell != config.cell {
        return Err(DeliverError::Cell { found: cell, expected: config.cell });
    }
    let message = Message::parse_from_carllerche_bytes(&bytes.slice(HASH.end..))
        .map_err(|error| DeliverError::Malformed(error.to_string()))?;
    if message.to != config.member || message.from == config.member || !config.voters.contains(&message.from) {
        return Err(DeliverError::Member { from: message.from, to: message.to, here: config.member });
    }
    check(config, &message)?;
    Ok(message)
}

fn check(config: &RaftConfig, message: &Message) -> Result<(), DeliverError> {
    let malformed = |reason: String| Err(DeliverError::Malformed(reason));
    match message.get_msg_type() {
        MessageType::MsgAppend => {
            let expected = |place: usize| message.index.checked_add(place as u64 + 1);
            if message.entries.iter().enumerate().any(|(place, entry)| Some(entry.index) != expected(place)) {
                return malformed("its entries do not follow each other".into());
            }
        }
        MessageType::MsgSnapshot => {
            let metadata = message.get_snapshot().get_metadata();
            let parsed = snapshots::parse("the snapshot", &message.get_snapshot().data)
                .map_err(|error| DeliverError::Malformed(error.to_string()))?;
            let position = parsed.header.position();
            if (parsed.header.cell, position.index, position.term) != (config.cell, metadata.index, metadata.term) {
                return malformed("its snapshot is of another place".into());
            }
            if metadata.get_conf_state().voters != config.voters {
                return malformed("its snapshot is of another group".into());
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
        // Appends are never forwarded, reads never asked for, and the rest is no business of the network.
        other => return malformed(format!("{other:?} is not for the network")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageType, from: u64, to: u64) -> Message {
        Message { msg_type: kind, from, to, term: 5, ..Message::default() }
    }

    #[test]
    fn strangers_and_damage_are_kept_out() {
        let config = RaftConfig::group(7, 1, vec![1, 2, 3]);
        let good = message(MessageType::MsgHeartbeat, 2, 1);
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
        for (from, to) in [(1, 1), (9, 1), (2, 3), (0, 1)] {
            let refused = open(&config, &seal(7, &message(MessageType::MsgHeartbeat, from, to)).unwrap());
            assert_eq!(refused, Err(DeliverError::Member { from, to, here: 1 }));
        }
        for kind in [MessageType::MsgPropose, MessageType::MsgHup, MessageType::MsgSnapshot, MessageType::MsgReadIndex]
        {
            let refused = open(&config, &seal(7, &message(kind, 2, 1)).unwrap());
            assert!(matches!(refused, Err(DeliverError::Malformed(_))), "{kind:?}");
        }
    }
}
