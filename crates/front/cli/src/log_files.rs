//! `ohm log verify` and `ohm log dump`: a data folder replayed offline, from its oldest kept snapshot.

use crate::answers::visible_json;
use crate::etcd::EngineArguments;
use crate::failure::Failure;
use ohm_cell::{Applied, Cell, Sweep, restore};
use ohm_log::Bytes;
use ohm_log_raft::{Archive, FileDisk, MARK, Mark, OpenError, open_marked_read_only};
use ohm_model::{Entry, Index};
use ohm_stdx::text::visible;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// After each entry everything it touched is checked; after so many, everything there is.
const WHOLE_EVERY: u64 = 4_096;

/// `ohm log`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum LogCommand {
    /// Replay a data folder and check every invariant at every index
    Verify {
        /// Stop after so many problems
        #[arg(long, default_value_t = 20)]
        problems: usize,
        /// Where the log is.
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Print the entries as JSON, one in a line
    Dump {
        /// Only entries after this index
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Where the log is.
        #[command(flatten)]
        engine: EngineArguments,
    },
}

/// Does what `command` says with the log in `data_dir`: a server's own folder, or that of `ohm up`.
pub(crate) fn log(command: &LogCommand, data_dir: &Path) -> Result<(), Failure> {
    match command {
        LogCommand::Verify { problems, engine } => verify(&open(data_dir, engine)?, *problems),
        LogCommand::Dump { after, engine } => dump(&open(data_dir, engine)?, Index(*after)),
    }
}

/// A log at rest, of whichever engine.
struct AtRest {
    snapshot: Option<(Index, Vec<Bytes>)>,
    entries: Vec<(Index, Bytes)>,
    alarms: Vec<String>,
    /// Why no server would open it, in words.
    forbidden: Option<String>,
}

impl AtRest {
    fn entries(&self) -> impl Iterator<Item = (Index, &Bytes)> {
        self.entries.iter().map(|(index, bytes)| (*index, bytes))
    }

    fn last(&self) -> Index {
        self.entries.last().map_or(Index(0), |(index, _)| *index)
    }
}

fn open(data_dir: &Path, engine: &EngineArguments) -> Result<AtRest, Failure> {
    match engine.options().map_err(Failure::Usage)? {
        Some(etcd) => crate::etcd::archive(etcd).map(|(snapshot, entries)| AtRest {
            snapshot,
            entries,
            alarms: Vec::new(),
            forbidden: None,
        }),
        None => {
            let (archive, forbidden) = open_folder(data_dir)?;
            let entries = archive.entries().map(|(index, bytes)| (index, bytes.clone())).collect();
            let alarms = archive.alarms.iter().map(ToString::to_string).collect();
            let forbidden = forbidden.map(|error| error.to_string());
            Ok(AtRest { snapshot: archive.snapshot, entries, alarms, forbidden })
        }
    }
}

fn open_folder(data_dir: &Path) -> Result<(Archive, Option<OpenError>), Failure> {
    [data_dir.join("server").as_path(), data_dir].into_iter().try_for_each(crate::etcd::refuse_folder)?;
    for folder in [data_dir.join("server"), data_dir.to_path_buf()] {
        if folder.join(MARK).is_file() && !folder.join("log").is_dir() {
            return read_folder(&folder.join("log"));
        }
    }
    let candidates: [PathBuf; 3] = [data_dir.join("server").join("log"), data_dir.join("log"), data_dir.to_path_buf()];
    let Some(folder) = candidates.iter().find(|folder| folder.is_dir()) else {
        return Err(Failure::Usage(format!("{} is no data folder; name one with --data-dir", data_dir.display())));
    };
    read_folder(folder)
}

/// The log in a folder, and why no server would open it, by the mark beside the folder.
pub(crate) fn read_folder(log: &Path) -> Result<(Archive, Option<OpenError>), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", log.display()));
    let beside = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut marks = FileDisk::read_only(beside).map_err(|error| failed(&error))?;
    if !log.is_dir()
        && let Ok(Some(mark)) = Mark::read(&mut marks)
    {
        return Err(failed(&mark.gone()));
    }
    let mut disk = FileDisk::read_only(log).map_err(|error| failed(&error))?;
    open_marked_read_only(&mut disk, &mut marks).map_err(|error| failed(&error))
}

fn start(archive: &AtRest) -> Result<Cell, Failure> {
    let Some((index, pieces)) = &archive.snapshot else { return Ok(Cell::new()) };
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    restore(&bytes).map_err(|error| Failure::Failed(format!("snapshot at {index}: {error}")))
}

fn verify(archive: &AtRest, problems_max: usize) -> Result<(), Failure> {
    let mut cell = start(archive)?;
    let first = cell.applied();
    let bar = progress(archive.last().0.saturating_sub(first.0));
    let (mut problems, mut entries, mut commands) = (Vec::new(), 0u64, 0u64);
    let mut conflicts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut applied = Applied::default();
    let (mut sweep, broken) = Sweep::start(&cell);
    problems.extend(broken.into_iter().map(|problem| (first, problem)));
    for (index, bytes) in archive.entries() {
        let entry = Entry::decode(bytes).map_err(|error| Failure::Failed(format!("entry {index}: {error}")))?;
        cell.apply(index, &entry, &mut applied);
        entries += 1;
        commands += entry.commands.len() as u64;
        for event in &applied.events {
            if let ohm_model::EventKind::Conflicted { reasons, .. } = &event.kind {
                reasons
                    .iter()
                    .for_each(|(reason, count)| *conflicts.entry(reason.name()).or_insert(0) += u64::from(*count));
            }
        }
        problems.extend(sweep.step(&cell, &applied).into_iter().map(|problem| (index, problem)));
        if entries.is_multiple_of(WHOLE_EVERY) {
            problems.extend(sweep.whole(&cell).into_iter().map(|problem| (index, problem)));
        }
        bar.set_position(index.0.saturating_sub(first.0));
        if problems.len() >= problems_max {
            break;
        }
    }
    problems.extend(sweep.whole(&cell).into_iter().map(|problem| (cell.applied(), problem)));
    bar.finish_and_clear();
    archive.alarms.iter().chain(&archive.forbidden).for_each(|alarm| println!("note: {alarm}"));
    problems.iter().for_each(|(index, problem)| println!("entry {index}: {}", visible(problem)));
    println!("{entries} entries with {commands} commands after index {first}, up to index {}", cell.applied());
    println!("{} jobs, {} live runs, {} nodes", cell.jobs().len(), cell.runs().len(), cell.nodes().len());
    println!("conflicts: {}", if conflicts.is_empty() { "none".into() } else { list(&conflicts) });
    println!("digest {:016x}, chain {:016x}", cell.digest(), cell.chain());
    if problems.is_empty() {
        println!("every invariant held at every index");
    }
    match (problems.len(), &archive.forbidden) {
        (0, None) => Ok(()),
        (0, Some(reason)) => Err(Failure::Failed(reason.clone())),
        (count, _) => Err(Failure::Failed(format!("{count} broken invariants"))),
    }
}

fn list(conflicts: &BTreeMap<&str, u64>) -> String {
    conflicts.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
}

fn progress(length: u64) -> indicatif::ProgressBar {
    if std::io::stderr().is_terminal() { indicatif::ProgressBar::new(length) } else { indicatif::ProgressBar::hidden() }
}

fn dump(archive: &AtRest, after: Index) -> Result<(), Failure> {
    let stdout = std::io::stdout();
    let mut out = std::io::BufWriter::new(stdout.lock());
    for (index, bytes) in archive.entries().filter(|(index, _)| *index > after) {
        let entry = Entry::decode(bytes).map_err(|error| Failure::Failed(format!("entry {index}: {error}")))?;
        let line = serde_json::json!({ "index": index, "entry": entry });
        if let Err(error) = writeln!(out, "{}", visible_json(&line.to_string())) {
            return match error.kind() {
                std::io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(Failure::io("standard output", error)),
            };
        }
    }
    out.flush().map_err(|error| Failure::io("standard output", error))
}
