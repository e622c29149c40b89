//! Starting one process: one exec, nothing between fork and exec, so that the kernel's cheapest way (vfork) is taken.

use super::folder::mark;
use super::protocol::RunSpec;
use nix::errno::Errno;
use ohm_model::RunRef;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs are looked for when the spec names no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Of the folders of a run; DIR itself is closed to others anyway.
const FOLDER_MODE: u32 = 0o700;
/// Most empty working folders kept for later runs.
const SPARE_MAX: usize = 4_096;

/// Why there is no process.
#[derive(Debug)]
pub(super) enum LaunchError {
    /// The spec asks for something that cannot be executed.
    Task(String),
    /// This machine could not do it now.
    Machine(String),
}

/// Starts processes for one shim.
///
/// Working folders that stayed empty are renamed for later runs, never removed: ext4 does not use an inode again for a
/// minute after it was freed and looks at all such ones whenever it makes a file, so that with 2,000 removals per
/// second each start took four times as long.
#[derive(Debug)]
pub(super) struct Launcher {
    folder: PathBuf,
    mark: String,
    /// Empty working folders of forgotten runs.
    spare: Vec<PathBuf>,
}

impl Launcher {
    pub(super) fn new(folder: &Path) -> Self {
        Launcher { folder: folder.to_path_buf(), mark: mark(folder), spare: Vec::new() }
    }

    /// Where the run starts unless it says otherwise.
    fn run_folder(&self, run: RunRef) -> PathBuf {
        self.folder.join("runs").join(run.to_string())
    }

    /// Takes the working folder of a forgotten run for later ones, unless the task left anything in it or changed it:
    /// what a task wrote is not ours to throw away.
    pub(super) fn forget(&mut self, run: RunRef) {
        let folder = self.run_folder(run);
        let is_plain = |data: &fs::Metadata| data.is_dir() && data.permissions().mode() & 0o7777 == FOLDER_MODE;
        if self.spare.len() < SPARE_MAX
            && fs::symlink_metadata(&folder).as_ref().is_ok_and(is_plain)
            && fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_none())
        {
            self.spare.push(folder);
        }
    }

    fn make_run_folder(&mut self, run: RunRef) -> Result<PathBuf, LaunchError> {
        let folder = self.run_folder(run);
        if self.spare.pop().is_some_and(|spare| fs::rename(spare, &folder).is_ok()) {
            return Ok(folder);
        }
        make_folder(&folder).map_err(|error| machine(&folder, error))?;
        Ok(folder)
    }

    /// Starts the first process of `run` in a process group of its own; gives its process id.
    pub(super) fn start(&mut self, run: RunRef, spec: &RunSpec) -> Result<u32, LaunchError> {
        let logs = log_folder(&self.folder, run);
        make_folder(&logs).map_err(|error| machine(&logs, error))?;
        let log = |name| open_log(&logs.join(name)).map_err(|error| machine(&logs.join(name), error));
        let (stdout, stderr) = (log("stdout")?, log("stderr")?);
        let folder = match spec.working_dir.as_str() {
            "" => self.make_run_folder(run)?,
            given => PathBuf::from(given),
        };
        let TaskCommand { program, mut command, .. } = self.command_in(run, spec, &spec.command, folder.clone())?;
        command.current_dir(&folder).process_group(0).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        // The handle is let go: the loop reaps by process id, and dropping it neither waits nor kills.
        command.spawn().map(|child| child.id()).map_err(|error| explain(error, &program, &folder))
    }

    /// `words` as a program with the environment and the folder of a run that was started before.
    pub(super) fn command(&self, run: RunRef, spec: &RunSpec, words: &[String]) -> Result<TaskCommand, LaunchError> {
        let folder = match spec.working_dir.as_str() {
            "" => self.run_folder(run),
            given => PathBuf::from(given),
        };
        self.command_in(run, spec, words, folder)
    }

    fn command_in(
        &self,
        run: RunRef,
        spec: &RunSpec,
        words: &[String],
        folder: PathBuf,
    ) -> Result<TaskCommand, LaunchError> {
        let [program, arguments @ ..] = words else {
            return Err(LaunchError::Task("command is empty; it must name a program".into()));
        };
        let path = spec.environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let found = find_program(program, path.unwrap_or(PATH_DEFAULT));
        let mut command = Command::new(&found);
        command.arg0(program).args(arguments).env_clear();
        if path.is_none() {
            command.env("PATH", PATH_DEFAULT);
        }
        command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
        let (mark_name, mark_value) = self.mark.split_once('=').unwrap_or(("OHM_SHIM", ""));
        command
            .env("OHM_RUN", run.to_string())
            .env("OHM_INCARNATION", run.incarnation.to_string())
            .env(mark_name, mark_value);
        Ok(TaskCommand { program: program.clone(), found, command, folder })
    }
}

/// A program as a task of a run would be started.
pub(super) struct TaskCommand {
    /// As it was named.
    pub(super) program: String,
    /// Where it was found.
    pub(super) found: PathBuf,
    /// With its arguments and the environment of the run.
    pub(super) command: Command,
    /// Where it starts.
    pub(super) folder: PathBuf,
}

fn machine(what: &Path, error: io::Error) -> LaunchError {
    LaunchError::Machine(format!("{}: {error}", what.display()))
}

fn explain(error: io::Error, program: &str, folder: &Path) -> LaunchError {
    let transient = [Errno::EAGAIN, Errno::ENOMEM, Errno::EMFILE, Errno::ENFILE, Errno::EIO];
    if error.raw_os_error().is_some_and(|raw| transient.contains(&Errno::from_raw(raw))) {
        return LaunchError::Machine(format!("no process for {program:?}: {error}"));
    }
    if !folder.is_dir() {
        return LaunchError::Task(format!("working directory {} is no directory: {error}", folder.display()));
    }
    LaunchError::Task(format!("cannot execute {program:?}: {error}"))
}

/// The folder of the log files `stdout` and `stderr` of `run`, of the shim with state in `folder`.
pub fn log_folder(folder: &Path, run: RunRef) -> PathBuf {
    folder.join("logs").join(run.to_string())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(folder),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// Looks `program` up as a shell would. Done here because `Command` falls back to its slow way for it.
fn find_program(program: &str, path: &str) -> PathBuf {
    if program.contains('/') {
        return PathBuf::from(program);
    }
    let is_program =
        |file: &Path| file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    let folders = std::env::split_paths(OsStr::new(path));
    // Not found anywhere: the name with a slash makes the exec fail as it should, instead of looking once more.
    folders
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))
        .unwrap_or_else(|| PathBuf::from("/nonexistent").join(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path_of_the_task() {
        assert_eq!(find_program("sh", "/nowhere:/bin"), Path::new("/bin/sh"));
        assert_eq!(find_program("./sh", "/bin"), Path::new("./sh"));
        assert_eq!(find_program("no-such", "/bin"), Path::new("/nonexistent/no-such"));
    }
}
