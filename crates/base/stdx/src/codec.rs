//! The only place that knows how bytes at rest look: `bincode` behind a frame of format byte, length and checksum.
//!
//! ```text
//! frame:  [ format: u8 ][ length: u32 le ][ crc32 of format, length and body: u32 le ][ body: length bytes ]
//! ```
//! A frame of an unknown format, a short one and a damaged one are three different errors, because the reader must do
//! three different things: refuse, cut the torn tail, stop loudly.

use bincode::enc::{Encode, EncoderImpl, write::Writer};
use bincode::{error::EncodeError, serde::Compat};
use serde::{Serialize, de::DeserializeOwned};

/// Bytes before the body of a frame.
pub const HEADER_BYTES: usize = 9;
/// No frame body is longer; a length above it is damage, not data.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Why bytes could not be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside the frame: a torn tail.
    #[error("frame needs {needed} bytes, {found} are there")]
    Short {
        /// Bytes that the frame says it has.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// Written by a version this one does not know.
    #[error("format {found} is not known here; this program reads format {expected}")]
    Format {
        /// The format byte read.
        found: u8,
        /// The format byte that would be right.
        expected: u8,
    },
    /// The checksum does not match: the bytes were changed after they were written.
    #[error("checksum mismatch in a frame of {length} bytes")]
    Checksum {
        /// The body length that the frame states.
        length: usize,
    },
    /// The body is whole but is not a value of the expected type.
    #[error("body does not decode: {0}")]
    Body(String),
}

fn configuration() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<BODY_BYTES_MAX>()
}

/// Appends what is encoded to a buffer that its owner may use again: no allocation and no copy once it is large enough.
/// The encoder has the buffer itself meanwhile: through a reference each number takes one step more.
struct Tail(Vec<u8>);

impl Writer for Tail {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The bare `bincode` body of `value`, without a frame.
///
/// # Panics
/// Only when a `Serialize` implementation fails by itself, which ours do not.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(value, &mut bytes);
    bytes
}

fn append<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let mut encoder = EncoderImpl::new(Tail(std::mem::take(out)), configuration());
    Compat(value).encode(&mut encoder).expect("our own types encode");
    *out = encoder.into_writer().0;
}

/// Reads a bare body; left-over bytes are an error.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (value, read) = bincode::serde::decode_from_slice(bytes, configuration())
        .map_err(|error| DecodeError::Body(error.to_string()))?;
    if read != bytes.len() {
        return Err(DecodeError::Body(format!("{} bytes left over", bytes.len() - read)));
    }
    Ok(value)
}

/// Appends `body` to `out` as one frame.
pub fn frame(format: u8, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEADER_BYTES + body.len());
    let start = open_frame(format, out);
    out.extend_from_slice(body);
    close_frame(start, out);
}

/// Appends `value` to `out` as one frame.
pub fn encode_frame<T: Serialize + ?Sized>(format: u8, value: &T, out: &mut Vec<u8>) {
    let start = open_frame(format, out);
    append(value, out);
    close_frame(start, out);
}

/// Leaves room for length and checksum; says where the frame starts.
fn open_frame(format: u8, out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[format, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.len() - HEADER_BYTES
}

fn close_frame(start: usize, out: &mut [u8]) {
    let (header, body) = out[start..].split_at_mut(HEADER_BYTES);
    let length = u32::try_from(body.len()).expect("frames are below 4 GiB");
    header[1..5].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(header[0], length, body);
    header[5..].copy_from_slice(&crc.to_le_bytes());
}

/// The body of the frame at the start of `bytes`, and how many bytes the whole frame takes.
pub fn unframe(format: u8, bytes: &[u8]) -> Result<(&[u8], usize), DecodeError> {
    if bytes.len() < HEADER_BYTES {
        return Err(DecodeError::Short { needed: HEADER_BYTES, found: bytes.len() });
    }
    let length = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    let crc = u32::from_le_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
    let needed = HEADER_BYTES + length as usize;
    if length as usize > BODY_BYTES_MAX {
        return Err(DecodeError::Checksum { length: length as usize });
    }
    if bytes.len() < needed {
        return Err(DecodeError::Short { needed, found: bytes.len() });
    }
    let body = &bytes[HEADER_BYTES..needed];
    if checksum(bytes[0], length, body) != crc {
        return Err(DecodeError::Checksum { length: length as usize });
    }
    if bytes[0] != format {
        return Err(DecodeError::Format { found: bytes[0], expected: format });
    }
    Ok((body, needed))
}

/// Reads the value of the frame at the start of `bytes`, and how many bytes the whole frame takes.
pub fn decode_frame<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Result<(T, usize), DecodeError> {
    let (body, taken) = unframe(format, bytes)?;
    Ok((decode(body)?, taken))
}

fn checksum(format: u8, length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[format]);
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_every_flipped_bit_is_found() {
        let mut bytes = Vec::new();
        encode_frame(3, &("gang", 17u64), &mut bytes);
        assert_eq!(decode_frame::<(String, u64)>(3, &bytes).unwrap(), (("gang".into(), 17), bytes.len()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_frame::<(String, u64)>(3, &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_short() {
        let mut bytes = Vec::new();
        encode_frame(1, &vec![1u8, 2, 3], &mut bytes);
        for end in 0..bytes.len() {
            assert!(matches!(unframe(1, &bytes[..end]), Err(DecodeError::Short { .. })), "cut at {end}");
        }
    }

    #[test]
    fn a_newer_format_is_named_and_left_over_bytes_are_refused() {
        let mut bytes = Vec::new();
        encode_frame(9, &1u8, &mut bytes);
        assert_eq!(unframe(1, &bytes), Err(DecodeError::Format { found: 9, expected: 1 }));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(DecodeError::Body(_))));
    }
}
