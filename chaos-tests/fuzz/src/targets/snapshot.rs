//! Snapshots and backups of a cell, as they come from a disk, from another server, or from a person.
//!
//! Each part of the input is the body of a frame of the format that its kind names, or with [`RAW`] bytes as they are.
//! Besides that nothing panics: what was taken for a cell can be written and taken for the same cell again.

use crate::cell::World;
use crate::pieces::{pieces, push_piece};
use ohm_cell::{BackupSource, Cell, read_backup, restore, write_backup};
use ohm_stdx::codec;

/// The part is no body of a frame.
const RAW: u8 = 0;

pub(crate) fn run(input: &[u8]) {
    let mut bytes = Vec::new();
    for (kind, part) in pieces(input) {
        match kind {
            RAW => bytes.extend_from_slice(part),
            format => codec::frame(format, part, &mut bytes),
        }
    }
    if let Ok(cell) = restore(&bytes) {
        assert_comes_back(&cell);
    }
    match read_backup(&bytes) {
        Ok((_, cell)) => assert_comes_back(&cell),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn assert_comes_back(cell: &Cell) {
    let bytes = cell.snapshot_bytes();
    let again = restore(&bytes).unwrap_or_else(|error| panic!("its own snapshot: {error}"));
    assert!(again.snapshot_bytes() == bytes, "the snapshot of what was restored is another one");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (mut backup, source) = (Vec::new(), BackupSource { cell: 7, cell_incarnation: 1 });
    assert!(write_backup(source, &World::new().cell, |part| backup.extend_from_slice(part)));
    let cells = [Cell::new().snapshot_bytes(), World::new().cell.snapshot_bytes(), backup];
    cells.iter().flat_map(|bytes| [framed(bytes), raw(bytes)]).collect()
}

/// Frame by frame.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    while let Some(&format) = bytes.first() {
        let (body, taken) = codec::unframe(format, bytes).expect("a snapshot is made of frames");
        push_piece(&mut parts, format, body);
        bytes = &bytes[taken..];
    }
    parts
}

fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    push_piece(&mut parts, RAW, bytes);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_cells() {
        let whole = |seed: &[u8]| {
            let mut bytes = Vec::new();
            pieces(seed).for_each(|(format, body)| codec::frame(format, body, &mut bytes));
            bytes
        };
        let seeds = seeds();
        assert_eq!(restore(&whole(&seeds[2])).unwrap().jobs().iter().count(), 6);
        assert_eq!(read_backup(&whole(&seeds[4])).unwrap().0.cell, 7);
        assert_eq!(pieces(&seeds[2]).next().map(|(format, _)| format), Some(ohm_cell::SNAPSHOT_FORMAT));
    }
}
