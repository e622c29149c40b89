//! The output of a run, read back piece by piece: what was rotated away first, then the file that is written.
//!
//! Files are rotated in place (see [`crate::rotation`]): the start of the file moves to `.1` and the rest moves
//! forward. A reader notices by the new file `.1`, reads what it has not seen of it, and goes on at the new beginning.

use bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No piece is longer.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// How much of what is kept is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    All,
    /// The last so many bytes.
    Bytes(u64),
    /// The last so many lines; one without a line break at its end counts.
    Lines(u64),
}

/// One file that is read from `offset` to `end`.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<File>,
    offset: u64,
    /// None is wherever it ends.
    end: Option<u64>,
}

impl Part {
    fn open(path: &Path) -> io::Result<Part> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        Ok(Part { file: Arc::new(file), offset: 0, end: Some(end) })
    }

    fn length(&self) -> u64 {
        self.end.unwrap_or(0).saturating_sub(self.offset)
    }

    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.offset));
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
        let length = self.file.read_at(&mut piece, self.offset)?;
        piece.truncate(length);
        self.offset += length as u64;
        Ok((length > 0).then(|| piece.into()))
    }
}

/// One stream of one run, `stdout` or `stderr`, on its way to a reader. Blocks on the disk.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    /// What comes before the file that is written, oldest first.
    older: Vec<Part>,
    newest: Part,
    /// Which file `.1` is.
    rotated: Option<u64>,
}

impl Output {
    /// Opens the file at `path` and its older parts. Only `tail` of it is read. With
    /// `follow` the end is wherever the file ends when that is asked, else where it ends now.
    ///
    /// # Errors
    /// When there is no such file.
    pub(super) fn open(path: &Path, tail: Tail, follow: bool) -> io::Result<Output> {
        let rotated = identity(path);
        let newest = Part::open(path)?;
        let older = (1..).map_while(|number| Part::open(&numbered(path, number)).ok());
        let mut parts: Vec<Part> = older.collect();
        parts.reverse();
        parts.push(newest);
        let total = parts.iter().map(Part::length).sum::<u64>();
        let mut skipped = match tail {
            Tail::All => 0,
            Tail::Bytes(bytes) => total.saturating_sub(bytes),
            Tail::Lines(lines) => total - bytes_of_last_lines(&parts, lines)?,
        };
        for part in &mut parts {
            part.offset = skipped.min(part.length());
            skipped -= part.offset;
        }
        let mut newest = parts.pop().ok_or(io::ErrorKind::NotFound)?;
        if follow {
            newest.end = None;
        }
        Ok(Output { path: path.to_path_buf(), older: parts, newest, rotated })
    }

    /// The next piece; none when there is nothing more for the moment.
    pub(super) fn read(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(part) = self.older.first_mut() {
            if let Some(piece) = part.read()? {
                return Ok(Some(piece));
            }
            self.older.remove(0);
        }
        self.newest.read()
    }

    /// Whether the file was rotated since that was asked last. A moment must pass before [`Self::move_on`], because the
    /// copy appears before the cut.
    pub(super) fn is_rotated(&self) -> bool {
        identity(&self.path) != self.rotated
    }

    /// Finds the place to go on after a rotation.
    pub(super) fn move_on(&mut self) -> io::Result<()> {
        self.rotated = identity(&self.path);
        let mut copy = Part::open(&numbered(&self.path, 1))?;
        let cut = copy.length();
        if self.newest.offset < cut {
            copy.offset = self.newest.offset;
            self.older.push(copy);
            self.newest.offset = 0;
        } else {
            // A file that outgrew its limit by far is not copied whole; then some of it is skipped here.
            let length = self.newest.file.metadata()?.len();
            self.newest.offset = (self.newest.offset - cut).min(length);
        }
        Ok(())
    }
}

/// How many bytes the last `lines` lines take, counted from the end.
fn bytes_of_last_lines(parts: &[Part], lines: u64) -> io::Result<u64> {
    let (mut bytes, mut breaks) = (0, 0);
    if lines == 0 {
        return Ok(0);
    }
    let mut piece = vec![0; PIECE_BYTES];
    for part in parts.iter().rev() {
        let mut end = part.length();
        while end > 0 {
            let start = end.saturating_sub(PIECE_BYTES as u64);
            let piece = &mut piece[..(end - start) as usize];
            part.file.read_exact_at(piece, start)?;
            for byte in piece.iter().rev() {
                // The break at the very end ends the last line; each other one ends a line before.
                if *byte == b'\n' && bytes > 0 {
                    breaks += 1;
                    if breaks == lines {
                        return Ok(bytes);
                    }
                }
                bytes += 1;
            }
            end = start;
        }
    }
    Ok(bytes)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Which file stands at `.1`.
fn identity(path: &Path) -> Option<u64> {
    numbered(path, 1).metadata().ok().map(|metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotation::{LogLimits, rotate};
    use std::fs::OpenOptions;
    use std::io::Write;

    fn rest(output: &mut Output) -> String {
        let mut text = String::new();
        while let Some(piece) = output.read().unwrap() {
            assert!(piece.len() <= PIECE_BYTES);
            text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        text
    }

    #[test]
    fn a_reader_sees_every_byte_once_through_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut follower = Output::open(&path, Tail::All, true).unwrap();
        let (mut written, mut seen) = (String::new(), String::new());
        for round in 0..4 {
            // Rounds in which the reader is ahead of the cut, and such in which it is behind.
            for line in 0..20_000 {
                let text = format!("round {round} line {line}\n");
                log.write_all(text.as_bytes()).unwrap();
                written.push_str(&text);
                if line == 15_000 && round % 2 == 0 {
                    seen.push_str(&rest(&mut follower));
                }
            }
            assert!(!follower.is_rotated());
            assert!(rotate(&path, LogLimits { bytes_max: 100_000, files_max: 2 }).unwrap());
            assert!(follower.is_rotated());
            follower.move_on().unwrap();
            seen.push_str(&rest(&mut follower));
        }
        assert_eq!(seen, written);
        let kept = rest(&mut Output::open(&path, Tail::All, false).unwrap());
        assert!(written.ends_with(&kept) && kept.len() > 500_000, "two older files are kept");
        let tail = rest(&mut Output::open(&path, Tail::Bytes(250_000), false).unwrap());
        assert_eq!(tail, written[written.len() - 250_000..]);
    }

    #[test]
    fn the_last_lines_are_counted_over_all_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        let long = "x".repeat(3 * PIECE_BYTES / 2);
        std::fs::write(numbered(&path, 1), format!("one\n{long}\nthr")).unwrap();
        for (newest, lines, expected) in [
            ("ee\nfour\n", 0, String::new()),
            ("ee\nfour\n", 1, "four\n".into()),
            ("ee\nfour\n", 2, "three\nfour\n".into()),
            ("ee\nfour", 3, format!("{long}\nthree\nfour")),
            ("ee\n\n\n", 2, "\n\n".into()),
            ("ee\nfour\n", 99, format!("one\n{long}\nthree\nfour\n")),
        ] {
            std::fs::write(&path, newest).unwrap();
            let mut output = Output::open(&path, Tail::Lines(lines), false).unwrap();
            assert!(rest(&mut output) == expected, "{newest:?} {lines}");
        }
        let mut follower = Output::open(&path, Tail::Lines(0), true).unwrap();
        let mut log = OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(b"new\n").unwrap();
        assert_eq!(rest(&mut follower), "new\n");
    }

    #[test]
    fn without_follow_the_end_is_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr");
        assert!(Output::open(&path, Tail::All, false).is_err());
        std::fs::write(&path, "one\n").unwrap();
        let mut output = Output::open(&path, Tail::All, false).unwrap();
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(rest(&mut output), "one\n");
        assert_eq!(rest(&mut Output::open(&path, Tail::Bytes(2), false).unwrap()), "o\n");
    }
}
