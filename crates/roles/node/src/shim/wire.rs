//! Frames on the socket, for both sides.

use super::ShimError;
use super::protocol::FORMAT;
use ohm_stdx::codec::{self, DecodeError, HEADER_BYTES};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Reads frames of a bounded size from bytes that need not be trusted.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where in the buffer the next frame starts.
    start: usize,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(source: R, bytes_max: usize) -> Self {
        FrameReader { source, buffer: Vec::new(), start: 0, bytes_max }
    }

    /// The next frame's value; none at the end of the stream. Safe to drop while waiting: nothing read is lost.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ShimError> {
        loop {
            if let Some(value) = self.buffered()? {
                return Ok(Some(value));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.buffer.reserve(READ_BYTES);
            let read = self.source.read_buf(&mut self.buffer).await.map_err(ShimError::Connection)?;
            if read == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(ShimError::Cut) };
            }
        }
    }

    /// A frame that has been read already.
    pub(crate) fn buffered<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ShimError> {
        let bytes = &self.buffer[self.start..];
        // The length is judged before the rest of the frame is waited for.
        if let Some(length) = bytes.get(1..5).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes)
            && length as usize > self.bytes_max
        {
            return Err(ShimError::FrameTooLong { bytes: length as usize, bytes_max: self.bytes_max });
        }
        match codec::decode_frame(FORMAT, bytes) {
            Ok((value, taken)) => {
                self.start += taken;
                Ok(Some(value))
            }
            Err(DecodeError::Short { .. }) => Ok(None),
            Err(error) => Err(ShimError::Frame(error)),
        }
    }
}

/// Appends `message` as one frame.
pub(crate) fn write_frame<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), ShimError> {
    let body = codec::encode(message);
    let bytes_max = super::protocol::REQUEST_BYTES_MAX.max(super::protocol::EVENT_BYTES_MAX);
    if body.len() > bytes_max {
        return Err(ShimError::FrameTooLong { bytes: body.len() + HEADER_BYTES, bytes_max });
    }
    codec::frame(FORMAT, &body, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Vec<u64>, ShimError> {
        let mut reader = FrameReader::new(bytes, 100);
        let mut values = Vec::new();
        while let Some(value) = reader.next().await? {
            values.push(value);
        }
        Ok(values)
    }

    #[tokio::test]
    async fn frames_come_back_in_order_and_bad_bytes_are_refused() {
        let mut bytes = Vec::new();
        (0..1000u64).for_each(|number| write_frame(&number, &mut bytes).unwrap());
        assert_eq!(read(&bytes).await.unwrap(), (0..1000).collect::<Vec<u64>>());
        assert!(matches!(read(&bytes[..bytes.len() - 1]).await, Err(ShimError::Cut)));
        assert!(matches!(read(&[1, 255, 255, 255, 127, 0]).await, Err(ShimError::FrameTooLong { .. })));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(matches!(read(&bytes).await, Err(ShimError::Frame(DecodeError::Checksum { .. }))));
        assert!(matches!(read(b"GET / HTTP/1.1\r\n\r\n").await, Err(ShimError::FrameTooLong { .. })));
    }
}
