//! The lease of the node, in one small file that both sides share.
//!
//! ```text
//! DIR/lease: [ magic "OLS2" ][ hash of the rest: u32 le ][ deadline_ms: u64 le ][ incarnation: u32 le ][ boot: u32 le
//! ]
//!            [ since_ms: u64 le ]
//! ```
//! The agent overwrites the 32 bytes with one `pwrite`; readers check the sum and look again when a write is under way.
//! The deadline is on CLOCK_BOOTTIME, which starts anew with every boot, so the record carries a hash of the boot id: a
//! deadline of another boot is past. The file is not synced: it needs to outlive processes, not power.

use crate::clock;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 4] = *b"OLS2";
const RECORD_BYTES: usize = 32;
/// A record that stays torn this often is damaged, not being written.
const READS_MAX: usize = 8;

/// Until when the tasks of this node may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLease {
    /// Milliseconds of CLOCK_BOOTTIME; 0 is no lease.
    pub deadline_ms: u64,
    /// Since when it has run without a gap, on the same clock. What was started before has outlived a lease, even if
    /// nobody was awake to end it then.
    pub since_ms: u64,
    /// Which registration of the node holds it.
    pub incarnation: u32,
}

fn encode(lease: NodeLease, boot: u32) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&MAGIC);
    record[8..16].copy_from_slice(&lease.deadline_ms.to_le_bytes());
    record[16..20].copy_from_slice(&lease.incarnation.to_le_bytes());
    record[20..24].copy_from_slice(&boot.to_le_bytes());
    record[24..].copy_from_slice(&lease.since_ms.to_le_bytes());
    let sum = checksum(&record);
    record[4..8].copy_from_slice(&sum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD_BYTES], boot: u32) -> Option<NodeLease> {
    let four = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    if record[..4] != MAGIC || four(4) != checksum(record) {
        return None;
    }
    let eight = |at: usize| u64::from(four(at + 4)) << 32 | u64::from(four(at));
    if four(20) != boot {
        return Some(NodeLease { deadline_ms: 0, since_ms: 0, incarnation: four(16) });
    }
    Some(NodeLease { deadline_ms: eight(8), since_ms: eight(24), incarnation: four(16) })
}

/// The low half of a 64-bit hash: a torn 32-byte write must be seen, which needs no more.
fn checksum(record: &[u8; RECORD_BYTES]) -> u32 {
    ohm_stdx::hash::bytes(&record[8..]) as u32
}

fn boot() -> io::Result<u32> {
    Ok(ohm_stdx::hash::bytes(clock::boot_id()?.as_bytes()) as u32)
}

/// The agent's side: writes the lease.
#[derive(Debug)]
pub struct LeaseFile {
    file: File,
    boot: u32,
}

impl LeaseFile {
    /// Opens `DIR/lease`, made if it is missing. What it holds stays in force until the first [`Self::write`].
    pub fn open(folder: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(lease_path(folder))?;
        Ok(LeaseFile { file, boot: boot()? })
    }

    /// Puts `lease` in force. One system call, no sync.
    pub fn write(&self, lease: NodeLease) -> io::Result<()> {
        self.file.write_all_at(&encode(lease, self.boot), 0)
    }
}

/// The shim's side: reads the lease.
#[derive(Debug)]
pub struct LeaseReader {
    path: PathBuf,
    file: Option<File>,
    boot: u32,
    /// The last whole record. When nothing newer can be read it simply runs out: every doubt ends in stopping.
    last: NodeLease,
}

impl LeaseReader {
    /// A reader of `DIR/lease`, which need not exist yet.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(LeaseReader { path: lease_path(folder), file: None, boot: boot()?, last: NodeLease::default() })
    }

    /// The lease in force now. A missing, torn or damaged file gives the last one that was read whole.
    pub fn read(&mut self) -> NodeLease {
        // A deleted file would be read as it was for ever, and a new one of its name never.
        if self.file.as_ref().is_none_or(|file| file.metadata().is_ok_and(|data| data.nlink() == 0)) {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &self.file else { return self.last };
        for _ in 0..READS_MAX {
            let mut record = [0; RECORD_BYTES];
            match file.read_exact_at(&mut record, 0) {
                Ok(()) => {}
                Err(_) => break,
            }
            if let Some(lease) = decode(&record, self.boot) {
                self.last = lease;
                return lease;
            }
        }
        self.last
    }
}

fn lease_path(folder: &Path) -> PathBuf {
    folder.join("lease")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: NodeLease =
        NodeLease { deadline_ms: 0x1_2345_6789_abcd, since_ms: 0x1_0000_0000_0003, incarnation: 7 };

    #[test]
    fn what_is_written_is_read_and_every_flipped_bit_is_seen() {
        let record = encode(LEASE, 5);
        assert_eq!(decode(&record, 5), Some(LEASE));
        assert_eq!(decode(&record, 6), Some(NodeLease { incarnation: 7, ..NodeLease::default() }), "another boot");
        for bit in 0..RECORD_BYTES * 8 {
            let mut damaged = record;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged, 5), None, "bit {bit}");
        }
    }

    #[test]
    fn damage_leaves_the_last_lease_and_never_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = LeaseReader::open(folder.path()).unwrap();
        assert_eq!(reader.read(), NodeLease::default(), "no file");
        std::fs::write(folder.path().join("lease"), [0xff; RECORD_BYTES]).unwrap();
        assert_eq!(reader.read(), NodeLease::default(), "garbage");
        let writer = LeaseFile::open(folder.path()).unwrap();
        writer.write(LEASE).unwrap();
        assert_eq!(reader.read(), LEASE);
        std::fs::write(folder.path().join("lease"), b"OLS2").unwrap();
        assert_eq!(reader.read(), LEASE, "cut short");
        writer.write(LEASE).unwrap();
        std::fs::remove_file(folder.path().join("lease")).unwrap();
        assert_eq!(reader.read(), LEASE, "gone");
        let later = NodeLease { deadline_ms: LEASE.deadline_ms + 1, ..LEASE };
        LeaseFile::open(folder.path()).unwrap().write(later).unwrap();
        assert_eq!(reader.read(), later, "made anew");
    }
}
