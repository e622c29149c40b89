//! What stands in the values, behind a format byte and a checksum each.

use super::keys::EntryId;
use bytes::Bytes;
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

const ENTRY: u8 = 0xe1;
const POINTER: u8 = 0xe2;
const TRIM: u8 = 0xe3;
const CELL: u8 = 0xe4;
const CHUNK: u8 = 0xe5;

/// A snapshot is cut into chunks of this many bytes: with its frame and its guard each fits into one request of etcd
/// (1.5 MiB unless it is told otherwise).
pub const CHUNK_BYTES: usize = 1 << 20;

/// Who a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Its number.
    pub cell: u64,
    /// How often it was restored from an older state of etcd, and one.
    pub incarnation: u64,
}

/// The newest snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Which chunks it has.
    pub(crate) id: String,
    pub(crate) index: u64,
    /// The index of the snapshot before it.
    pub(crate) previous: u64,
    /// The lengths of its pieces.
    pub(crate) pieces: Vec<u64>,
    pub(crate) chunks: u64,
    /// Over all bytes.
    pub(crate) checksum: u64,
}

fn to_bytes<T: Serialize>(format: u8, value: &T) -> Bytes {
    let mut bytes = Vec::new();
    codec::encode_frame(format, value, &mut bytes);
    bytes.into()
}

fn from_bytes<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let (value, taken) = codec::decode_frame(format, bytes)?;
    whole(taken, bytes).map(|()| value)
}

fn whole(taken: usize, bytes: &[u8]) -> Result<(), DecodeError> {
    match taken == bytes.len() {
        true => Ok(()),
        false => Err(DecodeError::Body(format!("{} bytes left over", bytes.len() - taken))),
    }
}

fn framed(format: u8, body: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    codec::frame(format, body, &mut bytes);
    bytes.into()
}

fn body(format: u8, bytes: &Bytes) -> Result<Bytes, DecodeError> {
    let (body, taken) = codec::unframe(format, bytes)?;
    whole(taken, bytes)?;
    Ok(bytes.slice_ref(body))
}

pub(crate) fn entry_value(bytes: &[u8]) -> Bytes {
    framed(ENTRY, bytes)
}

pub(crate) fn entry_of(value: &Bytes) -> Result<Bytes, DecodeError> {
    body(ENTRY, value)
}

pub(crate) fn chunk_value(bytes: &[u8]) -> Bytes {
    framed(CHUNK, bytes)
}

pub(crate) fn chunk_of(value: &Bytes) -> Result<Bytes, DecodeError> {
    body(CHUNK, value)
}

impl Manifest {
    pub(crate) fn value(&self) -> Bytes {
        to_bytes(POINTER, self)
    }

    pub(crate) fn of(value: &[u8]) -> Result<Self, DecodeError> {
        from_bytes(POINTER, value)
    }
}

impl CellRecord {
    pub(crate) fn value(&self) -> Bytes {
        to_bytes(CELL, self)
    }

    pub(crate) fn of(value: &[u8]) -> Result<Self, DecodeError> {
        from_bytes(CELL, value)
    }
}

pub(crate) fn trim_value(below: u64) -> Bytes {
    to_bytes(TRIM, &below)
}

pub(crate) fn trim_of(value: &[u8]) -> Result<u64, DecodeError> {
    from_bytes(TRIM, value)
}

/// What a server keeps in its data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The cell that it belongs to.
    pub cell: CellRecord,
    /// Which server it is.
    pub server: u64,
    /// Drawn by it once: its claim on the number.
    pub key: u64,
    /// The last entry that it has seen: index, proposer and sequence.
    pub last: Option<(u64, u64, u64)>,
}

impl Note {
    pub(crate) fn last(&self) -> Option<(u64, EntryId)> {
        self.last.map(|(index, proposer, sequence)| (index, EntryId { proposer, sequence }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_or_is_something_else_is_refused() {
        let manifest = Manifest { id: "a".into(), index: 9, previous: 4, pieces: vec![3, 4], chunks: 1, checksum: 77 };
        let value = manifest.value();
        assert_eq!(Manifest::of(&value), Ok(manifest));
        assert!(matches!(CellRecord::of(&value), Err(DecodeError::Format { .. })));
        let mut damaged = value.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(matches!(Manifest::of(&damaged), Err(DecodeError::Checksum { .. })));
        let longer: Bytes = [&entry_value(b"x")[..], &[0]].concat().into();
        assert!(entry_of(&longer).is_err() && entry_of(&longer.slice(..longer.len() - 1)).is_ok());
        assert_eq!(trim_of(&trim_value(12)), Ok(12));
    }
}
