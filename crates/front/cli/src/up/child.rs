//! One child process: started in a group of its own (ctrl-C is for the parent), with its output in a file.

use crate::failure::Failure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The first pause before a restart; doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Who ran this long is started again without a pause.
const STEADY: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) name: String,
    /// Another program than this very one.
    pub(super) program: Option<PathBuf>,
    /// Higher ranks are stopped first.
    pub(super) rank: u8,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    pub(super) log: PathBuf,
}

/// What a look at a child showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Runs,
    Died(String),
    Restarted,
}

/// A child and its restarts.
pub(super) struct Child {
    command: Command,
    process: Option<process::Child>,
    pid: u32,
    started: Instant,
    pause: Duration,
}

impl Child {
    pub(super) fn start(command: Command) -> Result<Self, Failure> {
        let process = spawn(&command)?;
        let pid = process.id();
        Ok(Child { command, process: Some(process), pid, started: Instant::now(), pause: PAUSE })
    }

    /// A child that is not started yet.
    pub(super) fn waiting(command: Command) -> Self {
        Child { command, process: None, pid: 0, started: Instant::now(), pause: PAUSE }
    }

    pub(super) fn name(&self) -> &str {
        &self.command.name
    }

    pub(super) fn rank(&self) -> u8 {
        self.command.rank
    }

    pub(super) fn log(&self) -> &Path {
        &self.command.log
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Looks whether it lives; with `restart`, starts it again after its pause.
    pub(super) fn look(&mut self, restart: bool) -> Result<Verdict, Failure> {
        if let Some(process) = &mut self.process {
            let ended = process.try_wait().map_err(|error| Failure::io(format!("child {}", self.pid), error))?;
            let Some(status) = ended else { return Ok(Verdict::Runs) };
            if self.started.elapsed() > STEADY {
                self.pause = PAUSE;
            }
            self.process = None;
            self.started = Instant::now();
            return Ok(Verdict::Died(describe(status)));
        }
        if !restart || self.started.elapsed() < self.pause {
            return Ok(Verdict::Runs);
        }
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.started = Instant::now();
        match spawn(&self.command) {
            Ok(process) => {
                self.pid = process.id();
                self.process = Some(process);
                Ok(Verdict::Restarted)
            }
            // The others run on; this one is tried again.
            Err(failure) => Ok(Verdict::Died(format!("does not start: {failure}"))),
        }
    }

    /// Kills it without a word, and the process `with` that outlives it.
    pub(super) fn strike(&mut self, with: Option<u32>) {
        self.kill();
        if let Some(pid) = with {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
        self.look(false).ok();
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// Asks it to stop. A child is only ever signalled before its end was read, so its number can't be somebody else's.
    pub(super) fn terminate(&mut self) {
        if self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid as i32), Signal::SIGTERM);
        }
    }

    pub(super) fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
        }
    }
}

/// The last thing a process said in its log, without the time and level before it.
pub(super) fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.split_once(" ERROR ").map_or(line, |(_, said)| said).to_string()
}

fn spawn(command: &Command) -> Result<process::Child, Failure> {
    let log = OpenOptions::new().create(true).append(true).open(&command.log);
    let log = log.map_err(|error| Failure::io(command.log.display().to_string(), error))?;
    let output = log.try_clone().map_err(|error| Failure::io(command.log.display().to_string(), error))?;
    let mut process = match &command.program {
        Some(program) => process::Command::new(program),
        // This very program, even if its file was replaced meanwhile.
        None => {
            let mut process = process::Command::new("/proc/self/exe");
            process.arg0("ohm");
            process
        }
    };
    process
        .args(&command.arguments)
        .env("OHM_PARENT", process::id().to_string())
        // A cell of this machine's own loopback needs no certificates; those of another one must not confuse it.
        .env_remove("OHM_TLS_CA")
        .env_remove("OHM_TLS_CERT")
        .env_remove("OHM_TLS_KEY")
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::io(format!("starting {}", command.name), error))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}
