//! A program that runs beside a task, for one of its probes: as the task in everything, and gone with it.
//!
//! We may not stand in the groups of a run that lives: whatever kills it would kill us, and all tasks. So a process of
//! our own is started first (`ohm shim --beside`), which steps into the groups itself and then becomes the program. It
//! is our child all the time: its number is its own until we have reaped it, and its run does not end before that.

use super::launch::{LaunchError, Launcher, TaskCommand};
use super::protocol::RunSpec;
use super::{ShimError, client};
use crate::cgroup::Slot;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use ohm_model::{MESSAGE_CHARS_MAX, RunRef};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How much of the end of what a program writes is kept.
const OUTPUT_BYTES_MAX: usize = 4 << 10;
/// How much is read at a time, so that one that never ceases to write holds nobody up.
const READS_MAX: usize = 64;
/// Between two looks at what programs write, in milliseconds.
const READ_MS: u64 = 50;
/// The exit code of a process that could not become the program, as shells have it.
const NOT_EXECUTED: i32 = 126;

/// What a program beside a task writes.
#[derive(Debug)]
pub(super) struct Output {
    pipe: PipeReader,
    kept: Vec<u8>,
}

impl Output {
    /// Takes what is there.
    pub(super) fn read(&mut self) {
        let mut piece = [0; 4096];
        for _ in 0..READS_MAX {
            // No more for now is an error, too.
            let Ok(length @ 1..) = self.pipe.read(&mut piece) else { return };
            self.kept.extend_from_slice(&piece[..length]);
            let excess = self.kept.len().saturating_sub(OUTPUT_BYTES_MAX);
            self.kept.drain(..excess);
        }
    }

    /// The last line with something on it, as far as the cell keeps it.
    pub(super) fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().filter(|character| !character.is_control()).take(MESSAGE_CHARS_MAX).collect())
    }
}

/// A program that is to run beside a run.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) run: RunRef,
    pub(super) number: u64,
    pub(super) command: Vec<String>,
    pub(super) timeout_ms: u64,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) run: RunRef,
    pub(super) number: u64,
    pub(super) ends_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) is_late: bool,
    pub(super) output: Output,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Programs {
    pub(super) waiting: VecDeque<Wanted>,
    pub(super) by_pid: BTreeMap<u32, Program>,
}

impl Programs {
    /// When something is to be done by itself.
    pub(super) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let ends_ms = self.by_pid.values().filter(|beside| !beside.is_late).map(|beside| beside.ends_ms).min();
        (!self.by_pid.is_empty()).then(|| ends_ms.map_or(now_ms + READ_MS, |ends_ms| ends_ms.min(now_ms + READ_MS)))
    }

    /// Whether some run beside this run.
    pub(super) fn has_some_of(&self, run: RunRef) -> bool {
        self.by_pid.values().any(|beside| beside.run == run)
    }
}

/// How to start programs beside tasks.
#[derive(Debug)]
pub(super) struct Starter {
    program: PathBuf,
}

impl Starter {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Starter { program: client::this_program()? })
    }

    /// Starts `words` beside the task of `run`; gives the process id and what it writes.
    pub(super) fn start(
        &self,
        launcher: &Launcher,
        (run, spec): (RunRef, &RunSpec),
        slot: Option<&Slot>,
        words: &[String],
    ) -> Result<(u32, Output), LaunchError> {
        let machine = |error: io::Error| LaunchError::Machine(format!("no process for a probe: {error}"));
        let (pipe, theirs) = io::pipe().map_err(machine)?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|errno| machine(errno.into()))?;
        let TaskCommand { program, found, command, folder } = launcher.command(run, spec, words)?;
        let mut beside = Command::new(&self.program);
        beside.args(["shim", "--beside"]);
        for file in slot.iter().flat_map(|slot| slot.process_files()) {
            beside.arg("--group").arg(file);
        }
        beside.arg("--name").arg(&program).arg("--").arg(&found).args(command.get_args());
        beside.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        beside.current_dir(&folder).process_group(0).stdin(Stdio::null());
        beside.stdout(theirs.try_clone().map_err(machine)?).stderr(theirs);
        let child = beside.spawn().map_err(machine)?;
        Ok((child.id(), Output { pipe, kept: Vec::new() }))
    }
}

/// `ohm shim --beside [--group FILE]… --name NAME -- PROGRAM [ARGUMENT]…`: steps into the groups whose lists of
/// processes these files are, and becomes the program.
pub(super) fn run_beside(arguments: impl Iterator<Item = OsString>) -> Result<(), ShimError> {
    let (mut name, mut program, mut arguments) = (None, None, arguments);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(ShimError::Arguments(format!("{argument:?} needs a value")));
        match argument.to_str() {
            Some("--group") => std::fs::write(value()?, "0")?,
            Some("--name") => name = Some(value()?),
            Some("--") => {
                program = Some(value()?);
                break;
            }
            _ => return Err(ShimError::Arguments(format!("unknown argument {argument:?}"))),
        }
    }
    let Some(program) = program else { return Err(ShimError::Arguments("a program is missing".into())) };
    let name = name.unwrap_or_else(|| program.clone());
    let error = Command::new(&program).arg0(&name).args(arguments).exec();
    eprintln!("cannot execute {name:?}: {error}");
    std::process::exit(NOT_EXECUTED)
}
