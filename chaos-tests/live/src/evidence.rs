//! What a run leaves behind, read back and written out for people.

use crate::error::LiveError;
use crate::history::{History, Sign, Tape, describe};
use crate::report::Counts;
use ohm_model::{JobId, RunRef};
use ohm_oracle::Record;
use ohm_runtime::recorder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> LiveError + '_ {
    move |error| LiveError::Io(path.display().to_string(), error)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, LiveError> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut paths: Vec<PathBuf> = entries.map_err(failed(folder))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// What every process recorded.
pub(crate) fn tapes(folder: &Path) -> Result<Vec<Tape>, LiveError> {
    let mut tapes = Vec::new();
    for path in files(folder)? {
        if path.extension().is_some_and(|extension| extension == recorder::EXTENSION) {
            let lines = recorder::read(&path).map_err(|error| LiveError::Failed(error.to_string()))?;
            tapes.extend(Tape::of(lines));
        }
    }
    Ok(tapes)
}

/// What tasks wrote themselves. A torn line, as a killed task leaves it, is passed over.
pub(crate) fn signs(folder: &Path) -> Result<Vec<Sign>, LiveError> {
    let mut signs = Vec::new();
    for path in files(folder)? {
        let text = fs::read_to_string(&path).map_err(failed(&path))?;
        signs.extend(text.lines().filter_map(sign));
    }
    Ok(signs)
}

/// `RUN UPTIME NODE`, the run as four numbers with points, the time in seconds with two decimals.
fn sign(line: &str) -> Option<Sign> {
    let mut words = line.split(' ');
    let (run, uptime, node) = (words.next()?, words.next()?, words.next()?);
    let numbers: Option<Vec<u32>> = run.split('.').map(|number| number.parse().ok()).collect();
    let [job, group, task, incarnation] = numbers?.try_into().ok()?;
    let run = RunRef::new(JobId(job.into()), group.try_into().ok()?, task, incarnation);
    let (seconds, hundredths) = uptime.split_once('.')?;
    let at_ms = seconds.parse::<u64>().ok()? * 1000 + hundredths.parse::<u64>().ok()? * 10;
    Some(Sign { run, at_ms, node: node.to_string() })
}

/// The whole story in order of time.
pub(crate) fn write_history(path: &Path, history: &History) -> Result<(), LiveError> {
    let file = fs::File::create(path).map_err(failed(path))?;
    let mut out = std::io::BufWriter::new(file);
    let mut faults = history.faults.iter().peekable();
    for record in &history.records {
        let Some(line) = describe(record) else { continue };
        let at_ms = line.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        while let Some((fault_ms, what)) = faults.next_if(|(fault_ms, _)| *fault_ms <= at_ms) {
            writeln!(out, "{fault_ms} *** {what}").map_err(failed(path))?;
        }
        writeln!(out, "{line}").map_err(failed(path))?;
    }
    out.flush().map_err(failed(path))
}

/// Copies a folder with what is in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), LiveError> {
    fs::create_dir_all(to).map_err(failed(to))?;
    for path in files(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => copy(&path, &target)?,
            false => drop(fs::copy(&path, &target).map_err(failed(&path))?),
        }
    }
    Ok(())
}

/// How much there is of everything.
pub(crate) fn counts(history: &History, files: usize) -> Counts {
    let mut counts = Counts { files, signs: history.signs.len(), ..Counts::default() };
    for record in &history.records {
        match record {
            Record::Applied { .. } => counts.entries += 1,
            Record::Began { .. } => counts.began += 1,
            Record::Over { .. } => counts.over += 1,
            Record::Copied { .. } => counts.copied += 1,
            _ => {}
        }
    }
    counts
}

/// The longest time without the beginning of any task that ends between each moment and the next one, in milliseconds.
pub(crate) fn longest_silences(moments: &[u64], history: &History) -> Vec<Option<u64>> {
    let began: Vec<u64> = history
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Began { at_ms, .. } => Some(*at_ms),
            _ => None,
        })
        .collect();
    let silence = |(number, &from_ms): (usize, &u64)| {
        let until_ms = moments.get(number + 1).copied().unwrap_or(u64::MAX);
        let ends_here = |pair: &&[u64]| pair[1] >= from_ms && pair[1] < until_ms;
        began.windows(2).filter(ends_here).map(|pair| pair[1] - pair[0]).max()
    };
    moments.iter().enumerate().map(silence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Timeline;
    use crate::verdict::judge;
    use ohm_runtime::recorder::{Happened, Recorder};

    #[test]
    fn a_double_run_is_seen_through_the_files_that_processes_write() {
        let folder = tempfile::tempdir().unwrap();
        let run = |incarnation| RunRef::new(JobId(7), 0, 3, incarnation);
        let began = |node: &str, incarnation| {
            let mut recorder = Recorder::open(folder.path(), "shim", node).unwrap();
            recorder.write(|| Happened::Began {
                node: node.into(),
                run: run(incarnation),
                keeps: false,
                fence_in_ms: 1,
            });
            recorder
        };
        let judged =
            || judge(&History::merge(&tapes(folder.path()).unwrap(), &[], Vec::new()), &Timeline::default(), &[]);
        let mut first = began("node-1", 1);
        first.write(|| Happened::Over { node: "node-1".into(), run: run(1) });
        let _second = began("node-2", 2);
        assert_eq!(judged(), []);
        let _third = began("node-3", 3);
        assert_eq!(judged()[0].broken.promise, "P2");
    }

    #[test]
    fn signs_are_read_and_torn_ones_passed_over() {
        let run = RunRef::new(JobId(7), 0, 3, 2);
        assert_eq!(sign("7.0.3.2 12.05 node-1"), Some(Sign { run, at_ms: 12_050, node: "node-1".into() }));
        for torn in ["", "7.0.3.2", "7.0.3.2 12.05", "7.0.3 12.05 node-1", "x 12.05 node-1"] {
            assert_eq!(sign(torn), None, "{torn}");
        }
    }

    #[test]
    fn a_silence_belongs_to_the_moment_after_which_it_ended() {
        let run = RunRef::new(JobId(7), 0, 3, 2);
        let began = |at_ms| Record::Began { at_ms, node: "n".into(), run, keeps: false, fence_in_ms: 1 };
        let history = History { records: [10, 20, 90, 95].map(began).to_vec(), ..History::default() };
        assert_eq!(longest_silences(&[15, 50, 200], &history), [Some(10), Some(70), None]);
    }
}
