//! The process that plays the nodes of the trace: `ohm agent --sim FILE`.

use super::documents::RunName;
use crate::failure::Failure;
use crate::globals::Globals;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to stop by itself.
const STOPPING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// The running process and its folder. Both are gone when this is dropped.
pub(super) struct SimAgent {
    child: Child,
    folder: PathBuf,
}

impl SimAgent {
    /// Starts it with the Node documents `nodes`.
    ///
    /// # Errors
    /// A temporary folder that cannot be written, or a process that cannot be started.
    pub(super) fn start(run: &RunName, nodes: &str, globals: &Globals) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(run.as_str());
        let shown = |error| Failure::io(folder.display().to_string(), error);
        // It must not be there yet: nobody else's folder is written to.
        DirBuilder::new().mode(0o700).create(&folder).map_err(shown)?;
        let started = spawn(&folder, nodes, globals);
        if started.is_err() {
            // What was not started needs no folder; a folder that stays behind does no harm.
            let _ = std::fs::remove_dir_all(&folder);
        }
        started.map(|child| SimAgent { child, folder })
    }

    /// Fails once it has ended, with the last thing it said.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        let ended = self.child.try_wait().map_err(|error| Failure::io("the agent of the trace's nodes", error))?;
        let Some(status) = ended else { return Ok(()) };
        let log = std::fs::read_to_string(self.folder.join("agent.log")).unwrap_or_default();
        let said = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing was said").trim();
        Err(Failure::Failed(format!("the agent of the trace's nodes ended ({status}): {said}")))
    }

    /// Asks it to stop, waits, and kills it if it does not.
    fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Its end was not read yet, so the number is still its own.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > STOPPING {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for SimAgent {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn(folder: &std::path::Path, nodes: &str, globals: &Globals) -> Result<Child, Failure> {
    let (list, log) = (folder.join("nodes.json"), folder.join("agent.log"));
    std::fs::write(&list, nodes).map_err(|error| Failure::io(list.display().to_string(), error))?;
    let shown = |error| Failure::io(log.display().to_string(), error);
    let output = File::create(&log).map_err(shown)?;
    let errors = output.try_clone().map_err(shown)?;
    let program = std::env::current_exe().map_err(|error| Failure::io("this program's path", error))?;
    let mut command = Command::new(program);
    command.args(["agent", "--sim"]).arg(&list).args(["--server", &globals.server]);
    if let Some(token) = globals.token()? {
        // Only this user can read a process's environment, everybody its arguments.
        command.env("OHM_TOKEN", token);
    }
    // Its nodes are nobody's successors: it keeps no data folder.
    command.env_remove("OHM_DATA_DIR").env("OHM_PARENT", std::process::id().to_string());
    // In a group of its own: ctrl-C is for this process, which stops its agent when the runs have ended.
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    command.spawn().map_err(|error| Failure::io("starting the agent of the trace's nodes", error))
}
