//! Starting one process: one exec, nothing between fork and exec, so that the kernel's cheapest way (vfork) is taken.

use super::mark;
use super::protocol::RunSpec;
use nix::errno::Errno;
use ohm_model::RunRef;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs are looked for when the spec names no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why there is no process.
#[derive(Debug)]
pub(super) enum LaunchError {
    /// The spec asks for something that cannot be executed.
    Task(String),
    /// This machine could not do it now.
    Machine(String),
}

/// Starts processes for one shim.
#[derive(Debug)]
pub(super) struct Launcher {
    folder: PathBuf,
    mark: String,
}

impl Launcher {
    pub(super) fn new(folder: &Path) -> Self {
        Launcher { folder: folder.to_path_buf(), mark: mark(folder) }
    }

    /// Where the run starts unless it says otherwise.
    pub(super) fn run_folder(&self, run: RunRef) -> PathBuf {
        self.folder.join("runs").join(run.to_string())
    }

    /// Starts the first process of `run` in a process group of its own; gives its process id.
    pub(super) fn start(&self, run: RunRef, spec: &RunSpec) -> Result<u32, LaunchError> {
        let machine = |what: &Path, error: io::Error| LaunchError::Machine(format!("{}: {error}", what.display()));
        let logs = log_folder(&self.folder, run);
        make_folder(&logs).map_err(|error| machine(&logs, error))?;
        let log = |name| open_log(&logs.join(name)).map_err(|error| machine(&logs.join(name), error));
        let (stdout, stderr) = (log("stdout")?, log("stderr")?);
        let folder = match spec.working_dir.as_str() {
            "" => {
                let folder = self.run_folder(run);
                make_folder(&folder).map_err(|error| machine(&folder, error))?;
                folder
            }
            given => PathBuf::from(given),
        };
        let [program, arguments @ ..] = spec.command.as_slice() else {
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
            .env(mark_name, mark_value)
            .current_dir(&folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        // The handle is let go: the loop reaps by process id, and dropping it neither waits nor kills.
        command.spawn().map(|child| child.id()).map_err(|error| explain(error, program, &folder))
    }
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
    match fs::create_dir(folder) {
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
