//! Model types in and out of messages.

use crate::messages::FollowReply;
use crate::messages::follow_reply::Kind;
use bytes::Bytes;
use ohm_stdx::codec;
use serde::{Serialize, de::DeserializeOwned};

/// A payload that is not what the message says it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} does not decode: {reason}")]
pub struct Malformed {
    /// Which payload.
    pub what: &'static str,
    /// Why.
    pub reason: String,
}

impl From<Malformed> for tonic::Status {
    fn from(error: Malformed) -> Self {
        tonic::Status::invalid_argument(error.to_string())
    }
}

/// `value` as a payload.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Bytes {
    codec::encode(value).into()
}

/// The value in a payload called `what`.
pub fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Malformed> {
    codec::decode(bytes).map_err(|error| Malformed { what, reason: error.to_string() })
}

/// What a follow reply counts against the window; the sender counts alike.
pub fn window_bytes(reply: &FollowReply) -> u64 {
    match &reply.kind {
        Some(Kind::Snapshot(piece)) => piece.piece.len() as u64,
        Some(Kind::Entries(entries)) => entries.entries.iter().map(|entry| entry.entry_bytes.len() as u64 + 16).sum(),
        None => 0,
    }
}
