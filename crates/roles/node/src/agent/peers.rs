//! The file in which a task finds the addresses of its group's tasks, whenever it looks:
//!
//! ```text
//! # generation 2
//! 127.0.1.1
//! 127.0.1.4
//! ```
//! One line per rank, empty where a task has no place. The number rises with each change. A new file takes the place of
//! the old one at once, so that nobody reads half of it.

use ohm_model::RunRef;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

const HEAD: &str = "# generation ";

/// The files of one node.
#[derive(Clone, Debug)]
pub(crate) struct PeersFiles {
    folder: PathBuf,
}

impl PeersFiles {
    /// In `folder`, which is made when it is needed.
    pub(super) fn new(folder: PathBuf) -> Self {
        PeersFiles { folder }
    }

    /// Where the file of `run` is, or would be.
    pub(super) fn path(&self, run: RunRef) -> PathBuf {
        self.folder.join(run.to_string())
    }

    /// Writes the addresses unless they are there already; says whether they are new.
    pub(super) fn write(&self, run: RunRef, addresses: &[String]) -> io::Result<bool> {
        let path = self.path(run);
        let former = fs::read_to_string(&path).ok().and_then(|text| {
            let (head, lines) = text.split_once('\n')?;
            Some((head.strip_prefix(HEAD)?.parse::<u64>().ok()?, lines.to_string()))
        });
        let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        if former.as_ref().is_some_and(|(_, known)| *known == lines) {
            return Ok(false);
        }
        let generation = former.map_or(0, |(generation, _)| generation) + 1;
        fs::create_dir_all(&self.folder)?;
        let fresh = path.with_extension("new");
        fs::write(&fresh, format!("{HEAD}{generation}\n{lines}"))?;
        fs::rename(&fresh, &path)?;
        Ok(true)
    }

    /// The run is over and forgotten.
    pub(super) fn forget(&self, run: RunRef) {
        let _ = fs::remove_file(self.path(run));
    }

    /// Removes the files of all runs but these.
    pub(super) fn keep_only(&self, runs: &BTreeSet<RunRef>) {
        let names: BTreeSet<String> = runs.iter().map(RunRef::to_string).collect();
        let files = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let over = files.filter(|file| file.file_name().to_str().is_none_or(|name| !names.contains(name)));
        over.for_each(|file| drop(fs::remove_file(file.path())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ohm_model::JobId;

    #[test]
    fn a_file_is_written_when_its_content_changes() {
        let folder = tempfile::tempdir().unwrap();
        let files = PeersFiles::new(folder.path().join("peers"));
        let (run, other) = (RunRef::new(JobId(1), 0, 2, 1), RunRef::new(JobId(1), 0, 3, 1));
        let addresses = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(files.write(run, &addresses(&["10.0.0.1", ""])).unwrap());
        assert!(!files.write(run, &addresses(&["10.0.0.1", ""])).unwrap());
        assert!(files.write(run, &addresses(&["10.0.0.1", "10.0.0.9"])).unwrap());
        assert_eq!(fs::read_to_string(files.path(run)).unwrap(), "# generation 2\n10.0.0.1\n10.0.0.9\n");
        files.write(other, &addresses(&["10.0.0.1"])).unwrap();
        files.keep_only(&[run].into());
        assert!(files.path(run).exists() && !files.path(other).exists());
        files.forget(run);
        assert!(!files.path(run).exists());
    }
}
