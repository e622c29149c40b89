//! A backup: the state of a cell in one file, with the name of the cell it was taken from.

use crate::{Cell, RestoreError, restore};
use ohm_model::Index;
use ohm_stdx::codec::{self, DecodeError};
use serde::{Deserialize, Serialize};

/// The format byte of backups.
const FORMAT: u8 = 0xc1;
const PURPOSE: &str = "ohm backup";

/// Where a backup comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSource {
    /// The number of the cell.
    pub cell: u64,
    /// How often that cell was restored, counted so that it only grows.
    pub cell_incarnation: u64,
}

/// Why bytes are no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// They are something else.
    #[error("it is no backup of a cell")]
    Foreign,
    /// The beginning can't be read.
    #[error("its header can't be read: {0}")]
    Header(#[from] DecodeError),
    /// The rest can't be read.
    #[error(transparent)]
    State(#[from] RestoreError),
    /// The state is not what the header says.
    #[error("it is of entry {found} with another history, its header names entry {named}")]
    Other {
        /// What the header names.
        named: Index,
        /// What is there.
        found: Index,
    },
}

#[derive(Serialize, Deserialize)]
struct Header {
    purpose: String,
    cell: u64,
    cell_incarnation: u64,
    applied: u64,
    chain: u64,
}

/// Gives the bytes of a backup of `state`, part by part; false when it holds something that nobody could read back.
pub fn write_backup(source: BackupSource, state: &Cell, mut take: impl FnMut(&[u8])) -> bool {
    let BackupSource { cell, cell_incarnation } = source;
    let (applied, chain) = (state.applied().0, state.chain());
    let mut frame = Vec::new();
    codec::encode_frame(
        FORMAT,
        &Header { purpose: PURPOSE.into(), cell, cell_incarnation, applied, chain },
        &mut frame,
    );
    take(&frame);
    state.snapshot(take)
}

/// Reads a whole backup and checks it.
pub fn read_backup(bytes: &[u8]) -> Result<(BackupSource, Cell), BackupError> {
    let (header, taken) = codec::decode_frame::<Header>(FORMAT, bytes)?;
    if header.purpose != PURPOSE {
        return Err(BackupError::Foreign);
    }
    let state = restore(&bytes[taken..])?;
    if (state.applied().0, state.chain()) != (header.applied, header.chain) {
        return Err(BackupError::Other { named: Index(header.applied), found: state.applied() });
    }
    Ok((BackupSource { cell: header.cell, cell_incarnation: header.cell_incarnation }, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_whole_or_refused() {
        let source = BackupSource { cell: 7, cell_incarnation: 3 };
        let mut bytes = Vec::new();
        assert!(write_backup(source, &Cell::new(), |part| bytes.extend_from_slice(part)));
        let (found, state) = read_backup(&bytes).unwrap();
        assert_eq!((found, state.applied()), (source, Index(0)));
        assert!((0..bytes.len()).all(|length| read_backup(&bytes[..length]).is_err()));
        for place in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 4;
            assert!(read_backup(&wrong).is_err(), "byte {place}");
        }
    }
}
