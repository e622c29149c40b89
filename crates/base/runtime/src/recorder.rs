//! The flight recorder of a process: what it really did and was told, for the judges of a chaos run.
//!
//! Switched on by `OHM_RECORD_DIR`, off otherwise: then every call is one comparison. `OHM_RECORD_NAME` says what the
//! process is called (a shim takes over the name of its agent). One file per process, only ever appended to, one line
//! of JSON per record in one write: a process that is killed leaves at most one torn line, at the end.
//!
//! Invariant: beginnings are recorded before they happen and ends after they happened, so that two runs of a task that
//! overlap for a moment overlap in the records too.

use crate::clock::{boot_ms, wall_ms};
use ohm_model::{Index, RunRef};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The variable that names the folder of the records, and so switches them on.
pub const DIRECTORY_VARIABLE: &str = "OHM_RECORD_DIR";
/// The variable that says what the process is called in the records.
pub const NAME_VARIABLE: &str = "OHM_RECORD_NAME";
/// How the files of records end.
pub const EXTENSION: &str = "records";

/// One line of a file of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in milliseconds of CLOCK_BOOTTIME.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: Happened,
}

/// What a process records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Happened {
    /// The first line of every file: who writes.
    Process {
        /// `server`, `shim`, `fleet` and so on.
        role: String,
        /// Which one.
        name: String,
        /// Its process id.
        pid: u32,
        /// The wall clock at this moment, in milliseconds since 1970.
        wall_ms: u64,
    },
    /// A task is about to begin on a node.
    Began {
        /// The node.
        node: String,
        /// Which run.
        run: RunRef,
        /// Whether it may overlap with its replacement (`onDisconnect: keep`).
        keeps: bool,
        /// How long until its node may end it because of its lease, in milliseconds.
        fence_in_ms: u64,
    },
    /// Nothing of a task is left, or nothing came of its beginning.
    Over {
        /// The node.
        node: String,
        /// Which run.
        run: RunRef,
    },
    /// A client was told that its job is in the cell.
    Acknowledged {
        /// The job's name.
        job: String,
    },
    /// A copy of the cell has applied everything up to an entry.
    Copied {
        /// The entry's index.
        index: Index,
        /// The running hash of the copy after it.
        chain: u64,
    },
    /// A process has ended; told by whoever started it.
    Exited {
        /// Its name.
        name: String,
        /// Its process id.
        pid: u32,
    },
    /// A fault was injected, or healed.
    Fault {
        /// In words.
        what: String,
    },
}

/// Writes the records of this process.
#[derive(Debug, Default)]
pub struct Recorder {
    file: Option<File>,
    name: String,
}

impl Recorder {
    /// The recorder that the environment asks for; `name` unless the environment names the process.
    pub fn from_environment(role: &str, name: &str) -> Self {
        let Some(folder) = std::env::var_os(DIRECTORY_VARIABLE).filter(|folder| !folder.is_empty()) else {
            return Recorder::default();
        };
        let name = std::env::var(NAME_VARIABLE).unwrap_or_else(|_| name.to_string());
        Recorder::open(Path::new(&folder), role, &name).unwrap_or_else(|error| {
            tracing::error!(%error, "nothing is recorded");
            Recorder::default()
        })
    }

    /// A recorder that writes into `folder`, which is made.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn open(folder: &Path, role: &str, name: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let plain: String = name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '-' }).collect();
        let pid = std::process::id();
        let path = folder.join(format!("{role}-{plain}-{pid}-{}.{EXTENSION}", boot_ms()));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let mut recorder = Recorder { file: Some(file), name: name.to_string() };
        let (role, name) = (role.to_string(), name.to_string());
        recorder.write_at(boot_ms(), Happened::Process { role, name, pid, wall_ms: wall_ms() });
        Ok(recorder)
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// What this process is called in the records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records what happens now; `what` is only made when somebody wants to know.
    pub fn write(&mut self, what: impl FnOnce() -> Happened) {
        if self.is_on() {
            self.write_at(boot_ms(), what());
        }
    }

    /// Records what happened at another moment.
    pub fn write_at(&mut self, at_ms: u64, what: Happened) {
        let Some(file) = &mut self.file else { return };
        let written = serde_json::to_vec(&Line { at_ms, what }).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            file.write_all(&line)
        });
        if let Err(error) = written {
            // A file with a hole would tell a story that is not true; it ends here.
            tracing::error!(%error, "the record ends here");
            self.file = None;
        }
    }
}

/// Why a file of records can't be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file itself.
    #[error("{file}: {source}")]
    Io {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A whole line of it.
    #[error("{file}:{line}: not a record: {source}")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

/// The records of one file, in order. A torn last line, as a killed process leaves it, is passed over.
///
/// # Errors
/// [`RecordError`] when the file can't be read, or a whole line of it makes no sense.
pub fn read(path: &Path) -> Result<Vec<Line>, RecordError> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| RecordError::Io { file: file.clone(), source })?;
    parse(&file, &text)
}

/// The records in `text`, which is what is in `file`; see [`read`].
///
/// # Errors
/// [`RecordError::Line`] when a whole line of it makes no sense.
pub fn parse(file: &str, text: &str) -> Result<Vec<Line>, RecordError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(number, line): (usize, &str)| {
        let file = || file.to_string();
        serde_json::from_str(line).map_err(|source| RecordError::Line { file: file(), line: number + 1, source })
    };
    whole.lines().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::JobId;

    fn folder() -> std::path::PathBuf {
        std::env::temp_dir().join(format!("ohm-recorder-{:016x}", crate::dice::random_u64()))
    }

    #[test]
    fn what_is_written_is_read_and_a_torn_end_is_passed_over() {
        let folder = folder();
        let run = RunRef::new(JobId(7), 0, 3, 1);
        let mut recorder = Recorder::open(&folder, "shim", "node 1").unwrap();
        recorder.write_at(5, Happened::Began { node: "n".into(), run, keeps: false, fence_in_ms: 9 });
        recorder.write_at(9, Happened::Over { node: "n".into(), run });
        let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let lines = read(&path).unwrap();
        assert_eq!(
            lines[1],
            Line { at_ms: 5, what: Happened::Began { node: "n".into(), run, keeps: false, fence_in_ms: 9 } }
        );
        assert_eq!(lines.len(), 3);
        let text = fs::read_to_string(&path).unwrap();
        let first = text.find('\n').unwrap() + 1;
        for end in first..text.len() {
            fs::write(&path, &text[..end]).unwrap();
            assert!(read(&path).unwrap().len() < 3, "cut at {end}");
        }
        fs::write(&path, text.replace("began", "begun")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains(":2:"), "damage is said, with its place");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn without_a_folder_nothing_is_written() {
        let mut recorder = Recorder::default();
        recorder.write(|| unreachable!("nobody wants to know"));
        assert!(!recorder.is_on());
    }
}
