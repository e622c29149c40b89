//! Snapshot pieces on their way to a cell.

use crate::error::DaemonError;
use ohm_cell::Cell;
use ohm_model::Index;
use ohm_wire::SnapshotPiece;

/// A snapshot above this is restored on a thread of its own.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// The pieces of one snapshot so far.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
}

impl Pieces {
    /// Takes the next piece; gives the cell after the last one.
    ///
    /// # Errors
    /// [`DaemonError::Snapshot`] when the whole is not a snapshot that this program can read.
    pub(crate) async fn take(&mut self, piece: SnapshotPiece) -> Result<Option<Box<Cell>>, DaemonError> {
        self.bytes.extend_from_slice(&piece.piece);
        if !piece.last {
            return Ok(None);
        }
        let (bytes, index) = (std::mem::take(&mut self.bytes), Index(piece.index));
        let is_small = bytes.len() <= INLINE_BYTES_MAX;
        let restore = move || ohm_cell::restore(&bytes).map(Box::new);
        let restored = match is_small {
            true => restore(),
            false => tokio::task::spawn_blocking(restore).await.map_err(|_| DaemonError::LinkEnded)?,
        };
        restored.map(Some).map_err(|source| DaemonError::Snapshot { index, source })
    }
}
