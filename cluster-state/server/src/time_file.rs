//! What time it is in the cell, in a file of the data folder, for the next process of the same boot: by the boot-time
//! clock, which runs on while no server does and which nobody sets, that one knows how long it was down.
//!
//! ```text
//! time.note:  BOOT_ID  BOOT_CLOCK_MS  TIME_MS
//! ```
//! The two clocks go alike, so the file is written only when one of them was moved.

use ohm_replica::TimeNote;
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
    written: Option<TimeNote>,
}

impl TimeFile {
    /// The file in `folder`. A note of another boot counts for nothing, and so does one that can't be read: then
    /// the entries alone say what time it was.
    pub(crate) fn open(folder: &Path) -> Self {
        let boot_id = clock::boot_id().unwrap_or_default();
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let written = parse(&text, &boot_id);
        TimeFile { path, boot_id, written }
    }

    /// What a former process of this boot has noted.
    pub(crate) fn noted(&self) -> Option<TimeNote> {
        self.written
    }

    /// Keeps the note if it says something new.
    pub(crate) fn keep(&mut self, note: TimeNote) {
        let is_known = self.written.is_some_and(|written| {
            let passed_ms = note.now_ms.saturating_sub(written.now_ms);
            (written.stamp_ms + passed_ms).abs_diff(note.stamp_ms) < OFF_MS
        });
        if is_known || self.boot_id.is_empty() {
            return;
        }
        let text = format!("{} {} {}\n", self.boot_id, note.now_ms, note.stamp_ms);
        match data_dir::replace(&self.path, 0o666, text.as_bytes()) {
            Ok(_) => self.written = Some(note),
            // The next word comes in a few seconds. Without a note a restart holds time for as long as it took.
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "the time is not noted"),
        }
    }
}

fn parse(text: &str, boot_id: &str) -> Option<TimeNote> {
    let [boot, now_ms, stamp_ms] = text.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let note = TimeNote { now_ms: now_ms.parse().ok()?, stamp_ms: stamp_ms.parse().ok()? };
    (boot == boot_id && !boot_id.is_empty()).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_of_the_same_boot_finds_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = TimeFile::open(folder.path());
        assert_eq!(file.noted(), None);
        let note = TimeNote { now_ms: 5_000, stamp_ms: 70_000 };
        file.keep(note);
        assert_eq!(TimeFile::open(folder.path()).noted(), Some(note));
        file.keep(TimeNote { now_ms: 8_000, stamp_ms: 73_900 });
        assert_eq!(TimeFile::open(folder.path()).noted(), Some(note), "nothing new");
        let moved = TimeNote { now_ms: 9_000, stamp_ms: 99_000 };
        file.keep(moved);
        assert_eq!(TimeFile::open(folder.path()).noted(), Some(moved));
    }

    #[test]
    fn a_note_of_another_boot_or_none_at_all_says_nothing() {
        assert_eq!(parse("a 1 2", "b"), None);
        for text in ["", "a 1", "a 1 x", "a 1 2 3"] {
            assert_eq!(parse(text, "a"), None, "{text}");
        }
        assert_eq!(parse("a 1 2\n", "a"), Some(TimeNote { now_ms: 1, stamp_ms: 2 }));
    }
}
