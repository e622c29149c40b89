//! `ohm server backup`, `restore` and `recover`: the state of a cell taken out of a data folder, and put into a new
//! one.
//!
//! A restored cell is a new cell with the old state: it has another number, so that servers of the old one are refused,
//! and a higher incarnation, so that agents and schedulers believe it although it may know less than they do.

use crate::client::Client;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::log_files::read_folder;
use ohm_cell::{Applied, BackupSource, Cell, read_backup, restore, write_backup};
use ohm_log::Bytes;
use ohm_log_raft::{FileDisk, Mark, OpenError, RaftConfig, RaftLog};
use ohm_model::Entry;
use ohm_runtime::{clock, data_dir, dice};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Pieces of a snapshot as the log wants them.
const PIECE_BYTES: usize = 4 << 20;

/// `ohm server backup`, `restore` and `recover`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum RescueCommand {
    /// Write the state of the cell into one file, with everything that was acknowledged before
    Backup {
        /// The file; it must not be there yet
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Read the data folder (--data-dir) of a server that does not run instead of asking the servers. Of several
        /// servers one may lack what the others have acknowledged
        #[arg(long)]
        offline: bool,
    },
    /// Found a new cell in an empty data folder (--data-dir) with the state in a backup
    Restore {
        /// The file
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
    /// Found a new cell of one with what a server has, after a majority of the servers is lost for good
    #[command(long_about = RECOVER)]
    Recover {
        /// Say that the other servers are lost for good and will never be started again
        #[arg(long)]
        force_new_cell_of_one: bool,
    },
}

const RECOVER: &str = "\
Found a new cell of one server with what this one has, after a majority of the servers is lost for good.

Use this only when the lost servers will never come back: what they had acknowledged and this server had not received \
is gone. What this server had received is kept, acknowledged or not. Choose the server whose log is longest \
(`ohm log verify` shows it); stop every other one and never start it with its old data folder again. The new cell has \
another number: servers of the old one are refused by it, agents and schedulers follow it. The former log is kept \
beside the new one. Start this server afterwards as usual, and the others with empty data folders and --join.";

pub(crate) fn rescue(command: &RescueCommand, globals: &Globals) -> Result<(), Failure> {
    let folder = &globals.data_dir();
    match command {
        RescueCommand::Backup { to, offline: true } => backup_folder(folder, to),
        RescueCommand::Backup { to, offline: false } => backup(globals, to),
        RescueCommand::Restore { from } => restore_from(folder, from),
        RescueCommand::Recover { force_new_cell_of_one } => recover(folder, *force_new_cell_of_one),
    }
}

/// What a server has, and why no server would open its log, if that is so.
struct AtRest {
    /// The number of its cell.
    cell: u64,
    state: Cell,
    forbidden: Option<OpenError>,
}

/// What a server has, with or without what it does not know to be committed.
fn read(folder: &Path, with_uncommitted: bool) -> Result<AtRest, Failure> {
    crate::etcd::refuse_folder(folder)?;
    let log = folder.join("log");
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", log.display()));
    let (archive, forbidden) = read_folder(&log)?;
    let mut cell = match &archive.snapshot {
        Some((_, pieces)) => restore(&pieces.concat()).map_err(|error| failed(&error))?,
        None => Cell::new(),
    };
    let mut applied = Applied::default();
    let uncommitted = archive.uncommitted().filter(|_| with_uncommitted);
    for (index, bytes) in archive.entries().chain(uncommitted) {
        let entry = Entry::decode(bytes).map_err(|error| failed(&error))?;
        if index > cell.applied() {
            cell.apply(index, &entry, &mut applied);
        }
    }
    Ok(AtRest { cell: archive.identity.cell, state: cell, forbidden })
}

fn backup(globals: &Globals, to: &Path) -> Result<(), Failure> {
    let mut state = Client::new(globals)?.stream("/v1/backup", &[])?;
    write_new(to, |file| io::copy(&mut state, file).map(drop))?;
    // What cannot be restored is no backup: better to learn it now.
    let (source, cell) = read_file(to)?;
    println!("the state after entry {} of cell {:016x} is in {}", cell.applied(), source.cell, to.display());
    Ok(())
}

fn backup_folder(folder: &Path, to: &Path) -> Result<(), Failure> {
    let _lock = data_dir::lock(folder).map_err(|error| Failure::Failed(error.to_string()))?;
    let AtRest { cell: number, state: cell, forbidden } = read(folder, false)?;
    if let Some(reason) = forbidden {
        return Err(Failure::Failed(format!("{}: {reason}", folder.join("log").display())));
    }
    let source = BackupSource { cell: number, cell_incarnation: data_dir::cell_incarnation(folder) };
    write_new(to, |file| {
        let mut written = Ok(());
        let is_readable = write_backup(source, &cell, |frame| {
            if written.is_ok() {
                written = file.write_all(frame);
            }
        });
        written.and(if is_readable { Ok(()) } else { Err(io::Error::other("the state holds something too large")) })
    })?;
    println!("the state after entry {} of cell {number:016x} is in {}", cell.applied(), to.display());
    Ok(())
}

/// Makes a file that was not there; it is whole and durable, or gone again.
fn write_new(to: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
    let at = |error| Failure::io(to.display().to_string(), error);
    let mut file = File::create_new(to).map_err(at)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(to);
    }
    written.map_err(at)
}

fn read_file(file: &Path) -> Result<(BackupSource, Cell), Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::io(file.display().to_string(), error))?;
    read_backup(&bytes).map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))
}

fn restore_from(folder: &Path, from: &Path) -> Result<(), Failure> {
    let (source, cell) = read_file(from)?;
    data_dir::create(folder).map_err(|error| Failure::Failed(error.to_string()))?;
    if fs::read_dir(folder.join("log")).is_ok_and(|mut files| files.next().is_some()) {
        return Err(Failure::Usage(format!("{} holds a log already; name an empty folder", folder.display())));
    }
    found(folder, &cell, source.cell_incarnation)?;
    println!("a new cell with the state after entry {} is in {}", cell.applied(), folder.display());
    Ok(())
}

fn recover(folder: &Path, is_sure: bool) -> Result<(), Failure> {
    if !is_sure {
        return Err(Failure::Usage(format!("{RECOVER}\n\nIf that is so, say --force-new-cell-of-one")));
    }
    let failed = |error: data_dir::DataDirError| Failure::Failed(error.to_string());
    let _lock = data_dir::lock(folder).map_err(failed)?;
    let AtRest { cell: number, state: cell, forbidden } = read(folder, true)?;
    if let Some(reason) = forbidden {
        eprintln!("WARNING: {reason}");
    }
    let kept = folder.join(format!("log.of-cell-{number:016x}"));
    // The new log is made beside the old one; only when it is whole do they change places.
    let made = make_log(folder, &cell, data_dir::cell_incarnation(folder))?;
    made.mark(folder)?;
    fs::rename(folder.join("log"), &kept).map_err(|error| Failure::io(kept.display().to_string(), error))?;
    let _ = fs::remove_file(folder.join("servers"));
    publish(folder, &made.log)?;
    eprintln!(
        "WARNING: this server is a new cell of one now. What other servers had acknowledged and this one had not"
    );
    eprintln!("WARNING: received is lost. Never start another server of the old cell with its old data folder again.");
    println!("a new cell with the state after entry {} is in {}", cell.applied(), folder.display());
    println!("the former log is kept in {}", kept.display());
    Ok(())
}

fn found(folder: &Path, cell: &Cell, incarnation: u64) -> Result<(), Failure> {
    let made = make_log(folder, cell, incarnation)?;
    made.mark(folder)?;
    publish(folder, &made.log)
}

/// A log of a new cell that is not in its place yet.
struct Made {
    log: PathBuf,
    mark: Mark,
}

impl Made {
    /// Puts its mark in the place of the former one. A crash before the log follows leaves a folder that no server
    /// takes for an empty one, and on which the same command works again.
    fn mark(&self, folder: &Path) -> Result<(), Failure> {
        let written = FileDisk::open(folder).and_then(|mut marks| self.mark.write(&mut marks));
        written.map_err(|error| Failure::Failed(error.to_string()))
    }
}

/// A log of a new cell of one server with this state, under a name of its own.
fn make_log(folder: &Path, cell: &Cell, incarnation: u64) -> Result<Made, Failure> {
    let made = folder.join("log.new");
    if made.exists() {
        fs::remove_dir_all(&made).map_err(|error| Failure::io(made.display().to_string(), error))?;
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", made.display()));
    let mut bytes = Vec::new();
    cell.snapshot(|frame| bytes.extend_from_slice(frame));
    let bytes = Bytes::from(bytes);
    let piece = |start: usize| bytes.slice(start..bytes.len().min(start + PIECE_BYTES));
    let pieces = (0..bytes.len()).step_by(PIECE_BYTES).map(piece).collect();
    let disk = FileDisk::open(&made).map_err(|error| failed(&error))?;
    let config = RaftConfig::single(dice::random_u64(), 1);
    RaftLog::create_from(disk, &config, cell.applied(), pieces).map_err(|error| failed(&error))?;
    // Twice restored from one backup must not be twice the same incarnation.
    let next = (incarnation + 1).max(clock::wall_ms());
    data_dir::set_cell_incarnation(folder, next).map_err(|error| failed(&error))?;
    Ok(Made { log: made, mark: Mark::of_restored(&config, cell.applied()) })
}

fn publish(folder: &Path, made: &Path) -> Result<(), Failure> {
    let log = folder.join("log");
    let renamed = fs::rename(made, &log).and_then(|()| File::open(folder)?.sync_all());
    renamed.map_err(|error| Failure::io(log.display().to_string(), error))
}
