//! What time it is in the cell, in a file of the data folder, for the next process. By the boot-time clock, which runs
//! on while no server does and which nobody sets, a process of the same boot knows how long the server was down. After
//! a boot the wall clock says how long the machine was off, where it is known what it was ahead before.
//!
//! ```text
//! time.note:  BOOT_ID  BOOT_CLOCK_MS  TIME_MS  WALL_CLOCK_MS
//! ```
//! The three clocks go alike, so the file is written only when one of them was moved.

use ohm_replica::{Noted, TimeNote};
use ohm_runtime::{clock, data_dir};
use std::path::{Path, PathBuf};

const FILE: &str = "time.note";
/// The file is good enough while it is off by less.
const OFF_MS: u64 = 1_000;

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct TimeFile {
    path: PathBuf,
    boot_id: String,
    noted: Noted,
    /// What this boot has noted last.
    written: Option<TimeNote>,
}

impl TimeFile {
    /// The file in `folder`. A note that can't be read counts for nothing: then the entries alone say what time it was.
    pub(crate) fn open(folder: &Path) -> Self {
        let boot_id = clock::boot_id().unwrap_or_default();
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let noted = parse(&text, &boot_id);
        let written = if let Noted::ThisBoot(note) = noted { Some(note) } else { None };
        TimeFile { path, boot_id, noted, written }
    }

    /// What a former process has noted.
    pub(crate) fn noted(&self) -> Noted {
        self.noted
    }

    /// Keeps the note if it says something new.
    pub(crate) fn keep(&mut self, note: TimeNote) {
        let is_known = self.written.is_some_and(|written| {
            let passed_ms = note.now_ms.saturating_sub(written.now_ms);
            let is_near = |then_ms: u64, now_ms: u64| (then_ms + passed_ms).abs_diff(now_ms) < OFF_MS;
            is_near(written.stamp_ms, note.stamp_ms) && is_near(written.wall_ms, note.wall_ms)
        });
        if is_known || self.boot_id.is_empty() {
            return;
        }
        let text = format!("{} {} {} {}\n", self.boot_id, note.now_ms, note.stamp_ms, note.wall_ms);
        match data_dir::replace(&self.path, 0o666, text.as_bytes()) {
            Ok(_) => self.written = Some(note),
            // The next word comes in a few seconds. Without a note a restart holds time for as long as it took.
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "the time is not noted"),
        }
    }
}

fn parse(text: &str, boot_id: &str) -> Noted {
    let Some((boot, clocks)) = text.split_once(' ') else { return Noted::Nothing };
    let clocks: Result<Vec<u64>, _> = clocks.split_whitespace().map(str::parse).collect();
    match clocks.as_deref() {
        Ok(&[now_ms, stamp_ms, wall_ms]) => {
            let note = TimeNote { now_ms, stamp_ms, wall_ms };
            if boot == boot_id { Noted::ThisBoot(note) } else { Noted::FormerBoot(note) }
        }
        _ => Noted::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_of_the_same_boot_finds_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TimeFile::open(folder.path());
        assert_eq!(file.noted(), Noted::Nothing);
        let note = |passed_ms: u64, stamp_ms: u64, wall_ms: u64| TimeNote {
            now_ms: 5_000 + passed_ms,
            stamp_ms: 70_000 + stamp_ms,
            wall_ms: 90_000 + wall_ms,
        };
        let found = || TimeFile::open(folder.path()).noted();
        file.keep(note(0, 0, 0));
        assert_eq!(found(), Noted::ThisBoot(note(0, 0, 0)));
        file.keep(note(3_000, 3_900, 3_000));
        assert_eq!(found(), Noted::ThisBoot(note(0, 0, 0)), "nothing new");
        file.keep(note(4_000, 29_000, 4_000));
        assert_eq!(found(), Noted::ThisBoot(note(4_000, 29_000, 4_000)), "time was moved");
        file.keep(note(5_000, 30_000, 0));
        assert_eq!(found(), Noted::ThisBoot(note(5_000, 30_000, 0)), "the wall clock was moved");
    }

    #[test]
    fn a_note_of_another_boot_is_one_and_what_is_none_says_nothing() {
        let note = TimeNote { now_ms: 1, stamp_ms: 2, wall_ms: 3 };
        assert_eq!(parse("a 1 2 3\n", "a"), Noted::ThisBoot(note));
        assert_eq!(parse("a 1 2 3\n", "b"), Noted::FormerBoot(note));
        for text in ["", "a", "a 1", "a 1 2", "a 1 x 3", "a 1 2 3 4"] {
            assert_eq!(parse(text, "a"), Noted::Nothing, "{text}");
        }
    }
}
