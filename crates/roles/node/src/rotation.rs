//! Log files that tasks write themselves, kept to a size.
//!
//! Tasks hold their files open (`O_APPEND`) and write without anyone between, so a slow or dead shim never blocks them
//! and a short task costs nothing. The shim looks at the files of live runs about once a second. A file over its limit
//! is copied to `.1` (older ones move up) and its start is cut away **in place**: on ext4 and xfs by
//! `FALLOC_FL_COLLAPSE_RANGE`, which loses no byte whatever is written meanwhile; elsewhere by truncation, where what
//! is written between the end of the copy and the cut is lost. The limit is soft: a file may grow over it between two
//! looks.

use nix::fcntl::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// File systems cut whole blocks only; this is a multiple of the block size of all that can cut at all.
const BLOCK_BYTES: u64 = 64 << 10;
/// A file that outgrew its limit between two looks by more than this is cut without being copied whole: the shim must
/// come back to its other duties.
const COPY_BYTES_MAX: u64 = 64 << 20;

/// How much log one stream of one run may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// Size in bytes at which a file is rotated; 0 is never.
    pub bytes_max: u64,
    /// How many older files (`.1`, `.2`, …) are kept; 0 throws the old part away.
    pub files_max: u32,
}

impl Default for LogLimits {
    /// 16 MiB and two older files per stream.
    fn default() -> Self {
        LogLimits { bytes_max: 16 << 20, files_max: 2 }
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Rotates `path` when it is over its limit; whether it was.
pub fn rotate(path: &Path, limits: LogLimits) -> io::Result<bool> {
    if limits.bytes_max == 0 {
        return Ok(false);
    }
    let size = fs::metadata(path)?.len();
    if size <= limits.bytes_max {
        return Ok(false);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // The last block stays, because no file system cuts up to the end.
    let cut = (size - 1) / BLOCK_BYTES * BLOCK_BYTES;
    let collapsible = cut > 0 && limits.files_max > 0;
    keep(path, &file, if collapsible { cut } else { size }, limits.files_max)?;
    let length = i64::try_from(cut).map_err(io::Error::other)?;
    if cut > 0 && fallocate(&file, FallocateFlags::FALLOC_FL_COLLAPSE_RANGE, 0, length).is_ok() {
        return Ok(true);
    }
    if collapsible {
        append_rest(path, &file, cut)?;
    }
    file.set_len(0)?;
    Ok(true)
}

/// Moves the older files up by one and copies the first `length` bytes of `file` to `.1`, by a rename at the end so
/// that a reader never sees half a copy.
fn keep(path: &Path, file: &File, length: u64, files_max: u32) -> io::Result<()> {
    if files_max == 0 {
        return Ok(());
    }
    let copy = numbered(path, 0);
    let mut source = file;
    source.seek(io::SeekFrom::Start(length.saturating_sub(COPY_BYTES_MAX)))?;
    io::copy(&mut source.take(length.min(COPY_BYTES_MAX)), &mut File::create(&copy)?)?;
    for number in (1..files_max).rev() {
        match fs::rename(numbered(path, number), numbered(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(copy, numbered(path, 1))
}

/// Where blocks cannot be cut out: adds to `.1` what [`keep`] left for the file itself.
fn append_rest(path: &Path, file: &File, from: u64) -> io::Result<()> {
    let mut source = file;
    source.seek(io::SeekFrom::Start(from))?;
    let mut copy = OpenOptions::new().append(true).open(numbered(path, 1))?;
    io::copy(&mut source.take(COPY_BYTES_MAX), &mut copy)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn nothing_is_lost_and_old_files_move_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let limits = LogLimits { bytes_max: 100_000, files_max: 2 };
        let (mut written, mut line) = (String::new(), 0);
        for round in 0..2 {
            while written.len() < (round + 1) * 150_000 {
                let text = format!("line {line}\n");
                log.write_all(text.as_bytes()).unwrap();
                written.push_str(&text);
                line += 1;
            }
            assert!(rotate(&path, limits).unwrap());
            assert!(!rotate(&path, limits).unwrap());
        }
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        let all = read(numbered(&path, 2)) + &read(numbered(&path, 1)) + &read(path.clone());
        assert_eq!(all, written);
        assert!(fs::metadata(&path).unwrap().len() < 100_000);
    }

    #[test]
    fn small_files_and_no_limit_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        fs::write(&path, "short").unwrap();
        assert!(!rotate(&path, LogLimits::default()).unwrap());
        assert!(!rotate(&path, LogLimits { bytes_max: 0, files_max: 1 }).unwrap());
        assert!(rotate(&path, LogLimits { bytes_max: 3, files_max: 0 }).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
