//! How long the output of ended runs is kept: people read it after the fact, and a node must not fill up with it.
//!
//! The folders of runs that the shim still knows are never touched. Of the others the newest are kept, up to a number
//! of runs and a number of bytes, whichever is reached first.

use crate::shim::log_folder;
use ohm_model::{JobId, RunRef};
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much output of ended runs is kept on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRetention {
    /// Of so many runs.
    pub runs_max: usize,
    /// So many bytes in sum.
    pub bytes_max: u64,
}

impl Default for LogRetention {
    /// 1,000 runs and 1 GiB.
    fn default() -> Self {
        LogRetention { runs_max: 1_000, bytes_max: 1 << 30 }
    }
}

/// The kept folders of one shim, oldest first.
#[derive(Debug)]
pub(crate) struct Retention {
    folder: PathBuf,
    bounds: LogRetention,
    kept: VecDeque<(RunRef, u64)>,
    bytes: u64,
}

impl Retention {
    /// Finds what earlier agents left in the shim's `folder`; `known` are the runs that the shim has.
    pub(crate) fn find(folder: &Path, bounds: LogRetention, known: &BTreeSet<RunRef>) -> Self {
        let mut retention = Retention { folder: folder.to_path_buf(), bounds, kept: VecDeque::new(), bytes: 0 };
        let entries = fs::read_dir(folder.join("logs")).into_iter().flatten().flatten();
        let mut found: Vec<(SystemTime, RunRef)> = entries
            .filter_map(|entry| {
                let run = run_of(entry.file_name().to_str()?).filter(|run| !known.contains(run))?;
                Some((entry.metadata().ok()?.modified().ok()?, run))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().for_each(|(_, run)| retention.keep(run));
        retention
    }

    /// The shim has forgotten `run`: its output is one of those that are kept for a while. What has been kept longest
    /// goes.
    pub(crate) fn keep(&mut self, run: RunRef) {
        let bytes = bytes_in(&log_folder(&self.folder, run));
        self.kept.push_back((run, bytes));
        self.bytes += bytes;
        while self.kept.len() > self.bounds.runs_max || self.bytes > self.bounds.bytes_max {
            let Some((run, bytes)) = self.kept.pop_front() else { return };
            self.bytes -= bytes;
            let folder = log_folder(&self.folder, run);
            if let Err(error) = fs::remove_dir_all(&folder)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(folder = %folder.display(), %error, "old output not removed");
            }
        }
    }
}

/// The run whose folder is called `name`; none for what is not ours.
fn run_of(name: &str) -> Option<RunRef> {
    let mut numbers = name.split('.');
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let (job, group, task, incarnation) = (next()?, next()?, next()?, next()?);
    let run = RunRef::new(
        JobId(job),
        u16::try_from(group).ok()?,
        u32::try_from(task).ok()?,
        u32::try_from(incarnation).ok()?,
    );
    (run.to_string() == name).then_some(run)
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(task: u32) -> RunRef {
        RunRef::new(JobId(7), 0, task, 1)
    }

    fn write(folder: &Path, task: u32, bytes: usize) {
        let logs = log_folder(folder, run(task));
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("stdout"), vec![b'x'; bytes]).unwrap();
    }

    fn exists(folder: &Path, task: u32) -> bool {
        log_folder(folder, run(task)).exists()
    }

    #[test]
    fn the_newest_output_is_kept_and_what_is_known_to_the_shim_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        (0..4).for_each(|task| write(folder, task, 10));
        fs::create_dir_all(folder.join("logs/not-a-run")).unwrap();
        let bounds = LogRetention { runs_max: 2, bytes_max: 100 };
        let known = BTreeSet::from([run(3)]);
        let mut retention = Retention::find(folder, bounds, &known);
        assert_eq!(retention.kept.len(), 2);
        assert!(exists(folder, 3) && folder.join("logs/not-a-run").exists());
        write(folder, 9, 95);
        retention.keep(run(9));
        assert_eq!((retention.kept.len(), retention.bytes), (1, 95), "more bytes than are kept");
        assert!(exists(folder, 9));
        retention.keep(run(3));
        assert!(!exists(folder, 9) && exists(folder, 3));
    }

    #[test]
    fn only_folders_of_runs_are_ours() {
        assert_eq!(run_of("7.0.2.1"), Some(run(2)));
        for name in ["7.0.2", "7.0.2.1.5", "07.0.2.1", "x", "7.70000.2.1", ""] {
            assert_eq!(run_of(name), None, "{name}");
        }
    }
}
